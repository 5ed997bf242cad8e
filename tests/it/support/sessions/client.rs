//! The client's end of a connection: sends requests, and passes to each session's [`Seen`] what
//! came back, in the order in which it came.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::seen::{Asked, Seen};

/// A server that sends nothing for so long is stuck.
const STUCK: Duration = Duration::from_mins(5);

/// What a request was answered with: the result, or the error.
pub(crate) type Answer = Result<Value, Value>;

/// One client, with everything it knows of its sessions.
pub(crate) struct Client {
    input: Option<Box<dyn Write + Send>>,
    lines: Receiver<String>,
    next_id: u64,
    asked: BTreeMap<u64, Option<String>>,
    answers: BTreeMap<u64, Answer>,
    /// The connection counts as broken: what still comes was never received.
    forgotten: bool,
    /// What was seen of each session, by its id.
    pub(crate) seen: BTreeMap<String, Seen>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<u64>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<Notified<'a>>,
    result: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notified<'a> {
    session_id: String,
    #[serde(rename = "_meta", default)]
    meta: Value,
    #[serde(borrow)]
    update: &'a RawValue,
}

impl Client {
    /// A client at these two ends. `lines` gives whole lines without their line break.
    pub(crate) fn new(input: impl Write + Send + 'static, lines: Receiver<String>) -> Self {
        Self {
            input: Some(Box::new(input)),
            lines,
            next_id: 1,
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            forgotten: false,
            seen: BTreeMap::new(),
        }
    }

    /// Sends a request about a session and does not wait. False if the server no longer reads.
    pub(crate) fn begin(&mut self, session: &str, asked: Asked) -> Option<u64> {
        let id = self.next_id;
        let mut params = asked.params();
        params["sessionId"] = session.into();
        let method = asked.method();
        let seen = self.seen.entry(session.to_owned()).or_default();
        seen.asked(id, asked);
        self.request(method, &params, Some(session))
    }

    /// Sends a request about a session and waits for its answer; nothing if the connection ends.
    pub(crate) fn ask(&mut self, session: &str, asked: Asked) -> Option<Answer> {
        let id = self.begin(session, asked)?;
        self.wait(id)
    }

    /// Says hello.
    pub(crate) fn initialize(&mut self) -> Option<Answer> {
        let id = self.request("initialize", &json!({ "protocolVersion": 1 }), None)?;
        self.wait(id)
    }

    /// Asks for a session without waiting; its answer is for [`wait`](Self::wait).
    pub(crate) fn begin_new(&mut self) -> Option<u64> {
        self.request("session/new", &place(), None)
    }

    /// Makes a session.
    pub(crate) fn new_session(&mut self) -> Option<Result<String, Value>> {
        let id = self.begin_new()?;
        let answer = self.wait(id)?;
        Some(answer.map(|result| {
            let id = result["sessionId"].as_str().expect("a session has an id");
            id.to_owned()
        }))
    }

    /// Forks a session; answers with the fork's id.
    pub(crate) fn fork(&mut self, session: &str) -> Option<Result<String, Value>> {
        let mut params = place();
        params["sessionId"] = session.into();
        let id = self.request("session/fork", &params, None)?;
        let answer = self.wait(id)?;
        Some(answer.map(|result| {
            let id = result["sessionId"].as_str().expect("a session has an id");
            id.to_owned()
        }))
    }

    /// Asks for the list of sessions; answers with their ids.
    pub(crate) fn list(&mut self) -> Option<Result<Vec<String>, Value>> {
        let id = self.request("session/list", &json!({}), None)?;
        let id_of = |session: &Value| session["sessionId"].as_str().map(str::to_owned);
        let ids = |result: Value| {
            let sessions = result["sessions"].as_array().cloned();
            sessions.iter().flatten().filter_map(id_of).collect()
        };
        Some(self.wait(id)?.map(ids))
    }

    /// Cancels the running turn of a session.
    pub(crate) fn cancel(&mut self, session: &str) {
        self.send(&json!({
            "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session },
        }));
    }

