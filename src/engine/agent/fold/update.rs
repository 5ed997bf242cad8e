//! The members of an update that the fold reads.

use super::node::Node;

/// The members of an update, each as in the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update<'a> {
    pub(super) name: Option<Node<'a>>,
    pub(super) message: Option<Node<'a>>,
    pub(super) content: Option<Node<'a>>,
    pub(super) call: Option<Node<'a>>,
    pub(super) title: Option<Node<'a>>,
    pub(super) kind: Option<Node<'a>>,
    pub(super) status: Option<Node<'a>>,
    pub(super) input: Option<Node<'a>>,
    pub(super) output: Option<Node<'a>>,
    pub(super) locations: Option<Node<'a>>,
    pub(super) entries: Option<Node<'a>>,
}

impl<'a> Update<'a> {
    /// Reads an update object. A `null` member counts as absent.
    pub(super) fn read(update: Node<'a>) -> Self {
        let found = update.pick([
            "sessionUpdate",
            "messageId",
            "content",
            "toolCallId",
            "title",
            "kind",
            "status",
            "rawInput",
            "rawOutput",
            "locations",
            "entries",
        ]);
        let found = found.map(|value| value.filter(|value| value.raw() != "null"));
        let [
            name,
            message,
            content,
            call,
            title,
            kind,
            status,
            input,
            output,
            locations,
            entries,
        ] = found;
        Self {
            name,
            message,
            content,
            call,
            title,
            kind,
            status,
            input,
            output,
            locations,
            entries,
        }
    }
}
