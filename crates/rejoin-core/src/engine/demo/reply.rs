//! Answers plain text from the conversation itself, so that restored context is visible.

use super::describe::{in_brief, in_detail};
use super::settings::Replies;
use super::turn::{DemoTurn, Done};
use crate::text::shortened;

/// How many of the last prompts are quoted; the first one of the session is always quoted.
const QUOTED: u64 = 3;

/// Answers with the number of this prompt, its content and the earlier prompts.
pub(super) async fn plain(turn: &DemoTurn<'_>) -> Done {
    turn.say_all(&conversation(turn).await).await
}

/// Answers like [`plain`], with a hint after it, to a text that may begin with a mistyped command.
pub(super) async fn plain_with_hint(turn: &DemoTurn<'_>, word: &str) -> Done {
    let answer = conversation(turn).await;
    turn.say_all(&format!("{answer}\n{}", no_such_command(word)))
        .await
}

/// Answers that a command is unknown.
pub(super) async fn unknown(turn: &DemoTurn<'_>, word: &str) -> Done {
    turn.say_all(&no_such_command(word)).await
}

fn no_such_command(word: &str) -> String {
    let word = shortened(word, 40);
    format!("There is no command `{word}`; `/help` lists the commands.\n")
}

async fn conversation(turn: &DemoTurn<'_>) -> String {
    let earlier = turn.earlier_prompts();
    let sent = in_detail(turn.prompt);
    if turn.settings().replies == Replies::Brief {
        let number = earlier.saturating_add(1);
        return format!("Prompt {number} of this session: {sent}.\n");
    }
    if earlier == 0 {
        return format!(
            "This is the first prompt of this session. You sent {sent}.\n\nI am rejoin's built-in \
             engine: no model, no network. I answer from the conversation itself; `/help` lists my \
             commands.\n"
        );
    }
    let recent = earlier.saturating_sub(QUOTED);
    let mut lines = Vec::new();
    for index in (recent..earlier).rev() {
        lines.push(line(turn, index).await);
    }
    if recent > 1 {
        lines.push(format!("- {} more, see `/history`\n", recent - 1));
    }
    if recent > 0 {
        lines.push(line(turn, 0).await);
    }
    let number = earlier.saturating_add(1);
    let lines = lines.concat();
    format!(
        "This is prompt {number} of this session. You sent {sent}.\n\nWhat you sent before, latest \
         first:\n{lines}"
    )
}

/// An earlier prompt as a line of the list.
async fn line(turn: &DemoTurn<'_>, index: u64) -> String {
    let number = index.saturating_add(1);
    match turn.earlier_prompt(index).await {
        Ok(prompt) => format!("- prompt {number}: {}\n", in_brief(&prompt)),
        Err(error) => format!(
            "- prompt {number} cannot be read: {}\n",
            shortened(&error.reason, 200)
        ),
    }
}
