//! Tracks which tool calls a replay has begun, in bounded memory.
//!
//! A client that receives an update of an unknown call shows an error, or nothing. So the call must
//! be sent before its updates.

use std::borrow::Cow;
use std::mem;

use crate::protocol::update::call_id;
use crate::protocol::{Id, IdSet, UpdateKind};

/// How the replay treats an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The update is replayed.
    Shown,
    /// The update is left out: its turn is left out, or its tool call began in such a turn.
    Hidden,
    /// The update is replayed behind a tool call, since the call that it updates never began.
    Orphan,
}

/// A record of a tool call that the client knew only from a request for permission.
#[derive(Debug)]
pub(super) struct AskedCall {
    id: Id,
    pub(super) at: String,
    pub(super) update: String,
}

/// Tool calls that clients knew from requests for permission. Each is held until the next update: if that
/// is the agent's own `tool_call`, the client has never seen another one.
#[derive(Debug, Default)]
pub(super) struct AskedCalls(Vec<AskedCall>);

impl AskedCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds a record. Returns whether it is one of a call.
    pub(super) fn hold(&mut self, at: &str, update: &str) -> bool {
        let kind = UpdateKind::of(update.as_bytes());
        let id = (kind == UpdateKind::ToolCall).then(|| call_id(update.as_bytes()));
        let Some(id) = id.flatten() else {
            return false;
        };
        self.0.push(AskedCall {
            id: Id::of(&id),
            at: at.to_owned(),
            update: update.to_owned(),
        });
        true
    }

    /// The calls that come before this update, in order. Its own is dropped if it announces that.
    pub(super) fn before(&mut self, kind: UpdateKind, id: Option<&[u8]>) -> Vec<AskedCall> {
        let id = id.map(Id::of);
        let Some(place) = self.0.iter().position(|call| Some(call.id) == id) else {
            return self.take_all();
        };
        let call = self.0.remove(place);
        let announces = kind == UpdateKind::ToolCall;
        (!announces).then_some(call).into_iter().collect()
    }

    /// All calls, in order.
    pub(super) fn take_all(&mut self) -> Vec<AskedCall> {
        mem::take(&mut self.0)
    }
}

/// The tool calls of a session so far.
#[derive(Debug, Default)]
pub(super) struct ReplayedCalls {
    shown: IdSet,
    /// The calls of turns that are left out.
    hidden: IdSet,
    /// Whether there are hidden calls.
    hides: bool,
    /// The call that was shown last. The next update is usually about the same call.
    last: Option<Id>,
}

impl ReplayedCalls {
    /// Records an update of a turn that is replayed.
    pub(super) fn show(&mut self, kind: UpdateKind, id: Option<Cow<'_, [u8]>>) -> Disposition {
        let begins = match kind {
            UpdateKind::ToolCall => true,
            UpdateKind::ToolCallUpdate => false,
            _ => return Disposition::Shown,
        };
        let Some(id) = id.map(|id| Id::of(&id)) else {
            return Disposition::Shown;
        };
        if self.last == Some(id) {
            return Disposition::Shown;
        }
        if !begins && self.hides && self.hidden.has(id) && !self.shown.has(id) {
            return Disposition::Hidden;
        }
        self.last = Some(id);
        if self.shown.add(id) && !begins {
            Disposition::Orphan
        } else {
            Disposition::Shown
        }
    }

    /// Records an update of a turn that is left out.
    pub(super) fn hide(&mut self, kind: UpdateKind, id: Option<Cow<'_, [u8]>>) {
        if kind.is_call()
            && let Some(id) = id
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
        let mut calls = ReplayedCalls::default();
        let id = |id: &'static [u8]| Some(Cow::Borrowed(id));
        let (a, b, c) = (|| id(b"a"), || id(b"b"), || id(b"c"));
        calls.hide(UpdateKind::ToolCallUpdate, a());
        calls.hide(UpdateKind::Plan, c());
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, a()),
            Disposition::Hidden
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, b()),
            Disposition::Orphan
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, b()),
            Disposition::Shown
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCall, b()),
            Disposition::Shown,
            "it comes late"
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, c()),
            Disposition::Orphan
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCall, a()),
            Disposition::Shown,
            "begun anew"
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, a()),
            Disposition::Shown
        );
        assert_eq!(
            calls.show(UpdateKind::ToolCallUpdate, None),
            Disposition::Shown
        );
    }
}
