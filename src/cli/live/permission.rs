//! Answers requests for permission, through a link to the process that has the session open.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::cli::term::one_line;
use rejoin::conversation::PermissionRequest;
use rejoin::engine::ClientCapabilities;
use rejoin::json;
use rejoin::protocol::method::{CANCEL_REQUEST, REQUEST_PERMISSION};
use rejoin::record::header::Implementation;
use rejoin::session::link::message::{ATTACH, Attach, PROTOCOL, text};
use rejoin::store::Store;
use rejoin::sys::{SessionId, lock};
use rejoin::transport::message::{request_line, response_line};

use super::follow::ViewChange;

/// How long to wait before a process is looked for that has the session open.
const AGAIN: Duration = Duration::from_secs(1);

/// The connection on which requests are answered.
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

/// A request for permission that can be answered.
pub(super) struct AskedPermission {
    /// Its id as JSON text.
    pub(super) id: String,
    request: Box<PermissionRequest>,
    output: Output,
}

impl AskedPermission {
    /// The question for the user, on one line.
    pub(super) fn question(&self) -> String {
        one_line(self.request.wanted().as_deref().unwrap_or("Permission?"))
    }

    /// The answers to choose from: what the user types for each, and its name. The first of those that
    /// allow and the first of those that reject are `y` and `n`, and are rather for once than for ever.
    pub(super) fn answers(&self) -> Vec<(String, String)> {
        let (yes, no) = (self.of_kind("allow"), self.of_kind("reject"));
        let mut answers: Vec<_> = self
            .request
            .options
            .iter()
            .enumerate()
            .map(|(place, option)| {
                let key = match Some(place) {
                    place if place == yes => "y".to_owned(),
                    place if place == no => "n".to_owned(),
                    _ => (place + 1).to_string(),
                };
                (key, one_line(&option.name))
            })
            .collect();
        if no.is_none() {
            answers.push(("n".to_owned(), "No".to_owned()));
        }
        answers
    }

    /// The place of the option with this kind.
    fn of_kind(&self, kind: &str) -> Option<usize> {
        let options = &self.request.options;
        let once = format!("{kind}_once");
        let exact = options.iter().position(|option| option.kind == once);
        exact.or_else(|| {
            options
                .iter()
                .position(|option| option.kind.starts_with(kind))
        })
    }

    /// Answers it as the user has typed; whether that was one of the answers.
    pub(super) fn answer(&self, typed: &str) -> bool {
        let key = match typed {
            "yes" => "y",
            "no" => "n",
            typed => typed,
        };
        let answers = self.answers();
        let Some(place) = answers.iter().position(|(known, _)| known == key) else {
            return false;
        };
        let outcome = match self.request.options.get(place) {
            Some(option) => json!({ "outcome": "selected", "optionId": option.id }),
            None => json!({ "outcome": "cancelled" }),
        };
        let result = json!({ "outcome": outcome }).to_string();
        let line = response_line(&self.id, &Ok(result));
        // A process that has ended asks nothing.
        lock(&self.output).write_all(line.as_bytes()).ok();
        true
    }
}

/// Reports the requests for permission of a session, whichever process has it open, until nobody
/// listens.
pub(super) fn watch(store: Store, id: SessionId, changes: Sender<ViewChange>) {
    thread::spawn(move || {
        loop {
            if let Err(error) = read(&store, &id, &changes) {
                tracing::debug!(%error, "the link to the session has ended");
            }
            if changes.send(ViewChange::Grown).is_err() {
                return;
            }
            thread::sleep(AGAIN);
        }
    });
}

fn read(store: &Store, id: &SessionId, changes: &Sender<ViewChange>) -> io::Result<()> {
    let Some(holder) = store.holder(id) else {
        return Ok(());
    };
    let mut stream = store.connect(&holder)?;
    let attach = Attach {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        session_id: id.to_string(),
        name: id.to_string(),
        client: Some(Implementation {
            name: "rejoin attach".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        observe: false,
        pid: std::process::id(),
        abilities: Some(ClientCapabilities::default()),
    };
    let line = request_line("0", ATTACH, &text(&attach));
    stream.output.write_all(line.as_bytes())?;
    let output: Output = Arc::new(Mutex::new(stream.output));
    let mut open = Vec::new();
    for line in BufReader::new(stream.input).lines() {
        let line = line?;
        let member = |name| json::text_member(&line, name);
        let params = member("params").unwrap_or("{}");
        let change = match json::string_member(&line, "method").as_deref() {
            Some(REQUEST_PERMISSION) => {
                let id = member("id").unwrap_or_default();
                let Some(request) = PermissionRequest::asked(id, params) else {
                    continue;
                };
                open.push(id.to_owned());
                ViewChange::Asked(AskedPermission {
                    id: id.to_owned(),
                    request: Box::new(request),
                    output: output.clone(),
                })
            }
            Some(CANCEL_REQUEST) => {
                let id = json::text_member(params, "requestId").unwrap_or_default();
                let line = response_line(id, &Err(CANCELLED.to_owned()));
                lock(&output).write_all(line.as_bytes())?;
                ViewChange::Withdrawn(id.to_owned())
            }
            _ => continue,
        };
        if changes.send(change).is_err() {
            return Ok(());
        }
    }
    for id in open {
        changes.send(ViewChange::Withdrawn(id)).ok();
    }
    Ok(())
}

/// The answer to a request that was withdrawn.
const CANCELLED: &str = r#"{"code":-32800,"message":"Request cancelled"}"#;
