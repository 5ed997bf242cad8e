//! Compares what the client saw live with what was replayed.

use serde_json::Value;

use crate::cli::exit::Failure;
use rejoin::conversation::TranscriptEntry;
use rejoin::protocol::Role;

/// The result of comparing a replay with what was seen live.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplayComparison {
    /// All entries are equal; their number.
    Equal(usize),
    /// All entries are equal, and the last one has this many more characters at its end: they were
    /// in the log already, but had not left the process when it was killed.
    Ahead(usize, usize),
    /// The entry at which they differ, counted from 1.
    Different(usize),
}

impl ReplayComparison {
    /// Whether everything that was seen is there.
    pub(super) fn is_good(&self) -> bool {
        !matches!(self, Self::Different(_))
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Equal(count) => format!("EQUAL: all {count} entries came back as they were seen"),
            Self::Ahead(count, more) => format!(
                "EQUAL: all {count} entries came back, the last with {more} characters that were \
                 logged but not sent when the agent died"
            ),
            Self::Different(at) => format!("DIFFERENT from entry {at} on"),
        }
    }

    /// A failure, if something is missing.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        if self.is_good() {
            Ok(())
        } else {
            Err(Failure::new("the replay differs from what was seen"))
        }
    }
}

/// Compares entry by entry.
pub(super) fn compare(live: &[TranscriptEntry], replayed: &[TranscriptEntry]) -> ReplayComparison {
    let same = live
        .iter()
        .zip(replayed)
        .take_while(|(live, replayed)| live == replayed)
        .count();
    if same == live.len() && same == replayed.len() {
        return ReplayComparison::Equal(same);
    }
    if same + 1 == live.len()
        && live.len() == replayed.len()
        && let Some(more) = extends(&live[same], &replayed[same])
    {
        return ReplayComparison::Ahead(live.len(), more);
    }
    ReplayComparison::Different(same + 1)
}

/// How many characters `longer` has beyond `shorter`, if both are the same text message.
fn extends(shorter: &TranscriptEntry, longer: &TranscriptEntry) -> Option<usize> {
    match (shorter, longer) {
        (
            TranscriptEntry::Message {
                role: Role::Agent,
                message_id: a,
                blocks: short,
                ..
            },
            TranscriptEntry::Message {
                role: Role::Agent,
                message_id: b,
                blocks: long,
                ..
            },
        ) if a == b => match (short.as_slice(), long.as_slice()) {
            ([short], [long]) => {
                let text = |block: &Value| block["text"].as_str().map(str::to_owned);
                let (short, long) = (text(short)?, text(long)?);
                long.strip_prefix(&short).map(|rest| rest.chars().count())
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin::conversation::Transcript;

    fn transcript(texts: &[&str]) -> Vec<TranscriptEntry> {
        let mut transcript = Transcript::default();
        for (at, text) in texts.iter().enumerate() {
            let content = serde_json::json!({ "type": "text", "text": text });
            transcript.update(
                &serde_json::json!({
                    "sessionUpdate": "agent_message_chunk",
                    "messageId": format!("m{at}"),
                    "content": content,
                })
                .to_string(),
            );
        }
        transcript.seen()
    }

    #[test]
    fn tells_equal_ahead_and_different() {
        let live = transcript(&["a", "b"]);
        assert_eq!(
            compare(&live, &transcript(&["a", "b"])),
            ReplayComparison::Equal(2)
        );
        assert_eq!(
            compare(&live, &transcript(&["a", "bcd"])),
            ReplayComparison::Ahead(2, 2)
        );
        assert_eq!(
            compare(&live, &transcript(&["a"])),
            ReplayComparison::Different(2)
        );
        assert_eq!(
            compare(&live, &transcript(&["a", "x"])),
            ReplayComparison::Different(2)
        );
        assert_eq!(
            compare(&live, &transcript(&["x", "b"])),
            ReplayComparison::Different(1)
        );
        assert_eq!(
            compare(&live, &transcript(&["a", "b", "c"])),
            ReplayComparison::Different(3)
        );
    }
}
