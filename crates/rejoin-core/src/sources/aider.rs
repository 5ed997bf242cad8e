//! Aider: one file of Markdown in each project, `.aider.chat.history.md`, with all of its chats, one
//! behind the other. Prompts have a mark at each line, and so has what the program says; what has none
//! is the model's.

use chrono::{Local, NaiveDateTime, TimeZone as _};

use crate::sys::Timestamp;

use super::content::text;
use super::conversation::{ConversationBuilder, ToolConversation};
use super::usage::Spent;

/// The line that a chat begins with; its time follows.
const START: &str = "# aider chat started at ";

/// Whether this is such a file.
pub(super) fn is_history(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(START.as_bytes())
}

/// The chats of the file of a project in this folder. Their times are those of their beginnings.
pub(super) fn read(bytes: &[u8], cwd: Option<&str>, title: Option<&str>) -> Vec<ToolConversation> {
    let whole = String::from_utf8_lossy(bytes);
    let mut chats: Vec<(&str, AiderReader)> = Vec::new();
    for line in whole.lines() {
        if let Some(began) = line.strip_prefix(START) {
            let mut reader = AiderReader::default();
            reader.builder.folder(cwd);
            reader.at = time(began.trim());
            chats.push((began.trim(), reader));
        } else if let Some((_, reader)) = chats.last_mut() {
            reader.line(line);
        }
    }
    let chats = chats.into_iter().map(|(began, mut reader)| {
        reader.end();
        if let Some(title) = title {
            reader.builder.title(title);
        }
        // Two chats of a project do not begin in the same second, those of two projects may.
        let id = format!("{}#{began}", cwd.unwrap_or_default());
        reader.builder.finish(Some(id), cwd.map(str::to_owned))
    });
    chats.filter(|chat| !chat.entries.is_empty()).collect()
}

/// A time of this machine, without its zone.
fn time(text: &str) -> Option<Timestamp> {
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").ok()?;
    let time = Local.from_local_datetime(&time).earliest()?;
    Some(Timestamp::from_millis(time.timestamp_millis()))
}

/// Whose lines these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AiderSpeaker {
    #[default]
    Program,
    User,
    Model,
}

#[derive(Debug, Default)]
struct AiderReader {
    builder: ConversationBuilder,
    at: Option<Timestamp>,
    speaker: AiderSpeaker,
    /// The lines of who speaks.
    said: Vec<String>,
}

impl AiderReader {
    fn line(&mut self, line: &str) {
        // Empty lines end no part.
        let (speaker, said) = if let Some(said) = line.strip_prefix("#### ") {
            (AiderSpeaker::User, said.trim_end())
        } else if let Some(said) = line.strip_prefix("> ") {
            self.program(said.trim_end());
            (AiderSpeaker::Program, "")
        } else if line.trim().is_empty() {
            (self.speaker, "")
        } else {
            (AiderSpeaker::Model, line)
        };
        if speaker != self.speaker {
            self.end();
            self.speaker = speaker;
        }
        self.said.push(said.to_owned());
    }

    /// What the program has said: the model, or the tokens of an answer.
    fn program(&mut self, said: &str) {
        let named = ["Model: ", "Main model: "];
        let named = named.iter().find_map(|start| said.strip_prefix(start));
        let model = named.and_then(|named| named.split(" with ").next());
        if let Some(model) = model {
            self.builder.state(&serde_json::Value::Null, &model.into());
        }
        if let Some(spent) = said.strip_prefix("Tokens: ").map(spent) {
            self.end();
            self.builder.spent(None, spent);
        }
    }

    /// Adds what was said by the one who spoke.
    fn end(&mut self) {
        let said = std::mem::take(&mut self.said).join("\n");
        let said = said.trim_matches('\n');
        if said.trim().is_empty() {
            return;
        }
        let at = self.builder.at(self.at);
        match self.speaker {
            // A prompt without words, such as one that was cancelled.
            AiderSpeaker::User if said == "<blank>" => {}
            AiderSpeaker::User => self.builder.user(at, None, vec![text(said)]),
            AiderSpeaker::Model => self.builder.agent(at, None, text(said)),
            AiderSpeaker::Program => {}
        }
    }
}

/// The numbers in such a text as `1.2k sent, 300 received. Cost: $0.01 message, $0.05 session.`
fn spent(said: &str) -> Spent {
    let before = |word: &str| {
        let (before, _) = said.split_once(word)?;
        let number = before.trim_end().rsplit([' ', ',', '$']).next()?;
        let (number, factor) = match number.strip_suffix('k') {
            Some(number) => (number, 1000.0),
            None => (number, 1.0),
        };
        Some(number.parse::<f64>().ok()? * factor)
    };
    let tokens = |word: &str| {
        let whole = before(word).map(|number| format!("{number:.0}"));
        whole.and_then(|whole| whole.parse().ok()).unwrap_or(0_u64)
    };
    let (sent, hit) = (tokens(" sent"), tokens(" cache hit"));
    Spent {
        input: sent.saturating_sub(hit),
        output: tokens(" received"),
        cached_read: hit,
        cached_write: tokens(" cache write"),
        thought: 0,
        cost: before(" message").unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_aider_shows_them() {
        let found = spent("1.2k sent, 300 received. Cost: $0.01 message, $0.05 session.");
        assert_eq!((found.input, found.output, found.cost), (1200, 300, 0.01));
        let found = spent("5k sent, 2k cache write, 3k cache hit, 12 received.");
        let numbers = (
            found.input,
            found.cached_read,
            found.cached_write,
            found.output,
        );
        assert_eq!(numbers, (2000, 3000, 2000, 12));
    }
}
