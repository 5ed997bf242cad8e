//! Hides a briefing where an agent shows words of it.
//!
//! Many agents name a session after the beginning of its first prompt. In a session that continues
//! from a briefing, that is the briefing's first sentence. Some repeat prompts in messages of their own.

use std::borrow::Cow;

use memchr::memmem;

use crate::briefing::OPENINGS;
use crate::json::{text_member, text_members, with_members};
use crate::record::metadata::title_of_client;
use crate::record::title::named;

/// How many characters of a briefing's opening, without white space, identify a title as derived
/// from it.
const UNAMBIGUOUS: usize = 30;

/// How many characters of a briefing's opening, without white space, identify a title that was
/// shortened, or of a session with a briefing.
const LIKELY: usize = 12;

/// How much of the user's words is shown in place of a text that was derived from a briefing, in
/// characters.
const WORDS: usize = 200;

/// A prompt that was sent behind a briefing.
#[derive(Clone, Debug)]
pub(in crate::engine::agent) struct Briefed {
    briefing: String,
    /// The beginning of what the user said.
    words: String,
}

impl Briefed {
    /// By the briefing and the text of the prompt.
    pub(super) fn new(briefing: &str, prompt: &str) -> Self {
        Self {
            briefing: briefing.to_owned(),
            words: prompt.chars().take(WORDS).collect(),
        }
    }

    /// Whether a text may have words of a briefing in it.
    pub(in crate::engine::agent) fn may_be_in(text: &str) -> bool {
        let has = |words: &str| memmem::find(text.as_bytes(), words.as_bytes()).is_some();
        COMMON.iter().any(|words| has(words))
    }

    /// The text without the briefing of any of these prompts, or the user's words in its place if it was
    /// derived from a briefing. `None` if it has nothing of one.
    pub(in crate::engine::agent) fn hide(briefed: &[Self], text: &str) -> Option<String> {
        if let Some(one) = briefed.iter().find(|one| text.contains(&one.briefing)) {
            return Some(text.replace(&one.briefing, "").trim_start().to_owned());
        }
        if !is_of_context(text, !briefed.is_empty()) {
            return None;
        }
        let words = match briefed {
            [one] => one.words.chars().take(text.chars().count()).collect(),
            _ => String::new(),
        };
        Some(words)
    }
}

/// The common beginnings of briefings.
const COMMON: [&str; 2] = ["Below is a record of", "A record of the"];

/// Tracks the titles of a session.
#[derive(Debug, Default)]
pub(in crate::engine::agent) struct AgentTitles {
    giver: TitleGiver,
    context: BriefingSent,
    /// The last prompt, if it was sent behind a briefing.
    pub(super) briefed: Option<Briefed>,
    /// How often the agent's list was looked at for a title.
    looks: u32,
}

/// How often the agent's list is looked at for the title of a session: some agents give none.
const MOST_LOOKS: u32 = 6;

/// Who has given a session its title.
#[derive(Debug, Default, PartialEq, Eq)]
enum TitleGiver {
    /// There is no title.
    #[default]
    Nobody,
    /// There was this title in the log when the session was opened: the agent's, or ours.
    Unknown(String),
    /// The title is ours, made of the first prompt.
    Ourselves,
    /// The agent has sent the title, or a client has set it.
    Other,
}

/// When the agent was sent a briefing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BriefingSent {
    #[default]
    Never,
    /// In an earlier turn.
    Before,
    /// In the running turn.
    Now,
}

impl AgentTitles {
    /// `last` is the last `session_info_update` in the log.
    pub(super) fn new(last: Option<&String>) -> Self {
        let title = last.and_then(|payload| named(payload)).flatten();
        // Earlier versions did not hide such titles.
        let title = title.filter(|title| !is_of_context(title, false));
        let giver = match title {
            _ if last.is_some_and(|payload| title_of_client(payload).is_some()) => {
                TitleGiver::Other
            }
            Some(title) => TitleGiver::Unknown(title),
            None => TitleGiver::Nobody,
        };
        Self {
            giver,
            ..Self::default()
        }
    }

    /// Whether the agent's list need not be looked at: the session has a title that the agent has sent or a
    /// client has set, or the list was looked at often enough.
    pub(in crate::engine::agent) fn are_settled(&self) -> bool {
        self.are_given() || self.looks >= MOST_LOOKS
    }

    /// Whether it has one, where `made` is the title that was made of the first prompt.
    pub(in crate::engine::agent) fn is_given_unlike(&mut self, made: Option<String>) -> bool {
        if let TitleGiver::Unknown(recorded) = &self.giver {
            self.giver = if made.as_ref() == Some(recorded) {
                TitleGiver::Ourselves
            } else {
                TitleGiver::Other
            };
        }
        self.are_given()
    }

