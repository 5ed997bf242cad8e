//! What the user says in an agent's replay, by which it is checked for the last prompts in the log.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::engine::agent::parse::Payload;
use crate::json::{string_member, text_elements};
use crate::protocol::UpdateClass;

use super::work::is_of_user;
use super::{RouteMode, SessionRoute};

/// How much is kept, in bytes. What was said first is dropped.
const KEPT: usize = 256 * 1024;

/// The user's messages in a replay, each without anything but letters and digits.
///
/// Agents change white space, marks and escapes when they write a prompt down, or put words of their
/// own around it.
#[derive(Clone, Debug, Default)]
pub(in crate::engine::agent) struct ReplayedWords {
    messages: VecDeque<String>,
    size: usize,
    /// Whether the first messages were dropped.
    is_cut: bool,
    /// The id of the message that the next chunk may go on with.
    current: Option<String>,
}

/// The letters and digits of a text.
pub(in crate::engine::agent) fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|char| char.is_alphanumeric())
}

impl ReplayedWords {
    /// Looks at those of the replay that is being discarded, if one is.
    pub(in crate::engine::agent) fn of<T>(
        route: &SessionRoute,
        look: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<T> {
        match &route.lock().mode {
            RouteMode::Discard(discarded) => look(&discarded.words),
            RouteMode::Live | RouteMode::AfterReplay | RouteMode::Import(_) => None,
        }
    }

    /// Takes the next update of the replay.
    pub(in crate::engine::agent) fn update(&mut self, payload: &Payload<'_>) {
        let Some(kind) = payload.kind() else { return };
        if !is_of_user(kind) {
            if kind.class() == UpdateClass::History {
                self.current = None;
            }
            return;
        }
        let text = payload.text();
        let id = payload.fields.message.and_then(|id| id.string(text));
        let id = id.map(Cow::into_owned).unwrap_or_default();
        if self.current.as_ref() != Some(&id) {
            self.messages.push_back(String::new());
            self.current = Some(id);
        }
        let content = payload.fields.content.map(|content| content.of(text));
        let content = content.unwrap_or_default();
        // A block in a chunk, an array of them in a whole message.
        let whole = Some(content).filter(|content| content.starts_with('{'));
        for block in whole.into_iter().chain(text_elements(content)) {
            self.block(block);
        }
        while self.size > KEPT
            && let Some(dropped) = self.messages.pop_front()
        {
            self.size -= dropped.len();
            self.is_cut = true;
        }
    }

    fn block(&mut self, block: &str) {
        let said = string_member(block, "text").unwrap_or_default();
        if let Some(message) = self.messages.back_mut() {
            let before = message.len();
            message.extend(letters(&said));
            self.size += message.len() - before;
        }
    }

    /// Whether one of the messages contains these letters.
    pub(in crate::engine::agent) fn contain(&self, letters: &str) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|message| message.contains(letters))
    }

    /// Whether one of the messages is nothing but these letters.
    pub(in crate::engine::agent) fn have(&self, letters: &str) -> bool {
        self.messages.iter().any(|message| message == letters)
    }

    /// The messages, if these are all.
    pub(in crate::engine::agent) fn all(&self) -> Option<&VecDeque<String>> {
        (!self.is_cut).then_some(&self.messages)
    }
}
