//! Sends very many updates as fast as a pipe takes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::link::Link;
use crate::message::{chunk, text_block};

/// How many lines are written at once.
const BLOCK: usize = 256;
/// How many digits a line's number has.
const DIGITS: usize = 8;

/// Sends so many text chunks with texts of so many bytes, each of which begins with its number.
pub(crate) fn flood(link: &Link, session: &str, message: Option<&str>, count: usize, size: usize) {
    let zeros = "0".repeat(DIGITS);
    let text = format!("{zeros}{}", "x".repeat(size.saturating_sub(DIGITS)));
    let update = chunk("agent_message_chunk", message, &text_block(&text));
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    ) + "\n";
    let number = line.find(&zeros).expect("it is in there");
    let mut block = line.repeat(BLOCK).into_bytes();
    let mut sent = 0;
    while sent < count {
        let now = BLOCK.min(count - sent);
        for at in 0..now {
            let mut left = sent + at;
            let from = at * line.len() + number;
            for digit in block[from..from + DIGITS].iter_mut().rev() {
                *digit = b'0' + u8::try_from(left % 10).unwrap_or_default();
                left /= 10;
            }
        }
        link.bytes(&block[..now * line.len()]);
        sent += now;
    }
}

/// Sends so many text chunks, each with the time it was sent at in nanoseconds since 1970, and
/// rests between them.
pub(crate) fn ticks(link: &Link, session: &str, count: usize, rest: Duration) {
    for _ in 0..count {
        std::thread::sleep(rest);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let text = now.unwrap_or_default().as_nanos().to_string();
        link.update(
            session,
            &chunk("agent_message_chunk", None, &text_block(&text)),
        );
    }
}
