//! Questions that the user has not answered: requests for permission and for input.

use crate::json::{text_elements, text_member};

use super::text::{Clip, short_member};

/// How many questions are kept, and how much of each, in characters.
const QUESTIONS: usize = 20;
const WORDS: usize = 1000;

/// The questions of a turn.
#[derive(Debug, Default)]
pub(super) struct Questions(Vec<(Option<String>, Clip)>);

impl Questions {
    /// A request with this id was sent to the user, with this payload of an `ask` record.
    pub(super) fn asked(&mut self, id: Option<&str>, payload: &str) {
        let params = text_member(payload, "params").unwrap_or_default();
        if self.0.len() < QUESTIONS
            && let Some(question) = question(params)
        {
            self.0.push((id.map(str::to_owned), Clip::of(&question)));
        }
    }

    /// The user has answered it.
    pub(super) fn answered(&mut self, id: Option<&str>) {
        self.0.retain(|(asked, _)| asked.as_deref() != id);
    }

    /// The questions that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &Clip> {
        self.0.iter().map(|(_, question)| question)
    }
}

fn question(params: &str) -> Option<String> {
    if let Some(message) = short_member(params, "message", WORDS) {
        return Some(message);
    }
    let call = text_member(params, "toolCall")?;
    let title = short_member(call, "title", WORDS)?;
    let options = text_elements(text_member(params, "options").unwrap_or_default());
    let names: Vec<_> = options
        .filter_map(|option| short_member(option, "name", WORDS))
        .collect();
    Some(match names.as_slice() {
        [] => title,
        names => format!("{title}: {}", names.join(" / ")),
    })
}
