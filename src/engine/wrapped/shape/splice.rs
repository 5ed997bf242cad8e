//! The one change that an update's text may need: an id that is put in, or made longer.

use super::scan::Span;

/// A change of a text: what stands at a place is replaced by an id or a part of one.
pub(super) struct Splice<'a> {
    at: Span,
    before: &'static str,
    /// What is put there, as it stands between quotes.
    body: &'a str,
    number: u32,
    behind: &'static str,
}

impl<'a> Splice<'a> {
    /// A number behind the id that stands, in quotes, at `id`.
    pub(super) fn number(id: Span, number: u32) -> Option<Self> {
        (number > 0).then(|| Self {
            at: Span::empty(id.end - 1),
            before: "",
            body: "",
            number,
            behind: "",
        })
    }

    /// An id of a message: in place of a `null`, or as a new member of `update`.
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
