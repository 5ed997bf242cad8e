//! Prints two transcripts side by side.

use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::protocol::Role;
use crate::record::transcript::Entry;

use super::verdict::Verdict;

/// How wide a column is, in characters. Two of them fit a terminal of 80.
const WIDTH: usize = 36;

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

    /// A verdict.
    pub(super) fn verdict(self, verdict: &Verdict) -> String {
        self.with(
            if verdict.is_good() { "1;32" } else { "1;31" },
            &verdict.text(),
        )
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
    live: &[Entry],
    replayed: &[Entry],
    output: &mut Output,
) -> Result<(), Failure> {
    let head = format!("   {:WIDTH$}     {}", "seen live", "replayed after kill -9");
    output.line(paint.dim(&head))?;
    for at in 0..live.len().max(replayed.len()) {
        let (left, right) = (live.get(at), replayed.get(at));
        let mark = if left == right {
            paint.with("32", "=")
        } else {
            paint.with("33", "~")
        };
        let left = left.map(cell).unwrap_or_default();
        let right = right.map(cell).unwrap_or_default();
        output.line(format!("   {left:WIDTH$}  {mark}  {right}"))?;
    }
    Ok(())
}

/// One entry in one line.
fn cell(entry: &Entry) -> String {
    let text = match entry {
        Entry::Message { role, blocks, .. } => {
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
        Entry::ToolCall { call, .. } => {
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or("?");
            format!("tool    [{}] {}", field("status"), field("title"))
        }
        Entry::Plan { plan } => {
            let entries = plan.get("entries").and_then(Value::as_array);
            let steps = entries.map_or(0, Vec::len);
            let done = entries.into_iter().flatten();
            let done = done.filter(|entry| entry["status"] == "completed").count();
            format!("plan    {done} of {steps} steps done")
        }
        Entry::Other { update } => format!("other   {}", update["sessionUpdate"]),
    };
    shorten(&printable(&text.replace(['\n', '\t'], " ")))
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

fn shorten(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(WIDTH - 1).collect();
    short.push('…');
    short
}
