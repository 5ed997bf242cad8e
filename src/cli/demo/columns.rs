//! Prints two transcripts side by side.

use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::term::{Output, cut, pad, printable};
use rejoin::conversation::TranscriptEntry;
use rejoin::protocol::Role;

use super::verdict::ReplayComparison;

/// How wide a column is at most. Two of them fit a terminal of 80.
const WIDTH: usize = 36;
/// The columns before, between and behind the two texts.
const AROUND: usize = 8;

/// Colours, if they are enabled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(bool);

impl Paint {
    pub(super) fn new(colour: bool) -> Self {
        Self(colour)
    }

    /// A heading.
    pub(super) fn head(self, text: &str) -> String {
        self.with("1;36", text)
    }

    /// A line of a verdict.
    pub(super) fn verdict(self, verdict: &ReplayComparison, line: &str) -> String {
        self.with(if verdict.is_good() { "1;32" } else { "1;31" }, line)
    }

    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, style: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Prints both sides in columns, entry by entry, with a mark between them.
pub(super) fn print(
    paint: Paint,
    live: &[TranscriptEntry],
    replayed: &[TranscriptEntry],
    output: &mut Output,
) -> Result<(), Failure> {
    let wide = (output.look().width.saturating_sub(AROUND) / 2).min(WIDTH);
    let cell = |entry: Option<&TranscriptEntry>| {
        entry.map_or_else(String::new, |entry| cut(&cell(entry), wide))
    };
    let head = format!(
        "   {}     {}",
        pad("seen live", wide),
        "replayed after kill -9"
    );
    output.line(paint.dim(&head))?;
    for at in 0..live.len().max(replayed.len()) {
        let (left, right) = (live.get(at), replayed.get(at));
        let mark = if left == right {
            paint.with("32", "=")
        } else {
            paint.with("33", "~")
        };
        let (left, right) = (pad(&cell(left), wide), cell(right));
        output.line(format!("   {left}  {mark}  {right}"))?;
    }
    Ok(())
}

/// An entry on one line.
fn cell(entry: &TranscriptEntry) -> String {
    let text = match entry {
        TranscriptEntry::Message { role, blocks, .. } => {
            let who = match role {
                Role::User => "you",
                Role::Agent => "agent",
                Role::Thought => "thought",
            };
            format!(
                "{who:<8}{}",
                blocks.iter().map(block).collect::<Vec<_>>().join(" ")
            )
        }
        TranscriptEntry::ToolCall { call, .. } => {
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or("?");
            format!("tool    [{}] {}", field("status"), field("title"))
        }
        TranscriptEntry::Plan { plan } => {
            let entries = plan.get("entries").and_then(Value::as_array);
            let steps = entries.map_or(0, Vec::len);
            let done = entries.into_iter().flatten();
            let done = done.filter(|entry| entry["status"] == "completed").count();
            format!("plan    {done} of {steps} steps done")
        }
        TranscriptEntry::Other { update } => format!("other   {}", update["sessionUpdate"]),
    };
    printable(&text.replace(['\n', '\t'], " "))
}

fn block(block: &Value) -> String {
    match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => text.trim().to_owned(),
        (Some(kind), _) => {
            let bytes = block["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
            let mime = block["mimeType"].as_str().unwrap_or_default();
            if bytes > 0 {
                format!("[{kind} {mime}, {bytes} bytes]")
            } else {
                format!("[{kind}]")
            }
        }
        _ => "[unknown]".to_owned(),
    }
}
