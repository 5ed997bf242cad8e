//! `/history` and `/recall`: the earlier prompts.

use super::args::whole;
use super::describe::{in_brief, quote, shorten};
use super::echo::send_back;
use super::turn::{Done, Turn, Voice};
use crate::engine::StopReason;

/// How many prompts `/history` lists.
const LISTED: u64 = 10;

/// Counts the earlier prompts and lists the last ones.
pub(super) async fn list(turn: &Turn<'_>) -> Done {
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
            Err(error) => format!("cannot be read: {}", shorten(&error.reason, 200)),
        };
        lines.push(format!("- prompt {number} (`/recall {back}`): {line}\n"));
    }
    turn.say_all(&lines.concat()).await
}

/// Quotes an earlier prompt in full: a line with its number, then its blocks unchanged.
pub(super) async fn recall(turn: &Turn<'_>, rest: &str) -> Done {
    let earlier = turn.earlier_prompts();
    let back = match rest.split_whitespace().next() {
        None => Some(1),
        Some(word) => whole(word).filter(|&back| back > 0),
    };
    let Some(back) = back else {
        let text = format!(
            "`/recall` takes how many prompts to go back, 1 or more; {} is not that.",
            quote(rest)
        );
        return turn.say_all(&text).await;
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
    let message = turn.begin(Voice::Answer);
    let title = format!("Prompt {} of this session was:\n\n", index + 1);
    turn.say(&message, &title).await?;
    send_back(turn, &message, &recalled).await?;
    Ok(StopReason::EndTurn)
}
