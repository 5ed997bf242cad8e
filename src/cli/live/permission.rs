//! Answers requests for permission, through a link to the process that has the session open.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::term::one_line;
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

/// A request for permission.
pub(super) struct AskedPermission {
    /// Its id as JSON text.
    pub(super) id: String,
    /// The title of the tool call.
    pub(super) title: String,
    /// The words for yes and no, from the names of the options.
    pub(super) yes: String,
    pub(super) no: String,
    /// The ids of the options.
    options: [Option<String>; 2],
    output: Output,
}

impl AskedPermission {
    /// Answers it.
    pub(super) fn answer(self, allow: bool) {
        let [yes, no] = self.options;
        let option = if allow { yes } else { no };
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        let result = json!({ "outcome": outcome }).to_string();
        let line = response_line(&self.id, &Ok(result));
        // A process that has ended asks nothing.
        lock(&self.output).write_all(line.as_bytes()).ok();
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
                let Some(id) = member("id") else { continue };
                open.push(id.to_owned());
                ViewChange::Asked(asked(id, params, output.clone()))
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

/// A request with these parameters.
fn asked(id: &str, params: &str, output: Output) -> AskedPermission {
    let params = json::tree(params).unwrap_or_default();
    let titles = [&params["title"], &params["toolCall"]["title"]];
    let mut titles = titles.into_iter().filter_map(Value::as_str);
    let options = params["options"].as_array().cloned().unwrap_or_default();
    let of_kind = |kind: &str| {
        let once = format!("{kind}_once");
        let has = |option: &&Value, exact: bool| {
            let this = option["kind"].as_str().unwrap_or_default();
            if exact {
                this == once
            } else {
                this.starts_with(kind)
            }
        };
        let option = options.iter().find(|option| has(option, true));
        option.or_else(|| options.iter().find(|option| has(option, false)))
    };
    let (yes, no) = (of_kind("allow"), of_kind("reject"));
    let text = |option: Option<&Value>, name: &str| Some(option?[name].as_str()?.to_owned());
    let named = |option, else_: &str| {
        let name = text(option, "name");
        one_line(name.as_deref().unwrap_or(else_))
    };
    AskedPermission {
        id: id.to_owned(),
        title: one_line(titles.next().unwrap_or("Permission?")),
        yes: named(yes, "Yes"),
        no: named(no, "No"),
        options: [text(yes, "optionId"), text(no, "optionId")],
        output,
    }
}
