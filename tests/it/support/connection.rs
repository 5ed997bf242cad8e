//! One connection of a transcript: what was sent, what came, what is left to answer.

use std::io::Read;
use std::time::Duration;

use super::agent::{Agent, GUARD, Inbox};
use super::conform::Watch;
use super::json::Json;

/// A line that came, and the message it is.
pub(super) type Came = (Vec<u8>, Json);

/// An agent, and what was said to it and by it.
pub(super) struct Connection {
    pub(super) agent: Box<dyn Agent>,
    pub(super) inbox: Inbox,
    pub(super) watch: Watch,
    /// The beginning of a line that is not whole yet.
    part: Vec<u8>,
    /// Came, and did not fit what may come often.
    pub(super) ahead: Option<Came>,
    /// The names of the updates that the transcript is not about, which are passed over.
    unmentioned: Vec<&'static str>,
    /// Whether it was asked to end.
    pub(super) ending: bool,
}

impl Connection {
    /// Talks to an agent, which may wrap another one.
    pub(super) fn new(
        (agent, output): (Box<dyn Agent>, Box<dyn Read + Send>),
        wraps: bool,
        unmentioned: Vec<&'static str>,
    ) -> Self {
        Self {
            agent,
            inbox: Inbox::new(output),
            watch: Watch::new(wraps),
            part: Vec::new(),
            ahead: None,
            unmentioned,
            ending: false,
        }
    }

    /// Sends bytes, which may be part of a line.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.part.extend_from_slice(bytes);
        while let Some(end) = self.part.iter().position(|byte| *byte == b'\n') {
            self.watch.sent(&self.part[..end]);
            self.part.drain(..=end);
        }
        let sent = self.agent.send(bytes);
        sent.map_err(|error| format!("cannot be sent: {error}"))
    }

    /// The next line; `None` if there will be no more.
    pub(super) fn next(&mut self, within: Duration) -> Result<Option<Came>, String> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        loop {
            let came = self.line(within)?;
            match &came {
                Some((_, json)) if self.passes_over(json) => {}
                _ => return Ok(came),
            }
        }
    }

    fn passes_over(&self, line: &Json) -> bool {
        update_name(line).is_some_and(|name| self.unmentioned.contains(&name))
    }

    fn line(&mut self, within: Duration) -> Result<Option<Came>, String> {
        let Some(line) = self.inbox.next(within)? else {
            return Ok(None);
        };
        let Some(message) = line.strip_suffix(b"\n") else {
            return Err(format!("half a line: {}", String::from_utf8_lossy(&line)));
        };
        let json = self.watch.received(message);
        let json = json.map_err(|wrong| format!("{wrong}: {}", String::from_utf8_lossy(&line)))?;
        Ok(Some((line, json)))
    }

    /// Says that nothing more will be sent.
    pub(super) fn end_input(&mut self) {
        let part = std::mem::take(&mut self.part);
        if !part.is_empty() {
            self.watch.sent(&part);
        }
        self.agent.end_input();
        self.ending = true;
    }

    /// Ends the input, if that was not done; nothing more may come, and nothing be left to
    /// answer.
    pub(super) fn end(mut self) -> Result<(), String> {
        if !self.ending {
            self.end_input();
        }
        self.inbox.go_on();
        if let Some((line, _)) = self.next(GUARD)? {
            return Err(format!("unread: {}", String::from_utf8_lossy(&line)));
        }
        let ended = self.agent.wait();
        ended.map_err(|wrong| format!("{wrong}\nstderr: {}", self.agent.said()))?;
        match self.watch.unanswered() {
            open if open.is_empty() => Ok(()),
            open => Err(format!("never answered: {}", open.join(", "))),
        }
    }
}

/// The name of the update in a line.
fn update_name(line: &Json) -> Option<&str> {
    let update = line.get("params")?.get("update")?;
    update.get("sessionUpdate")?.text()
}