    /// Cancels a request.
    pub(crate) fn cancel_request(&mut self, id: u64) {
        self.send(&json!({
            "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id },
        }));
    }

    /// Takes messages until a request is answered; nothing if the connection ends before.
    pub(crate) fn wait(&mut self, id: u64) -> Option<Answer> {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return Some(answer);
            }
            assert!(self.asked.contains_key(&id), "no request has the id {id}");
            self.take()?;
        }
    }

    /// Takes messages until nothing is unanswered; nothing if the connection ends before.
    pub(crate) fn wait_for_all(&mut self) -> Option<()> {
        while !self.asked.is_empty() {
            self.take()?;
        }
        Some(())
    }

    /// Whether something is unanswered.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Says no more, and takes what still comes. Fails the test if a request stays unanswered.
    pub(crate) fn leave(&mut self) {
        self.input = None;
        while self.take().is_some() {}
        let open = &self.asked;
        assert!(open.is_empty(), "not answered at the end: {open:?}");
    }

    /// Says no more, and takes what still comes, with no claim to answers.
    pub(crate) fn drain(&mut self) {
        self.input = None;
        while self.take().is_some() {}
    }

    /// Receives nothing from now on. Answers with what was seen until now.
    pub(crate) fn forget(&mut self) -> BTreeMap<String, Seen> {
        self.forgotten = true;
        std::mem::take(&mut self.seen)
    }

    /// Takes one message; nothing at the end of the connection.
    pub(crate) fn take(&mut self) -> Option<()> {
        let line = match self.lines.recv_timeout(STUCK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!(
                "nothing more comes, with these unanswered: {:?}",
                self.asked
            ),
        };
        if self.forgotten {
            return Some(());
        }
        let message: Message<'_> =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let Some(id) = message.id else {
            assert_eq!(message.method.as_deref(), Some("session/update"), "{line}");
            let update = message.params.expect("an update has parameters");
            let seen = self.seen.entry(update.session_id).or_default();
            let replayed = update.meta["rejoin"]["at"].is_string();
            seen.update(update.update.get(), replayed.then_some(&line));
            return Some(());
        };
        let session = self.asked.remove(&id);
        let session = session.unwrap_or_else(|| panic!("an answer to no request: {line}"));
        let answer = match (message.result, message.error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(error),
            _ => panic!("neither result nor error: {line}"),
        };
        if let Some(session) = session {
            let seen = self.seen.entry(session).or_default();
            seen.answered(id, &answer);
        } else if let Ok(Value::String(made)) = answer.as_ref().map(|made| &made["sessionId"]) {
            self.seen.entry(made.clone()).or_default();
        }
        self.answers.insert(id, answer);
        Some(())
    }

    fn request(&mut self, method: &str, params: &Value, session: Option<&str>) -> Option<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, session.map(str::to_owned));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message).then_some(id)
    }

    fn send(&mut self, message: &Value) -> bool {
        let Some(input) = &mut self.input else {
            return false;
        };
        let mut line = message.to_string();
        line.push('\n');
        input.write_all(line.as_bytes()).is_ok()
    }
}

/// Where the sessions of tests work.
pub(crate) fn place() -> Value {
    let cwd = if cfg!(windows) { "C:\\work" } else { "/work" };
    json!({ "cwd": cwd, "mcpServers": [] })
}

/// Reads lines on a thread. `read` gets the number of bytes that came in all, after each read and
/// before the next. A last line without a line break does not count.
pub(crate) fn lines(
    mut output: impl Read + Send + 'static,
    block: usize,
    mut read: impl FnMut(usize) + Send + 'static,
) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; block];
        let mut total = 0;
        loop {
            let count = match output.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => count,
            };
            total += count;
            for part in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                bytes.extend_from_slice(part);
                if bytes.pop_if(|last| *last == b'\n').is_some() {
                    let line = String::from_utf8(std::mem::take(&mut bytes));
                    // The receiver may be gone.
                    sender.send(line.expect("a line is UTF-8")).ok();
                }
            }
            read(total);
        }
    });
    receiver
}
