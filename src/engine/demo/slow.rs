//! `/slow`: an answer that takes a given time.

use std::time::Duration;

use tokio::time::Instant;

use super::args::{LONGEST_SECONDS, seconds};
use super::describe::quote;
use super::turn::{Done, Turn, Voice};
use crate::engine::StopReason;

/// How long the answer takes by default.
const DEFAULT: Duration = Duration::from_secs(5);

/// The time from one chunk to the next.
const TICK: Duration = Duration::from_millis(100);

/// Counts the seconds in one message, with a chunk for each tenth.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let time = match rest.split_whitespace().next() {
        None => Some(DEFAULT),
        Some(word) => seconds(word),
    };
    let Some(time) = time else {
        let text = format!(
            "`/slow` takes how many seconds to answer for, 0 to {LONGEST_SECONDS}; {} is not \
             that.",
            quote(rest)
        );
        return turn.say_all(&text).await;
    };
    let message = turn.begin(Voice::Answer);
    let start = Instant::now();
    let whole = time.as_secs_f64();
    turn.say(&message, &format!("Answering for {whole} s:"))
        .await?;
    let mut passed = TICK;
    while passed <= time {
        // Measured from the start, so that a slow client does not make the answer take longer.
        turn.wait_until(start + passed).await?;
        let tenth = format!(" {:.1}", passed.as_secs_f64());
        turn.say(&message, &tenth).await?;
        passed += TICK;
    }
    turn.wait_until(start + time).await?;
    turn.say(&message, " done.\n").await?;
    Ok(StopReason::EndTurn)
}
