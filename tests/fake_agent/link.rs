//! The connection to the client: lines out, and answers to the threads that wait for them.

use std::collections::HashMap;
use std::io::{Stdout, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use crate::message::quoted;

/// The client's end of our stdio.
#[derive(Debug)]
pub(crate) struct Link {
    out: Stdout,
    string_ids: bool,
    next: AtomicU64,
    /// Who waits for which answer, by the id's JSON text.
    waiting: Mutex<HashMap<String, Sender<String>>>,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The id's JSON text.
    pub(crate) id: String,
    answer: Receiver<String>,
}

impl Begun {
    /// The result's JSON text, or the error's as the member of an object.
    pub(crate) fn wait(self) -> String {
        // No answer comes when the input has ended, and then the process ends.
        self.answer.recv().unwrap_or_default()
    }
}

impl Link {
    pub(crate) fn new(string_ids: bool) -> Self {
        Self {
            out: std::io::stdout(),
            string_ids,
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Writes bytes as they are. A client that is gone also ends our input, so errors say nothing.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut out = self.out.lock();
        out.write_all(bytes).and_then(|()| out.flush()).ok();
    }

    /// Writes a line.
    pub(crate) fn line(&self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Sends an `update` object.
    pub(crate) fn update(&self, session: &str, update: &str) {
        self.line(&update_line(session, update));
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &str) {
        let method = quoted(method);
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#
        ));
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: &str, result: &str) {
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&self, id: &str, error: &Refusal) {
        let data = error.data.as_ref().map(|data| format!(r#","data":{data}"#));
        let data = data.unwrap_or_default();
        let (code, message) = (error.code, quoted(&error.message));
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#
        ));
    }

    /// Sends a request and waits for its answer, as [`Begun::wait`] has it.
    pub(crate) fn ask(&self, method: &str, params: &str) -> String {
        self.begin(method, params).wait()
    }

    /// Sends a request.
    pub(crate) fn begin(&self, method: &str, params: &str) -> Begun {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = if self.string_ids {
            format!("\"ask-{number}\"")
        } else {
            number.to_string()
        };
        let (sender, answer) = mpsc::channel();
        self.waiting().insert(id.clone(), sender);
        let method = quoted(method);
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#
        ));
        Begun { id, answer }
    }

    /// An answer came.
    pub(crate) fn answered(&self, id: &str, answer: String) {
        if let Some(sender) = self.waiting().remove(id) {
            sender.send(answer).ok();
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, Sender<String>>> {
        self.waiting.lock().expect("no thread panics with it")
    }
}

/// The line with an `update` object.
pub(crate) fn update_line(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

/// A JSON-RPC error.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// JSON text.
    pub(crate) data: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: i64, message: &str) -> Self {
        Self {
            code,
            message: message.to_owned(),
            data: None,
        }
    }
}
