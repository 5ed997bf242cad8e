//! `/echo`: sends a prompt back unchanged.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::command;
use super::describe::{attachment, text_of};
use super::turn::{Done, Message, Sent, Turn, Voice};
use super::update::Block;
use crate::engine::{Prompt, StopReason};
use crate::json;

/// Answers with the text that follows the command's name and with every other block of the prompt,
/// each in one chunk.
pub(super) async fn run(turn: &Turn<'_>) -> Done {
    let message = turn.begin(Voice::Answer);
    let mut found = false;
    let mut sent = false;
    for block in blocks(turn.prompt) {
        let value = block.value();
        if let Some(text) = text_of(&value).filter(|_| !found)
            && !text.trim().is_empty()
        {
            found = true;
            let text = command::split(text).map_or("", |(_, rest)| rest);
            if !text.is_empty() {
                sent = true;
                turn.chunk(&message, &Block::Text { text }).await?;
            }
            continue;
        }
        sent = true;
        block.send(turn, &message).await?;
    }
    if sent {
        return Ok(StopReason::EndTurn);
    }
    turn.say_all("`/echo` answers with the text that follows it; nothing does.")
        .await
}

/// Sends all blocks of a prompt, each in one chunk.
pub(super) async fn send_back(turn: &Turn<'_>, message: &Message, prompt: &Prompt) -> Sent {
    let blocks = blocks(prompt);
    if blocks.is_empty() {
        return turn.say(message, "(nothing at all)").await;
    }
    for block in blocks {
        block.send(turn, message).await?;
    }
    Ok(())
}

/// A block of a prompt, verbatim.
struct Verbatim(Box<RawValue>);

impl Verbatim {
    fn value(&self) -> Value {
        json::tree(self.0.get()).unwrap_or_default()
    }

    /// Sends the block, or a description of it if an answer cannot contain it.
    async fn send(&self, turn: &Turn<'_>, message: &Message) -> Sent {
        let value = self.value();
        if is_content(&value) {
            return turn.chunk(message, &self.0).await;
        }
        let text = format!("({})", attachment(&value));
        turn.chunk(message, &Block::Text { text: &text }).await
    }
}

/// The blocks of a prompt, verbatim but on one line each.
fn blocks(prompt: &Prompt) -> Vec<Verbatim> {
    #[derive(Deserialize)]
    struct Params {
        prompt: Vec<Box<RawValue>>,
    }
    let params = serde_json::from_str::<Params>(&prompt.params);
    let blocks = params.map(|params| params.prompt).unwrap_or_default();
    blocks.into_iter().map(on_one_line).map(Verbatim).collect()
}

/// Line breaks can only occur between the tokens of JSON, where a space is equivalent.
fn on_one_line(block: Box<RawValue>) -> Box<RawValue> {
    if !block.get().contains(['\n', '\r']) {
        return block;
    }
    let line = block.get().replace(['\n', '\r'], " ");
    RawValue::from_string(line).unwrap_or(block)
}

/// Whether a block has all members that the protocol requires.
fn is_content(block: &Value) -> bool {
    let strings = |of: &Value, names: &[&str]| names.iter().all(|name| of[name].is_string());
    match block["type"].as_str() {
        Some("text") => strings(block, &["text"]),
        Some("image" | "audio") => strings(block, &["data", "mimeType"]),
        Some("resource_link") => strings(block, &["uri", "name"]),
        Some("resource") => {
            let resource = &block["resource"];
            strings(resource, &["uri", "text"]) || strings(resource, &["uri", "blob"])
        }
        _ => false,
    }
}
