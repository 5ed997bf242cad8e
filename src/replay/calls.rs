//! Which tool calls a replay has begun, in little memory however many they are.
//!
//! A client that meets an update of a call it does not know shows an error, or nothing. So before
//! an update is sent, its call must have been.

use super::ids::{Id, Ids};
use super::topic::{Topic, call_id};

/// What is to be done with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is replayed.
    Shown,
    /// It is left out: it belongs to a turn that is, or to a tool call begun in one.
    Hidden,
    /// It is replayed as the call that it updates, since that was never begun.
    Orphan,
}

/// The tool calls of a session so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    shown: Ids,
    /// Those of turns that are left out.
    hidden: Ids,
    /// Whether there are any of those.
    hides: bool,
    /// The one that was shown last: what comes next is mostly about the same.
    last: Option<Id>,
}

impl Calls {
    /// Takes note of an update of a turn that is replayed.
    pub(super) fn show(&mut self, topic: Topic, update: &[u8]) -> Fate {
        let begins = match topic {
            Topic::Call => true,
            Topic::CallUpdate => false,
            _ => return Fate::Shown,
        };
        let Some(id) = call_id(update).map(|id| Id::of(&id)) else {
            return Fate::Shown;
        };
        if self.last == Some(id) {
            return Fate::Shown;
        }
        if !begins && self.hides && self.hidden.has(id) && !self.shown.has(id) {
            return Fate::Hidden;
        }
        self.last = Some(id);
        if self.shown.add(id) && !begins {
            Fate::Orphan
        } else {
            Fate::Shown
        }
    }

    /// Takes note of an update of a turn that is left out.
    pub(super) fn hide(&mut self, topic: Topic, update: &[u8]) {
        if matches!(topic, Topic::Call | Topic::CallUpdate)
            && let Some(id) = call_id(update)
        {
            self.hides = true;
            self.hidden.add(Id::of(&id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_needs_its_call() {
        let mut calls = Calls::default();
        let a = br#"{"toolCallId":"a"}"#;
        let b = br#"{"toolCallId":"\u0062"}"#;
        let c = br#"{"toolCallId":"c"}"#;
        calls.hide(Topic::CallUpdate, a);
        calls.hide(Topic::Plan, c);
        assert_eq!(calls.show(Topic::CallUpdate, a), Fate::Hidden);
        assert_eq!(calls.show(Topic::CallUpdate, b), Fate::Orphan);
        assert_eq!(calls.show(Topic::CallUpdate, b), Fate::Shown);
        assert_eq!(calls.show(Topic::Call, b), Fate::Shown, "it comes late");
        assert_eq!(calls.show(Topic::CallUpdate, c), Fate::Orphan);
        assert_eq!(calls.show(Topic::Call, a), Fate::Shown, "begun anew");
        assert_eq!(calls.show(Topic::CallUpdate, a), Fate::Shown);
        assert_eq!(calls.show(Topic::CallUpdate, b"{}"), Fate::Shown);
    }
}
