//! The one change that an update's text may need: an id is inserted, or a number appended to it.

use crate::record::scan::Span;

/// Replaces a range of a text by an id or a part of one.
pub(super) struct Splice<'a> {
    at: Span,
    before: &'static str,
    /// The new text, escaped as between quotes.
    body: &'a str,
    number: u32,
    behind: &'static str,
}

impl<'a> Splice<'a> {
    /// Appends a number to the quoted id at `id`.
    pub(super) fn number(id: Span, number: u32) -> Option<Self> {
        (number > 0).then(|| Self {
            at: Span::empty(id.end - 1),
            before: "",
            body: "",
            number,
            behind: "",
        })
    }

    /// Inserts a message's id: in place of a `null`, or as a new member of `update`.
    pub(super) fn message(null: Option<Span>, update: Span, body: &'a str, number: u32) -> Self {
        let (at, before) = match null {
            Some(null) => (null, "\""),
            None => (Span::empty(update.end - 1), ",\"messageId\":\""),
        };
        Self {
            at,
            before,
            body,
            number,
            behind: "\"",
        }
    }

    pub(super) fn apply(&self, text: &str) -> String {
        let number = if self.number == 0 {
            String::new()
        } else {
            format!("~{}", self.number)
        };
        let (before, behind) = (&text[..self.at.start], &text[self.at.end..]);
        [before, self.before, self.body, &number, self.behind, behind].concat()
    }
}