    /// Whether the agent's list is to be looked at again.
    pub(in crate::engine::agent) fn looks(&mut self) -> bool {
        self.looks += 1;
        !self.are_given() && self.looks <= MOST_LOOKS
    }

    /// Whether a title from the agent's list is taken.
    pub(in crate::engine::agent) fn takes(&mut self) -> bool {
        std::mem::replace(&mut self.giver, TitleGiver::Other) != TitleGiver::Other
    }

    fn are_given(&self) -> bool {
        self.giver == TitleGiver::Other
    }

    /// A turn begins, perhaps with a briefing before the prompt.
    pub(super) fn turn_begins(&mut self, briefed: Option<Briefed>) {
        if briefed.is_some() {
            self.context = BriefingSent::Now;
        }
        self.briefed = briefed;
    }

    /// The turn has ended.
    pub(super) fn turn_ends(&mut self) {
        if self.context == BriefingSent::Now {
            self.context = BriefingSent::Before;
        }
    }

    /// A snapshot without a title that must be hidden; `None` if nothing else is in it.
    pub(super) fn shown<'a>(&mut self, payload: &'a str) -> Option<Cow<'a, str>> {
        let Some(Some(title)) = named(payload) else {
            return Some(payload.into());
        };
        // A title that comes in a turn with a briefing does not replace an earlier one.
        let renamed = self.giver != TitleGiver::Nobody && self.context == BriefingSent::Now;
        if !renamed && !is_of_context(&title, self.context != BriefingSent::Never) {
            self.giver = TitleGiver::Other;
            return Some(payload.into());
        }
        let Some(update) = text_member(payload, "update") else {
            return without_title(payload).map(Cow::Owned);
        };
        let update = without_title(update)?;
        Some(with_members(payload, &[], &[("update", &update)]).into())
    }
}

/// An entry of the agent's own list, without a title that was derived from a briefing.
pub(in crate::engine::agent) fn listed(entry: String) -> String {
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

/// Whether a title was derived from a briefing: it is its opening, perhaps shortened or after a
/// word of the agent.
fn is_of_context(title: &str, given: bool) -> bool {
    let title: String = title.split_whitespace().collect();
    let whole = title.trim_end_matches(['…', '.']);
    let cut = whole.len() < title.len();
    let least = if given || cut { LIKELY } else { UNAMBIGUOUS };
    OPENINGS.iter().any(|opening| {
        let opening: String = opening.split_whitespace().collect();
        let begins = opening.starts_with(whole) && whole.chars().count() >= least;
        let beginning: String = opening.chars().take(UNAMBIGUOUS).collect();
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
    fn titles_from_briefings_are_recognized() {
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
    fn other_members_of_an_update_are_kept() {
        let mut titles = AgentTitles::default();
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
    fn a_title_outlives_a_turn_with_a_transcript() {
        let mut titles = AgentTitles::new(Some(&update("Mine")));
        titles.turn_begins(Some(Briefed::new("", "")));
        assert_eq!(titles.shown(&update("Another")), None);
        titles.turn_ends();
        titles.turn_begins(None);
        assert_eq!(titles.shown(&update("Below is a record of the")), None);
        assert!(titles.shown(&update("Another")).is_some());
        let mut titles = AgentTitles::default();
        titles.turn_begins(Some(Briefed::new("", "")));
        assert!(titles.shown(&update("The first")).is_some());
        assert_eq!(titles.shown(&update("The second")), None);
    }

    #[test]
    fn texts_have_no_words_of_briefings() {
        let briefing = format!("{}, and so on.\n", OPENINGS[0]);
        let briefed = [Briefed::new(&briefing, "What next?")];
        for (text, given, expected) in [
            (
                format!("{briefing}\n\nWhat next?"),
                &briefed[..],
                Some("What next?"),
            ),
            (format!("a\n{briefing}b"), &briefed, Some("a\nb")),
            (
                "Below is a record of the conv…".to_owned(),
                &briefed,
                Some("What next?"),
            ),
            ("Below is a r…".to_owned(), &briefed, None),
            (OPENINGS[0].to_owned(), &[], Some("")),
            ("What next?".to_owned(), &briefed, None),
        ] {
            assert_eq!(Briefed::hide(given, &text).as_deref(), expected, "{text}");
        }
        for opening in OPENINGS {
            assert!(Briefed::may_be_in(opening), "{opening}");
        }
        assert!(!Briefed::may_be_in("What next?"));
    }

    #[test]
    fn lists_have_no_titles_from_briefings() {
        let entry = |title: &str| format!(r#"{{"sessionId":"a","title":"{title}","n":1e400}}"#);
        let own = entry("Below is a record of the conversation so far between");
        assert_eq!(listed(own), r#"{"sessionId":"a","n":1e400}"#);
        assert_eq!(listed(entry("Mine")), entry("Mine"));
    }
}
