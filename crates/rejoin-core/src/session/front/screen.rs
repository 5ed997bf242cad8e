//! The one way by which updates get to a client, and how far in the log it has been shown.

use std::sync::Arc;

use tokio::time::timeout;

use crate::engine::{Block, Prompt};
use crate::json;
use crate::protocol::meta::{CLIENT, REJOIN};
use crate::protocol::{ClientView, UpdateKind};
use crate::record::Kind;
use crate::replay::{live_params_line, live_record_line};
use crate::session::Client;
use crate::session::link::feed::PATIENCE;
use crate::session::phase::Phase;
use crate::transport::ClientConnection;

/// The memory of a longer line is freed, in bytes.
const LINE_KEPT: usize = 256 * 1024;

/// What a line has besides its payload and the session's id, in bytes.
const LINE_HEAD: usize = 96;

/// What a client sees of a session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the client"
)]
pub(in crate::session) struct ClientScreen {
    client: Arc<ClientConnection>,
    /// The id by which the client asked for the session last, which is the one it gets.
    pub(in crate::session) client_id: String,
    /// How the client sees the session.
    pub(in crate::session) view: ClientView,
    /// How far in the log the client has been shown, in bytes.
    pub(super) position: u64,
    /// Up to where in the log replays have sent the client session cursors, in bytes.
    pub(in crate::session) cursors_sent: u64,
    /// Whether another process wrote what follows in the log. It is then shown with its prompts, which
    /// the client has not seen either.
    pub(super) is_of_others: bool,
    /// Whether the client was shown that a turn runs in that process, and not that it is over.
    pub(super) sees_turn: bool,
    /// The kinds of updates that the client is not sent.
    hidden: Vec<UpdateKind>,
    /// The lines that are being sent.
    line: Vec<u8>,
    /// Whether other clients have the session open, so that this one must not hold it up.
    is_shared: bool,
    /// Whether the client has closed the session, or has gone, so that it is shown nothing.
    is_closed: bool,
    /// Whether the client does not read what it is sent, so that it is shown the log by a thread of its
    /// own.
    pub(in crate::session) is_behind: bool,
}

impl ClientScreen {
    pub(super) fn new(
        connection: Arc<ClientConnection>,
        client_id: String,
        client: &Client,
    ) -> Self {
        Self {
            client: connection,
            client_id,
            view: client.view.fresh(),
            hidden: client.hidden.clone(),
            position: 0,
            cursors_sent: 0,
            is_of_others: false,
            sees_turn: false,
            line: Vec::new(),
            is_shared: false,
            is_closed: false,
            is_behind: false,
        }
    }

    /// Who else has the session open, and whether the client has closed it.
    pub(in crate::session) fn set_audience(&mut self, is_shared: bool, is_closed: bool) {
        self.is_shared = is_shared;
        self.is_closed = is_closed;
        self.is_behind &= !is_closed;
    }

    /// Shows a block that was just appended, beginning at `start` in the log.
    pub(super) async fn show_block(&mut self, block: &Block, start: u64) {
        self.line.clear();
        let heads = block.len() * (LINE_HEAD + self.client_id.len());
        self.line.reserve(block.bytes() + heads);
        for entry in block.iter() {
            if !self.hides(entry.kind, entry.payload) {
                live_record_line(&self.client_id, entry.kind, entry.payload, &mut self.line);
            }
        }
        self.put_lines(Some(start)).await;
    }

    /// Shows a payload in the form that the client sees live. If it is in the log, it begins at `start`.
    pub(super) async fn show(&mut self, kind: Kind, payload: &str, start: Option<u64>) {
        if self.hides(kind, payload) {
            return;
        }
        self.line.clear();
        live_record_line(&self.client_id, kind, payload, &mut self.line);
        self.put_lines(start).await;
    }

    /// Shows the lines of a replay of one record, which begins at `start` in the log.
    pub(super) async fn show_lines(&mut self, lines: Vec<u8>, start: u64) {
        self.line = lines;
        self.put_lines(Some(start)).await;
    }

    /// Whether a record is an event of a kind that the client is not sent.
    fn hides(&self, kind: Kind, payload: &str) -> bool {
        let is_event = matches!(kind, Kind::Transient | Kind::TransientV2);
        is_event && {
            let update = json::text_member(payload, "update").unwrap_or(payload);
            self.hidden.contains(&UpdateKind::of(update.as_bytes()))
        }
    }

    async fn put_lines(&mut self, start: Option<u64>) {
        if self.is_closed {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        self.view.lines(&mut line);
        self.put(&line, start).await;
        if line.capacity() <= LINE_KEPT {
            self.line = line;
        }
    }

    /// Shows a prompt to a client of version 2: its own, or that of another client, by its name. Its
    /// record begins at `start` in the log.
    pub(super) async fn show_user_message(
        &mut self,
        prompt: &Prompt,
        by: Option<&str>,
        start: u64,
    ) {
        let blocks = json::text_member(&prompt.params, "prompt").unwrap_or("[]");
        let update = json::Object::new()
            .string("sessionUpdate", "user_message")
            .string("messageId", &prompt.message_id)
            .raw("content", blocks)
            .end();
        let mut params = json::Object::new();
        if let Some(client) = by {
            let meta = serde_json::json!({ REJOIN: { CLIENT: client } }).to_string();
            params = params.raw("_meta", &meta);
        }
        let params = params.raw("update", &update).end();
        self.show_own(&params, Some(start)).await;
    }

    /// Shows what the session is doing. `is_interrupted` says whether its last turn was.
    pub(super) async fn show_state(&mut self, phase: &Phase, is_interrupted: bool) {
        let mut params = phase.params();
        if is_interrupted && *phase == Phase::Idle(None) {
            // Nothing else says why the history ends there.
            let meta = serde_json::json!({ REJOIN: { "interrupted": true } }).to_string();
            let update = json::text_member(&params, "update").unwrap_or("{}");
            let noted = json::Object::new().raw("_meta", &meta);
            params = noted.raw("update", update).end();
        }
        self.show_own(&params, None).await;
    }

    /// Sends an update that has the form of the client's version already. `params` are the
    /// parameters of the notification without the session's id.
    async fn show_own(&mut self, params: &str, start: Option<u64>) {
        let mut line = Vec::new();
        live_params_line(&self.client_id, params, &mut line);
        self.put(&line, start).await;
    }

    /// Sends the client whole lines. If other clients have the session open, it has to read soon:
    /// otherwise it goes on in the log, at `start` if that is where the lines come from.
    pub(in crate::session) async fn put(&mut self, lines: &[u8], start: Option<u64>) {
        if self.is_closed || lines.is_empty() {
            return;
        }
        if self.is_behind {
            // Nothing of the log is sent so, and nobody waits for a client that does not read.
            for line in lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                self.client.writer.put_line(line).ok();
            }
            return;
        }
        let client = self.client.clone();
        let sent = client.writer.control(lines);
        if !self.is_shared {
            // A client that is gone needs nothing; the log has it.
            sent.await.ok();
        } else if timeout(PATIENCE, sent).await.is_err() {
            self.is_behind = true;
            self.position = start.unwrap_or(self.position);
        }
    }
}
