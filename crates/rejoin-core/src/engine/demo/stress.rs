//! `/slow`, `/flood` and `/fail`: turns that take long, send much, or fail.

use std::time::Duration;

use agent_client_protocol_schema::v1::ContentBlock;
use tokio::time::Instant;

use super::args::{LONGEST_SECONDS, seconds, whole};
use super::command::{DemoCommand, usage};
use super::turn::{DemoTurn, Done, EarlyStop};
use crate::engine::{EngineError, StopReason};
use crate::protocol::Role;

/// How long the answer takes by default.
const DEFAULT_TIME: Duration = Duration::from_secs(5);

/// The time from one chunk to the next.
const TICK: Duration = Duration::from_millis(100);

/// How many chunks, and of how many bytes, by default.
const DEFAULT_SIZE: (u64, u64) = (1000, 64);

/// The most chunks of one answer.
const MOST_CHUNKS: u64 = 10_000_000;

/// The most bytes of text in one chunk, below the limit that clients have for lines.
const MOST_BYTES: u64 = 1 << 20;

/// The most bytes of text in one answer. All of it is logged, and must not fill the disk by
/// mistake.
const MOST_IN_ALL: u64 = 4 << 30;

/// The ways in which a turn can end here.
const WAYS: [(&str, Option<StopReason>); 4] = [
    ("error", None),
    ("refusal", Some(StopReason::Refusal)),
    ("max_tokens", Some(StopReason::MaxTokens)),
    ("max_turn_requests", Some(StopReason::MaxTurnRequests)),
];

/// Counts the seconds in one message, with a chunk for each tenth.
pub(super) async fn slow(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let time = match rest.split_whitespace().next() {
        None => Some(DEFAULT_TIME),
        Some(word) => seconds(word),
    };
    let Some(time) = time else {
        let explanation =
            format!("SECONDS is how long the answer takes, from 0 to {LONGEST_SECONDS}.");
        return turn
            .say_all(&usage(DemoCommand::Slow, &explanation, rest))
            .await;
    };
    let message = turn.begin(Role::Agent);
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

/// Sends the chunks in one message, and nothing else.
pub(super) async fn flood(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let Some((chunks, bytes)) = numbers(rest) else {
        let explanation = format!(
            "CHUNKS is from 1 to {MOST_CHUNKS}, BYTES, the size of each, from 1 to {MOST_BYTES}; all \
             together they have at most {MOST_IN_ALL} bytes."
        );
        return turn
            .say_all(&usage(DemoCommand::Flood, &explanation, rest))
            .await;
    };
    let message = turn.begin(Role::Agent);
    for number in 1..=chunks {
        let text = numbered_line(number, chunks, bytes);
        turn.chunk(&message, &ContentBlock::from(text)).await?;
    }
    Ok(StopReason::EndTurn)
}

/// The requested number of chunks and of bytes in each.
fn numbers(rest: &str) -> Option<(u64, u64)> {
    let mut words = rest.split_whitespace();
    let mut next = |default| words.next().map_or(Some(default), whole);
    let (chunks, bytes) = (next(DEFAULT_SIZE.0)?, next(DEFAULT_SIZE.1)?);
    let fine = (1..=MOST_CHUNKS).contains(&chunks)
        && (1..=MOST_BYTES).contains(&bytes)
        && chunks * bytes <= MOST_IN_ALL;
    fine.then_some((chunks, bytes))
}

/// A line of `bytes` bytes, or longer if its number needs more.
fn numbered_line(number: u64, chunks: u64, bytes: u64) -> String {
    let mut text = format!("{number}/{chunks} ");
    let fill = usize::try_from(bytes)
        .unwrap_or_default()
        .saturating_sub(text.len() + 1);
    text.extend(std::iter::repeat_n('.', fill));
    if fill == 0 {
        text.pop();
    }
    text.push('\n');
    text
}

/// Announces how the turn will end, then ends it that way.
pub(super) async fn fail(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let way = rest.split_whitespace().next().unwrap_or("error");
    let way = way.replace('-', "_");
    let found = WAYS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&way));
    let Some(&(name, reason)) = found else {
        let ways = WAYS.map(|(name, _)| name).join(", ");
        let explanation = format!("WAY is one of {ways}.");
        return turn
            .say_all(&usage(DemoCommand::Fail, &explanation, rest))
            .await;
    };
    let text = match reason {
        None => "This turn fails as requested: it ends with an error.".to_owned(),
        Some(_) => format!("This turn fails as requested: its stop reason is `{name}`."),
    };
    turn.say_alone(Role::Agent, &text).await?;
    reason.ok_or_else(|| {
        let message = "the turn failed, as `/fail` requested";
        EarlyStop::Failed(EngineError::internal(message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_requested_size() {
        assert_eq!(numbered_line(7, 10, 12), "7/10 ......\n");
        assert_eq!(numbered_line(7, 10, 12).len(), 12);
        assert_eq!(numbered_line(7, 10, 7), "7/10 .\n");
        assert_eq!(numbered_line(7, 10, 6), "7/10\n");
        assert_eq!(numbered_line(7, 10, 5), "7/10\n");
        assert_eq!(numbered_line(7, 10, 1), "7/10\n");
    }

    #[test]
    fn numbers_have_defaults_and_limits() {
        for (rest, expected) in [
            ("", Some((1000, 64))),
            (" 5", Some((5, 64))),
            ("5 6 please", Some((5, 6))),
            ("10_000_000 429", Some((10_000_000, 429))),
            ("10000000 430", None),
            ("10000001 1", None),
            ("1 1048576", Some((1, 1_048_576))),
            ("1 1048577", None),
            ("0", None),
            ("1 0", None),
            ("many", None),
        ] {
            assert_eq!(numbers(rest), expected, "{rest:?}");
        }
    }
}
