//! A conversation with everything in it that touches the disk. It goes on whatever fails.

use serde_json::Value;

use crate::support::sessions::client::Client;
use crate::support::sessions::logged::is_storage;
use crate::support::sessions::seen::Asked;

/// What `/fail` says.
const FAIL: &str = "the turn failed, as `/fail` requested";

/// What a story's teller knows at its end.
#[derive(Debug, Default)]
pub(super) struct ClientView {
    /// The session that was kept, if it could be made.
    pub(super) kept: Option<String>,
    /// The session that was deleted.
    pub(super) deleted: Option<String>,
    /// The errors that were answered.
    pub(super) errors: Vec<String>,
}

/// Plays the story. `None` if the connection ended.
pub(super) fn tell(client: &mut Client) -> Option<ClientView> {
    let mut client_view = ClientView::default();
    client_view.kept = client_view.new_session(client);
    if let Some(id) = client_view.kept.clone() {
        client_view.ask(client, &id, Asked::text("first words"))?;
        client_view.ask(client, &id, Asked::text("/tool execute"))?;
        client_view.cancel_tool(client, &id)?;
        // A load while a turn runs, and one that is cancelled.
        client_view.begin(client, &id, &[Asked::text("/flood 25 30"), Asked::Load])?;
        let load = client.begin(&id, Asked::Load)?;
        client.cancel_request(load);
        client.wait_for_all()?;
        client_view.ask(client, &id, Asked::text("/fail"))?;
        client_view.ask(client, &id, Asked::Close)?;
        client_view.ask(client, &id, Asked::Load)?;
        client_view.ask(client, &id, Asked::text("/demo"))?;
        client_view.begin(client, &id, &[Asked::text("/tool slow 9"), Asked::Close])?;
        client_view.ask(client, &id, Asked::Resume)?;
        client_view.ask(client, &id, Asked::text("/recall 2"))?;
    }
    client_view.deleted = client_view.new_session(client);
    if let Some(id) = client_view.deleted.clone() {
        client_view.ask(client, &id, Asked::text("to be forgotten"))?;
        client_view.ask(client, &id, Asked::Delete)?;
    }
    if let Err(error) = client.list()? {
        client_view.errors.push(error.to_string());
    }
    Some(client_view)
}

impl ClientView {
    /// Makes a session, at the second attempt if need be.
    fn new_session(&mut self, client: &mut Client) -> Option<String> {
        for _ in 0..2 {
            match client.new_session()? {
                Ok(id) => {
                    client.seen.get_mut(&id).expect("it is known").mends = true;
                    return Some(id);
                }
                Err(error) => self.note(&error),
            }
        }
        None
    }

    fn ask(&mut self, client: &mut Client, id: &str, asked: Asked) -> Option<()> {
        let fails = asked == Asked::text("/fail");
        match client.ask(id, asked)? {
            Err(error) if !(fails && error["message"] == FAIL) => {
                self.note(&error);
            }
            _ => {}
        }
        Some(())
    }

    /// Asks for several things without waiting in between.
    fn begin(&mut self, client: &mut Client, id: &str, all: &[Asked]) -> Option<()> {
        let mut ids = Vec::new();
        for asked in all {
            ids.push(client.begin(id, asked.clone())?);
        }
        for id in ids {
            if let Err(error) = client.wait(id)? {
                self.note(&error);
            }
        }
        Some(())
    }

    /// Cancels a turn while its tool call is in progress.
    fn cancel_tool(&mut self, client: &mut Client, id: &str) -> Option<()> {
        let prompt = client.begin(id, Asked::text("/tool slow 9"))?;
        let before = client.seen[id].events.len();
        while client.seen[id].is_running() && client.seen[id].events.len() < before + 3 {
            client.take()?;
        }
        client.cancel(id);
        if let Err(error) = client.wait(prompt)? {
            self.note(&error);
        }
        Some(())
    }

    fn note(&mut self, error: &Value) {
        let name = error["data"]["error"].as_str().unwrap_or_default();
        // A session that could not be opened is not open.
        let follows = ["session_not_open", "session_not_found"].contains(&name);
        assert!(
            is_storage(error) || follows,
            "not an error of the disk: {error}"
        );
        self.errors.push(error.to_string());
    }
}
