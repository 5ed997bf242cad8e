//! Keeps titles out of sight that an agent has made of context that was meant for it alone.
//!
//! Many agents name a session after the beginning of its first prompt. In a session that goes on
//! from a transcript, that is the transcript's first sentence.

use std::borrow::Cow;

use crate::json::{text_member, text_members};
use crate::record::title::named;

use super::fold::OPENINGS;
use super::said::with_members;

/// How many characters of our own, without white space, tell that a title was made of them.
const CERTAIN: usize = 30;

/// The same for a title that was cut short, or in a session that was given context.
const LIKELY: usize = 12;

/// What is known of a session's titles.
#[derive(Debug, Default)]
pub(super) struct Titles {
    /// Whether the agent has named it.
    named: bool,
    context: Context,
}

/// Whether the agent was given context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Context {
    #[default]
    Never,
    /// In an earlier turn.
    Before,
    /// In the turn that runs.
    Now,
}

impl Titles {
    /// `last` is the last `session_info_update` that the log has.
    pub(super) fn new(last: Option<&String>) -> Self {
        let title = last.and_then(|payload| named(payload)).flatten();
        Self {
            // Earlier versions have kept such titles.
            named: title.is_some_and(|title| !is_of_context(&title, false)),
            context: Context::Never,
        }
    }

    /// A turn begins, perhaps with context in front of the prompt.
    pub(super) fn turn_begins(&mut self, with_context: bool) {
        if with_context {
            self.context = Context::Now;
        }
    }

    /// The turn has ended.
    pub(super) fn turn_ends(&mut self) {
        if self.context == Context::Now {
            self.context = Context::Before;
        }
    }

    /// An update that says how things are now, without a title that is not to be shown; `None` if
    /// nothing else is in it.
    pub(super) fn shown<'a>(&mut self, payload: &'a str) -> Option<Cow<'a, str>> {
        let Some(Some(title)) = named(payload) else {
            return Some(payload.into());
        };
        // A session that has a name needs no other one in a turn that begins with context.
        let renamed = self.named && self.context == Context::Now;
        if !renamed && !is_of_context(&title, self.context != Context::Never) {
            self.named = true;
            return Some(payload.into());
        }
        let Some(update) = text_member(payload, "update") else {
            return without_title(payload).map(Cow::Owned);
        };
        let update = without_title(update)?;
        Some(with_members(payload, &[], &[("update", &update)]).into())
    }
}

/// An entry of the agent's own list, without a title that was made of context.
pub(super) fn listed(entry: String) -> String {
    let title = crate::json::string_member(&entry, "title");
    match title.filter(|title| is_of_context(title, false)) {
        Some(_) => with_members(&entry, &["title"], &[]),
        None => entry,
    }
}

fn without_title(update: &str) -> Option<String> {
    let update = with_members(update, &["title"], &[]);
    (text_members(&update).len() > 1).then_some(update)
}

/// Whether a title was made of the beginning of a context: the beginning itself, perhaps cut short
/// or behind a word of the agent's.
fn is_of_context(title: &str, given: bool) -> bool {
    let title: String = title.split_whitespace().collect();
    let whole = title.trim_end_matches(['…', '.']);
    let cut = whole.len() < title.len();
    let least = if given || cut { LIKELY } else { CERTAIN };
    OPENINGS.iter().any(|opening| {
        let opening: String = opening.split_whitespace().collect();
        let begins = opening.starts_with(whole) && whole.chars().count() >= least;
        let beginning: String = opening.chars().take(CERTAIN).collect();
        begins || whole.contains(&beginning)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(title: &str) -> String {
        json!({ "sessionUpdate": "session_info_update", "title": title }).to_string()
    }

    #[test]
    fn titles_of_our_own_words_are_recognised() {
        let long = "Below is a record of the conversation so far between the user and an agent";
        for (title, given, expected) in [
            (long, false, true),
            (&format!("Re: {long}"), false, true),
            (
                "Below is a record of the conversation\nso far…",
                false,
                true,
            ),
            ("Below is a record of…", false, true),
            ("Below is a record of", false, false),
            ("Below is a record of", true, true),
            ("Below is a record of the meeting", true, false),
            ("Below…", true, false),
            ("A record of the conversation", false, false),
            (
                "A record of the conversation so far, to be continued.",
                false,
                true,
            ),
            ("Add a test", true, false),
        ] {
            assert_eq!(is_of_context(title, given), expected, "{title}");
        }
    }

    #[test]
    fn what_else_an_update_says_is_shown() {
        let mut titles = Titles::default();
        let own = r#"{"sessionUpdate":"session_info_update","title":"Below is a record of the conversation so far","n":1e400}"#;
        let shown = r#"{"sessionUpdate":"session_info_update","n":1e400}"#;
        assert_eq!(titles.shown(own).as_deref(), Some(shown));
        let params = format!(r#"{{"update":{own},"_meta":{{}}}}"#);
        let shown = format!(r#"{{"_meta":{{}},"update":{shown}}}"#);
        assert_eq!(titles.shown(&params).as_deref(), Some(&*shown));
        assert_eq!(titles.shown(&update("Below is a record of…")), None);
        let mode = r#"{"sessionUpdate":"current_mode_update","title":"x"}"#;
        assert_eq!(titles.shown(mode).as_deref(), Some(mode));
    }

    #[test]
    fn a_name_outlives_the_turn_that_begins_with_context() {
        let mut titles = Titles::new(Some(&update("Mine")));
        titles.turn_begins(true);
        assert_eq!(titles.shown(&update("Another")), None);
        titles.turn_ends();
        titles.turn_begins(false);
        assert_eq!(titles.shown(&update("Below is a record of the")), None);
        assert!(titles.shown(&update("Another")).is_some());
        let mut titles = Titles::default();
        titles.turn_begins(true);
        assert!(titles.shown(&update("The first")).is_some());
        assert_eq!(titles.shown(&update("The second")), None);
    }

    #[test]
    fn a_list_has_no_title_of_our_words() {
        let entry = |title: &str| format!(r#"{{"sessionId":"a","title":"{title}","n":1e400}}"#);
        let own = entry("Below is a record of the conversation so far between");
        assert_eq!(listed(own), r#"{"sessionId":"a","n":1e400}"#);
        assert_eq!(listed(entry("Mine")), entry("Mine"));
    }
}
