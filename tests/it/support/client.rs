//! A client that sends requests and waits for what comes.

use std::io::Write;

use serde_json::{Value, json};

use super::agent::{GUARD, Inbox};

/// A client.
pub(crate) struct Client {
    input: Box<dyn Write + Send>,
    inbox: Inbox,
    last: u64,
}

impl Client {
    /// A client that writes and reads these, and has initialized the connection.
    pub(crate) fn new(input: Box<dyn Write + Send>, inbox: Inbox, version: u8) -> Self {
        let mut client = Self {
            input,
            inbox,
            last: 0,
        };
        let info = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": version, "info": info, "clientInfo": info });
        let answer = client.answer("initialize", &hello);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("it is read");
    }

    /// Sends a request; its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The first message that is wanted, behind those that are passed over.
    pub(crate) fn until(&self, is_wanted: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut passed = Vec::new();
        loop {
            let line = self.inbox.next(GUARD).expect("something comes");
            let line = line.unwrap_or_else(|| panic!("no more comes after {passed:?}"));
            let message: Value = serde_json::from_slice(&line).expect("a message is JSON");
            if is_wanted(&message) {
                return (passed, message);
            }
            passed.push(message);
        }
    }

    /// The answer to a request, and what came before it.
    pub(crate) fn take(&self, id: u64) -> (Vec<Value>, Value) {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a request; its answer.
    pub(crate) fn answer(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.take(id).1
    }

    /// Sends no more; waits until nothing more comes.
    #[cfg(unix)]
    pub(crate) fn end(self) -> Vec<Value> {
        drop(self.input);
        let mut rest = Vec::new();
        while let Some(line) = self.inbox.next(GUARD).expect("it ends") {
            rest.push(serde_json::from_slice(&line).expect("a message is JSON"));
        }
        rest
    }
}
