//! The history of a session that the agent created without rejoin, as records.

use std::sync::Arc;

use crate::engine::Block;
use crate::json::{self, Object, string_member, text_member};
use crate::protocol::{Role, UpdateClass, UpdateKind};
use crate::record::Kind;
use crate::sys::Ids;

/// The longest history that is imported, in bytes.
const LIMIT: usize = 512 * 1024 * 1024;

/// The end of an imported turn: agents do not replay how a turn ended.
const END: &str = r#"{"stopReason":"end_turn"}"#;

/// Collects a history as records. The user's messages become prompts, which separate the turns.
#[derive(Debug)]
pub(in crate::engine::agent) struct ImportedHistory {
    ids: Arc<dyn Ids>,
    block: Block,
    /// The current message of the user: its id, and its blocks as they came.
    prompt: Option<(String, Vec<String>)>,
    /// Whether a turn has begun and not ended.
    in_turn: bool,
    updates: u64,
    too_long: bool,
}

impl ImportedHistory {
    pub(in crate::engine::agent) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            block: Block::default(),
            prompt: None,
            in_turn: false,
            updates: 0,
            too_long: false,
        }
    }

    /// How many updates of the history have come.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Adds the next update, normalized as it would be in a live session.
    pub(super) fn update(&mut self, kind: Kind, payload: &str) {
        if self.block.bytes() + payload.len() > LIMIT {
            self.too_long = true;
            return;
        }
        if matches!(kind, Kind::Subagent | Kind::SubagentV2) {
            self.updates += 1;
            self.flush();
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

    /// Adds the next update of an agent of version 2: its parameters.
    pub(super) fn native_update(&mut self, kind: UpdateKind, params: &str) {
        if self.block.bytes() + params.len() > LIMIT {
            self.too_long = true;
            return;
        }
        if kind.class() == UpdateClass::Event {
            return self.block.push(Kind::TransientV2, params);
        }
        if !kind.is_snapshot() {
            self.updates += 1;
            let update = text_member(params, "update").unwrap_or_default();
            if let Some((id, blocks)) = user_message(update) {
                let id = id.unwrap_or_else(|| self.ids.message());
                return self.user_message(id, blocks);
            }
            if let Some((id, block)) = user_block(params) {
                return self.user(id, block);
            }
            self.flush();
        }
        self.block.push(Kind::UpdateV2, params);
    }

    /// Replaces the blocks of the user's message.
    fn user_message(&mut self, id: String, blocks: Vec<String>) {
        match &mut self.prompt {
            Some((known, old)) if *known == id => *old = blocks,
            _ => {
                self.flush();
                self.prompt = Some((id, blocks));
            }
        }
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

    /// Adds the user's message as a prompt.
    fn flush(&mut self) {
        let Some((id, blocks)) = self.prompt.take() else {
            return;
        };
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        self.in_turn = true;
        let params = Object::new().raw("prompt", &format!("[{}]", blocks.join(",")));
        // A record's id must need no escaping.
        let plain = !id.is_empty() && !id.contains(['"', '\\']) && !id.contains(char::is_control);
        let id = if plain { id } else { self.ids.message() };
        self.block.push_with_id(Kind::Prompt, &id, &params.end());
    }

    /// The whole history; `None` if it is too long.
    pub(in crate::engine::agent) fn finish(mut self) -> Option<Block> {
        self.flush();
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        (!self.too_long).then_some(self.block)
    }
}

/// The id and the blocks of a message of the user, of version 2.
fn user_message(update: &str) -> Option<(Option<String>, Vec<String>)> {
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Message(Role::User) {
        return None;
    }
    let content = text_member(update, "content").unwrap_or("[]");
    let blocks = json::text_elements(content).map(str::to_owned).collect();
    Some((string_member(update, "messageId"), blocks))
}

/// The content of a chunk of the user's message, and the message's id.
fn user_block(payload: &str) -> Option<(Option<String>, String)> {
    // The update itself, or the parameters that it is a member of.
    let update = text_member(payload, "update").unwrap_or(payload);
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Chunk(Role::User) {
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
        let mut import = ImportedHistory::new(Arc::new(RandomIds));
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
        let records: Vec<_> = block
            .iter()
            .map(|entry| (entry.kind, entry.id, entry.payload))
            .collect();
        assert_eq!(
            records,
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
