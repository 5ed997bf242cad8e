//! Decides which of the titles in a log counts.

use super::metadata::title_of_client;
use super::title::{MadeTitle, named};
use super::{Kind, Record};

/// The title of a session as its records are read: the last one that was set, or else one from the
/// first prompt with usable text, that is not only a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TitleTracker {
    made: Option<MadeTitle>,
    named: Option<String>,
    is_named: bool,
    set: Option<String>,
}

impl TitleTracker {
    /// Takes the next record.
    pub fn record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Prompt => MadeTitle::take(&mut self.made, record.payload),
            Kind::Info => {
                if let Some(named) = named(record.payload) {
                    self.named = named;
                    self.is_named = true;
                }
                if let Some(set) = title_of_client(record.payload) {
                    self.set = Some(set);
                }
            }
            _ => {}
        }
    }

    /// The title so far.
    pub fn title(&self) -> Option<&str> {
        let made = self.made.as_ref().map(|made| made.title.as_str());
        self.named.as_deref().or(made)
    }

    /// The title that is made of the first prompt.
    pub fn made(&self) -> Option<&MadeTitle> {
        self.made.as_ref()
    }

    /// Whether a title was set or removed explicitly.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// The last title that a client set, which is kept.
    pub fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::record::metadata::MetadataChange;

    #[test]
    fn the_last_name_counts_and_else_the_first_prompt() {
        let prompt = |text: &str| {
            let params = json!({"prompt": [{"type": "text", "text": text}]});
            (Kind::Prompt, params.to_string())
        };
        let name = |title: Value| {
            let info = json!({"sessionUpdate": "session_info_update", "title": title});
            (Kind::Info, info.to_string())
        };
        let mut titles = TitleTracker::default();
        for ((kind, payload), expected) in [
            (name(json!("Early")), Some("Early")),
            (prompt(" "), Some("Early")),
            (name(json!(null)), None),
            (prompt("one"), Some("one")),
            (prompt("two"), Some("one")),
            (name(json!("Named")), Some("Named")),
            (name(json!("Again")), Some("Again")),
            (prompt("three"), Some("Again")),
            (name(json!(null)), Some("one")),
            (
                (
                    Kind::Info,
                    MetadataChange::Title("Mine".to_owned()).payload(),
                ),
                Some("Mine"),
            ),
        ] {
            titles.record(&Record::sample(kind, None, &payload));
            assert_eq!(titles.title(), expected, "{payload}");
            assert_eq!(titles.set(), expected.filter(|title| *title == "Mine"));
        }
    }
}
