//! The history of a session that the agent made without us, as our log is to have it.

use std::sync::Arc;

use crate::engine::Block;
use crate::json::{string_member, text_member};
use crate::record::Kind;
use crate::sys::Ids;

/// The most of such a history that is taken, in bytes.
const LIMIT: usize = 512 * 1024 * 1024;

/// How the end of a turn is written down of which nothing is known but that it is over.
const END: &str = r#"{"stopReason":"end_turn"}"#;

/// Gathers a history: the user's messages become prompts, so that turns can be told.
#[derive(Debug)]
pub(super) struct Import {
    ids: Arc<dyn Ids>,
    block: Block,
    /// The user's message that is being gathered: its id, and its blocks as they came.
    prompt: Option<(String, Vec<String>)>,
    /// Whether a turn has begun and not ended.
    in_turn: bool,
    updates: u64,
    too_long: bool,
}

impl Import {
    pub(super) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            block: Block::default(),
            prompt: None,
            in_turn: false,
            updates: 0,
            too_long: false,
        }
    }

    /// How much history there is.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Takes the next update, shaped as it would be live.
    pub(super) fn update(&mut self, kind: Kind, payload: &str) {
        if self.block.bytes() + payload.len() > LIMIT {
            self.too_long = true;
            return;
        }
        let history = matches!(kind, Kind::Update | Kind::UpdateParams);
        if history {
            self.updates += 1;
            if let Some((id, block)) = user_block(payload) {
                return self.user(id, block);
            }
            self.flush();
        }
        self.block.push(kind, payload);
    }

    fn user(&mut self, id: Option<String>, block: String) {
        let id = id.unwrap_or_else(|| self.ids.message());
        match &mut self.prompt {
            Some((known, blocks)) if *known == id => blocks.push(block),
            _ => {
                self.flush();
                self.prompt = Some((id, vec![block]));
            }
        }
    }

    /// Writes the user's message down.
    fn flush(&mut self) {
        let Some((id, blocks)) = self.prompt.take() else {
            return;
        };
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        self.in_turn = true;
        let params = format!(r#"{{"prompt":[{}]}}"#, blocks.join(","));
        // An id goes into a record as it stands, so an odd one is not taken over.
        let plain = !id.is_empty() && !id.contains(['"', '\\']) && !id.contains(char::is_control);
        let id = if plain { id } else { self.ids.message() };
        self.block.push_with_id(Kind::Prompt, &id, &params);
    }

    /// The whole history, or `None` if it is too long to be taken.
    pub(super) fn finish(mut self) -> Option<Block> {
        self.flush();
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        (!self.too_long).then_some(self.block)
    }
}

/// The content of a chunk of the user's message, and the message's id.
fn user_block(payload: &str) -> Option<(Option<String>, String)> {
    // The update itself, or the parameters that it is a member of.
    let update = text_member(payload, "update").unwrap_or(payload);
    if text_member(update, "sessionUpdate")? != "\"user_message_chunk\"" {
        return None;
    }
    let content = text_member(update, "content")?.to_owned();
    let id = string_member(update, "messageId");
    Some((id, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ids::RandomIds;

    fn user(id: &str, text: &str) -> String {
        format!(
            r#"{{"sessionUpdate":"user_message_chunk","content":{{"type":"text", "text":"{text}"}},"messageId":"{id}"}}"#
        )
    }

    #[test]
    fn the_users_messages_become_prompts_of_turns_that_end() {
        let mut import = Import::new(Arc::new(RandomIds));
        let answer = r#"{"sessionUpdate":"agent_message_chunk","n":1e400}"#;
        let info = r#"{"sessionUpdate":"usage_update"}"#;
        import.update(Kind::Update, &user("a", "one"));
        let with_meta = format!(r#"{{"_meta":{{"k":1}}, "update" : {} }}"#, user("a", "two"));
        import.update(Kind::UpdateParams, &with_meta);
        import.update(Kind::Update, answer);
        import.update(Kind::Info, info);
        import.update(Kind::Update, &user("b", "three"));
        assert_eq!(import.updates(), 4);
        let block = import.finish().unwrap();
        let told: Vec<_> = block
            .iter()
            .map(|entry| (entry.kind, entry.id, entry.payload))
            .collect();
        assert_eq!(
            told,
            [
                (
                    Kind::Prompt,
                    Some("a"),
                    r#"{"prompt":[{"type":"text", "text":"one"},{"type":"text", "text":"two"}]}"#
                ),
                (Kind::Update, None, answer),
                (Kind::Info, None, info),
                (Kind::End, None, END),
                (
                    Kind::Prompt,
                    Some("b"),
                    r#"{"prompt":[{"type":"text", "text":"three"}]}"#
                ),
                (Kind::End, None, END),
            ]
        );
    }
}
