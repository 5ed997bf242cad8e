//! `/history`, `/recall` and `/echo`: prompts, listed or sent back unchanged.

use agent_client_protocol_schema::v1::ContentBlock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::args::whole;
use super::command::{self, DemoCommand, usage};
use super::describe::{attachment, in_brief, is_content, text_of};
use super::turn::{DemoMessage, DemoTurn, Done, Sent};
use crate::engine::{Prompt, StopReason};
use crate::json;
use crate::protocol::Role;
use crate::text::shortened;

/// How many prompts `/history` lists.
const LISTED: u64 = 10;

/// Counts the earlier prompts and lists the last ones.
pub(super) async fn list(turn: &DemoTurn<'_>) -> Done {
    let earlier = turn.earlier_prompts();
    let title = match earlier {
        0 => return turn.say_all("No prompt came before this one.").await,
        1 => "1 prompt came before this one:\n".to_owned(),
        _ if earlier <= LISTED => format!("{earlier} prompts came before this one:\n"),
        _ => format!("{earlier} prompts came before this one. The last {LISTED}:\n"),
    };
    let mut lines = vec![title];
    for index in earlier.saturating_sub(LISTED)..earlier {
        let number = index + 1;
        let back = earlier - index;
        let line = match turn.earlier_prompt(index).await {
            Ok(prompt) => in_brief(&prompt),
            Err(error) => format!("cannot be read: {}", shortened(&error.reason, 200)),
        };
        lines.push(format!("- prompt {number} (`/recall {back}`): {line}\n"));
    }
    turn.say_all(&lines.concat()).await
}

/// Quotes an earlier prompt in full: a line with its number, then its blocks unchanged.
pub(super) async fn recall(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let earlier = turn.earlier_prompts();
    let back = match rest.split_whitespace().next() {
        None => Some(1),
        Some(word) => whole(word).filter(|&back| back > 0),
    };
    let Some(back) = back else {
        let explanation = "N is how many prompts to go back, at least 1.";
        return turn
            .say_all(&usage(DemoCommand::Recall, explanation, rest))
            .await;
    };
    let Some(index) = earlier.checked_sub(back) else {
        let text = match earlier {
            0 => "No prompt came before this one.".to_owned(),
            1 => "Only 1 prompt came before this one.".to_owned(),
            _ => format!("Only {earlier} prompts came before this one."),
        };
        return turn.say_all(&text).await;
    };
    let recalled = turn.earlier_prompt(index).await?;
    let message = turn.begin(Role::Agent);
    let title = format!("Prompt {} of this session was:\n\n", index + 1);
    turn.say(&message, &title).await?;
    let blocks = blocks(&recalled);
    if blocks.is_empty() {
        turn.say(&message, "(empty)").await?;
    }
    for block in blocks {
        block.send(turn, &message).await?;
    }
    Ok(StopReason::EndTurn)
}

/// Answers with the text that follows the command's name and with every other block of the prompt,
/// each in one chunk.
pub(super) async fn echo(turn: &DemoTurn<'_>) -> Done {
    let message = turn.begin(Role::Agent);
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
                turn.chunk(&message, &ContentBlock::from(text)).await?;
            }
            continue;
        }
        sent = true;
        block.send(turn, &message).await?;
    }
    if sent {
        return Ok(StopReason::EndTurn);
    }
    let explanation = "Attachments may take the place of TEXT.";
    turn.say_all(&usage(DemoCommand::Echo, explanation, ""))
        .await
}

/// A block of a prompt, verbatim.
struct Verbatim(Box<RawValue>);

impl Verbatim {
    fn value(&self) -> Value {
        json::tree(self.0.get()).unwrap_or_default()
    }

    /// Sends the block, or a description of it if an answer cannot contain it.
    async fn send(&self, turn: &DemoTurn<'_>, message: &DemoMessage) -> Sent {
        let value = self.value();
        if is_content(&value) {
            return turn.chunk(message, &self.0).await;
        }
        let text = format!("({})", attachment(&value));
        turn.chunk(message, &ContentBlock::from(text)).await
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
