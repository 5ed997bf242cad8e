//! The idempotency keys of a session's prompts, by which a prompt that is repeated is recognized.

use std::collections::HashMap;

use super::Kind;
use crate::json;

/// The member of a prompt's parameters with its key. It comes first in the record of a prompt. Where an
/// earlier version has recorded a key that it did not understand, the member comes later, and the prompt
/// has no key.
pub const KEY: &str = "idempotencyKey";
/// The member of the `end` of a prompt with a key that the agent has certainly not begun to answer.
pub const UNSENT: &str = "unsent";
/// The beginning of the payload of a prompt that has a key.
const HEAD: &str = "{\"idempotencyKey\":";

/// The key of a prompt with this payload.
pub fn idempotency_key(payload: &str) -> Option<String> {
    let value = payload.strip_prefix(HEAD)?;
    let end = json::value_end(value.as_bytes(), 0)?;
    serde_json::from_str(value.get(..end)?).ok()
}

/// Whether an `end` with this payload says that the agent has certainly not begun to answer the prompt.
pub fn is_unsent(payload: &str) -> bool {
    json::text_member(payload, UNSENT) == Some("true")
}

/// The payload of a prompt without its key.
pub fn without_key(payload: &str) -> Option<String> {
    let has_key = payload.starts_with(HEAD);
    has_key.then(|| json::with_members(payload, &[KEY], &[]))
}

/// The prompts of a log that have keys. The first prompt with a key is the one that counts.
#[derive(Clone, Debug, Default)]
pub struct PromptKeys {
    prompts: Vec<KeyedPrompt>,
    /// The places of the prompts, by their keys.
    places: HashMap<String, usize>,
    /// The places of those whose turns have no end.
    open: Vec<usize>,
}

/// A prompt that has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedPrompt {
    /// The id of the user's message.
    pub message_id: String,
    /// Where its record begins in the log, in bytes.
    pub offset: u64,
    /// Whether an engine may have got it.
    pub has_begun: bool,
    /// The payload of the end of its turn.
    pub end: Option<String>,
}

impl PromptKeys {
    /// Applies a record that begins at `offset`.
    pub fn note(&mut self, kind: Kind, id: Option<&str>, payload: &str, offset: u64) {
        match (kind, id) {
            (Kind::Prompt, Some(id)) => {
                if let Some(key) = idempotency_key(payload)
                    && !self.places.contains_key(&key)
                {
                    let place = self.prompts.len();
                    self.places.insert(key, place);
                    self.open.push(place);
                    self.prompts.push(KeyedPrompt {
                        message_id: id.to_owned(),
                        offset,
                        has_begun: false,
                        end: None,
                    });
                }
            }
            (Kind::Begin, Some(id)) => {
                let mut prompts = self.prompts.iter();
                if let Some(place) = prompts.rposition(|prompt| prompt.message_id == id) {
                    let prompt = &mut self.prompts[place];
                    prompt.has_begun = true;
                    if prompt.end.take().is_some() {
                        self.open.push(place);
                    }
                }
            }
            (Kind::End, id) => {
                let prompts = &mut self.prompts;
                self.open.retain(|place| {
                    let prompt = &mut prompts[*place];
                    let is_its = id.is_none_or(|id| prompt.message_id == id);
                    if is_its {
                        prompt.has_begun &= !is_unsent(payload);
                        prompt.end = Some(payload.to_owned());
                    }
                    !is_its
                });
            }
            _ => {}
        }
    }

    /// The prompt with this key.
    pub fn find(&self, key: &str) -> Option<&KeyedPrompt> {
        self.prompts.get(*self.places.get(key)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = r#"{"stopReason":"end_turn"}"#;
    const CRASH: &str = r#"{"interrupted":"…"}"#;

    fn prompt(key: &str) -> String {
        format!(r#"{{"idempotencyKey":"{key}","prompt":[]}}"#)
    }

    #[test]
    fn a_key_is_the_first_member_of_a_prompt() {
        for (payload, key) in [
            (
                r#"{"idempotencyKey":"a\u0062\"","prompt":[]}"#,
                Some("ab\""),
            ),
            (r#"{"prompt":[],"idempotencyKey":"a"}"#, None),
            (r#"{"idempotencyKey":7,"prompt":[]}"#, None),
            (r#"{"prompt":[]}"#, None),
            ("", None),
        ] {
            assert_eq!(idempotency_key(payload).as_deref(), key, "{payload}");
        }
        let payload = r#"{"idempotencyKey":"a","prompt":[ ],"n":1e400}"#;
        let rest = without_key(payload);
        assert_eq!(rest.as_deref(), Some(r#"{"prompt":[ ],"n":1e400}"#));
        assert_eq!(without_key(r#"{"prompt":[]}"#), None);
    }

    #[test]
    fn a_prompt_is_found_by_its_key_with_what_became_of_it() {
        let mut keys = PromptKeys::default();
        keys.note(Kind::Prompt, Some("m"), r#"{"prompt":[]}"#, 1);
        keys.note(Kind::Prompt, Some("a"), &prompt("ka"), 2);
        keys.note(Kind::Prompt, Some("b"), &prompt("kb"), 3);
        // A second one with the same key is not the one that was asked for.
        keys.note(Kind::Prompt, Some("c"), &prompt("ka"), 4);
        let state = |keys: &PromptKeys, key: &str| {
            let found = keys.find(key)?;
            Some((found.message_id.clone(), found.has_begun, found.end.clone()))
        };
        let open = |id: &str, has_begun| Some((id.to_owned(), has_begun, None));
        assert_eq!(state(&keys, "ka"), open("a", false));
        keys.note(Kind::Begin, Some("a"), "{}", 5);
        assert_eq!(state(&keys, "ka"), open("a", true));
        keys.note(Kind::End, Some("a"), END, 6);
        let ended =
            |id: &str, has_begun, end: &str| Some((id.to_owned(), has_begun, Some(end.to_owned())));
        assert_eq!(state(&keys, "ka"), ended("a", true, END));
        keys.note(Kind::End, None, CRASH, 7);
        assert_eq!(state(&keys, "ka"), ended("a", true, END));
        assert_eq!(state(&keys, "kb"), ended("b", false, CRASH));
        // A repetition runs the prompt.
        keys.note(Kind::Begin, Some("b"), "{}", 8);
        assert_eq!(state(&keys, "kb"), open("b", true));
        let unsent = r#"{"error":{"code":-1},"unsent":true}"#;
        keys.note(Kind::End, None, unsent, 9);
        assert_eq!(state(&keys, "kb"), ended("b", false, unsent));
        keys.note(Kind::Begin, Some("b"), "{}", 10);
        keys.note(Kind::End, None, END, 11);
        assert_eq!(state(&keys, "kb"), ended("b", true, END));
        assert_eq!(keys.find("kc"), None);
    }
}
