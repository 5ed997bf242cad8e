//! `/flood`: many numbered chunks, as fast as they are received.

use super::args::whole;
use super::describe::quote;
use super::turn::{Done, Turn, Voice};
use super::update::Block;
use crate::engine::StopReason;

/// How many chunks, and of how many bytes, by default.
const DEFAULT: (u64, u64) = (1000, 64);

/// The most chunks of one answer.
const MOST_CHUNKS: u64 = 10_000_000;

/// The most bytes of text in one chunk, below the limit that clients have for lines.
const MOST_BYTES: u64 = 1 << 20;

/// The most bytes of text in one answer. All of it is logged, and must not fill the disk by
/// mistake.
const MOST_IN_ALL: u64 = 4 << 30;

/// Sends the chunks in one message, and nothing else.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let Some((chunks, bytes)) = numbers(rest) else {
        let text = format!(
            "`/flood` takes how many chunks, 1 to {MOST_CHUNKS}, and how many bytes each, 1 to \
             {MOST_BYTES}, at most {MOST_IN_ALL} in all; {} is not that.",
            quote(rest)
        );
        return turn.say_all(&text).await;
    };
    let message = turn.begin(Voice::Answer);
    for number in 1..=chunks {
        let text = text_of(number, chunks, bytes);
        turn.chunk(&message, &Block::Text { text: &text }).await?;
    }
    Ok(StopReason::EndTurn)
}

/// The requested number of chunks and of bytes in each.
fn numbers(rest: &str) -> Option<(u64, u64)> {
    let mut words = rest.split_whitespace();
    let mut next = |default| words.next().map_or(Some(default), whole);
    let (chunks, bytes) = (next(DEFAULT.0)?, next(DEFAULT.1)?);
    let fine = (1..=MOST_CHUNKS).contains(&chunks)
        && (1..=MOST_BYTES).contains(&bytes)
        && chunks * bytes <= MOST_IN_ALL;
    fine.then_some((chunks, bytes))
}

/// A line of `bytes` bytes, or longer if its number needs more.
fn text_of(number: u64, chunks: u64, bytes: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_asked_size() {
        assert_eq!(text_of(7, 10, 12), "7/10 ......\n");
        assert_eq!(text_of(7, 10, 12).len(), 12);
        assert_eq!(text_of(7, 10, 7), "7/10 .\n");
        assert_eq!(text_of(7, 10, 6), "7/10\n");
        assert_eq!(text_of(7, 10, 5), "7/10\n");
        assert_eq!(text_of(7, 10, 1), "7/10\n");
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
