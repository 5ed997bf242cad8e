//! Recognizes a prompt when the agent repeats it.
//!
//! Some agents repeat a prompt as chunks of a user message: block by block, in pieces, or joined
//! into one text with different white space, so white space is ignored. The log already has the
//! prompt. The context before it, a briefing for the agent, does not come from the user.

use std::collections::VecDeque;

use serde_json::Value;

use crate::json;

/// How many characters of the context identify a text as a copy of it.
const PREFIX: usize = 40;

/// The shortest piece from inside the context that is recognized, in bytes.
const PIECE: usize = 16;

/// The parts of a prompt that the agent has not repeated yet.
#[derive(Debug)]
pub(in crate::engine::agent) struct Echo {
    /// The request's parameters. They are parsed only when needed, as most agents never repeat a
    /// prompt.
    params: String,
    parts: Option<VecDeque<PromptPart>>,
    /// The context before the prompt, without white space.
    context: String,
    /// How much of the context was repeated, in bytes.
    at: usize,
}

/// Messages of the user within running turns, which the agent may show itself. Each message is
/// recorded once: by us when the agent has taken it, or as the agent shows it.
#[derive(Debug, Default)]
pub(super) struct Steered(Vec<SteeredMessage>);

#[derive(Debug)]
struct SteeredMessage {
    id: String,
    echo: Echo,
    /// Whether the message is recorded already.
    is_recorded: bool,
    /// Whether the agent has shown the beginning of it before it was recorded.
    is_shown: bool,
}

impl Steered {
    /// The user says a message with this id, by the parameters of the request.
    pub(super) fn said(&mut self, id: &str, params: &str) {
        self.0.push(SteeredMessage {
            id: id.to_owned(),
            echo: Echo::new(params, None),
            is_recorded: false,
            is_shown: false,
        });
    }

    /// The agent has answered the request. Returns whether the message is to be recorded now.
    pub(super) fn answered(&mut self, id: &str, is_taken: bool) -> bool {
        let Some(place) = self.0.iter().position(|message| message.id == id) else {
            return false;
        };
        let is_due = is_taken && !self.0[place].is_shown;
        if is_due {
            self.0[place].is_recorded = true;
        } else {
            self.0.remove(place);
        }
        is_due
    }

    /// Whether the content of a message of the user, or of a part of it, repeats one that is recorded.
    pub(super) fn repeats(&mut self, content: &str) -> bool {
        let blocks: Vec<_> = if content.starts_with('[') {
            json::text_elements(content).collect()
        } else {
            vec![content]
        };
        for message in self.0.iter_mut().filter(|message| !message.is_shown) {
            if !blocks.is_empty() && blocks.iter().all(|block| message.echo.repeats(block)) {
                message.is_shown = !message.is_recorded;
                return message.is_recorded;
            }
        }
        false
    }

    /// Another turn begins.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A part of a prompt.
#[derive(Debug)]
enum PromptPart {
    /// The text of a block, without white space.
    Text(String),
    /// Another block.
    Block(Value),
}

impl Echo {
    /// For a prompt with these parameters that was sent with `context` before it.
    pub(in crate::engine::agent) fn new(params: &str, context: Option<&str>) -> Self {
        Self {
            params: params.to_owned(),
            parts: None,
            context: context.map(dense).unwrap_or_default(),
            at: 0,
        }
    }

    /// Whether there was any context.
    pub(super) fn has_context(&self) -> bool {
        !self.context.is_empty()
    }

    /// The part of the echo that the agent may still send after the turn: only the context is
    /// recognized then.
    pub(super) fn after_turn(self) -> Option<Self> {
        let has_context = self.has_context();
        let parts = Some(VecDeque::new());
        has_context.then_some(Self { parts, ..self })
    }

    /// Whether a chunk's content repeats the next part of the prompt: more of its text, or the same
    /// block. The agent may leave parts out.
    pub(in crate::engine::agent) fn repeats(&mut self, content: &str) -> bool {
        let Some(chunk) = json::tree(content) else {
            return false;
        };
        if let Some(text) = text(&chunk) {
            return self.repeats_text(&dense(text));
        }
        let parts = self.parts();
        let same = |part: &PromptPart| matches!(part, PromptPart::Block(block) if *block == chunk);
        let found = parts.iter().position(same);
        if let Some(at) = found {
            parts.drain(..=at);
        }
        found.is_some()
    }

    /// Whether a chunk's content repeats some of the context, perhaps followed by the prompt.
    pub(in crate::engine::agent) fn repeats_context(&mut self, content: &str) -> bool {
        let chunk = json::tree(content).filter(|_| self.has_context());
        let Some(text) = chunk.as_ref().and_then(text).map(dense) else {
            return false;
        };
        let opening = prefix(&self.context, PREFIX);
        if let Some(at) = text.find(opening) {
            self.advance(0, &text[at..]);
            return true;
        }
        let left = &self.context[self.at..];
        if left.is_empty() {
            return false;
        }
        if left.starts_with(&text) || text.starts_with(left) {
            self.advance(self.at, &text);
            return true;
        }
        let piece = text.len() >= PIECE;
        if let Some(skipped) = left.find(&text).filter(|_| piece) {
            self.at += skipped + text.len();
            return true;
        }
        false
    }

    /// Moves past a text that repeats the context from `from` on.
    fn advance(&mut self, from: usize, text: &str) {
        let left = &self.context[from..];
        let pairs = left.chars().zip(text.chars());
        let same = pairs.take_while(|(a, b)| a == b);
        let length: usize = same.map(|(a, _)| a.len_utf8()).sum();
        self.at = from + length;
        let rest = &text[length..];
        if self.at == self.context.len() && !rest.is_empty() {
            self.repeats_text(rest);
        }
    }

    fn repeats_text(&mut self, words: &str) -> bool {
        if words.is_empty() {
            return true;
        }
        let parts = self.parts();
        for start in 0..parts.len() {
            if let Some((whole, rest)) = covered(parts.range(start..), words) {
                parts.drain(..start + whole);
                if let Some(rest) = rest {
                    parts.push_front(PromptPart::Text(rest));
                }
                return true;
            }
        }
        false
    }

    fn parts(&mut self) -> &mut VecDeque<PromptPart> {
        let params = &self.params;
        self.parts.get_or_insert_with(|| read(params))
    }
}

/// Which parts these words repeat in sequence: how many, and the rest of the last one.
fn covered<'a>(
    parts: impl Iterator<Item = &'a PromptPart>,
    mut words: &str,
) -> Option<(usize, Option<String>)> {
    for (whole, part) in parts.enumerate() {
        let PromptPart::Text(text) = part else {
            return None;
        };
        if let Some(rest) = text.strip_prefix(words) {
            let rest = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
            return Some((whole + 1, rest));
        }
        words = words.strip_prefix(text.as_str())?;
    }
    None
}

/// A text without its white space.
fn dense(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The first `length` characters of a text.
fn prefix(text: &str, length: usize) -> &str {
    let end = text.char_indices().nth(length);
    end.map_or(text, |(end, _)| &text[..end])
}

fn text(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").filter(|_| is_text)?.as_str()
}

fn read(params: &str) -> VecDeque<PromptPart> {
    let blocks = json::tree(params).and_then(|mut params| {
        let prompt = params.get_mut("prompt")?.as_array_mut()?;
        Some(std::mem::take(prompt))
    });
    let part = |block: Value| match text(&block).map(dense) {
        Some(text) => PromptPart::Text(text),
        None => PromptPart::Block(block),
    };
    blocks.unwrap_or_default().into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"prompt":[{"type":"text","text":"one "},{"type":"text","text":"t\u0077o"},{"type":"image","data":"AA==","n":1.0},{"type":"text","text":"three"}]}"#;

    fn text(text: &str) -> String {
        format!(r#"{{"type":"text","text":"{text}"}}"#)
    }

    #[test]
    fn a_repeated_prompt_is_recognized_however_it_is_split() {
        let image = r#"{"n":1.0,"type":"image","data":"AA=="}"#.to_owned();
        for (chunks, expected) in [
            (
                vec![text("one "), text("two"), image.clone(), text("three")],
                "yyyy",
            ),
            (
                vec![text("one two"), text("th"), text(""), text("ree")],
                "yyyy",
            ),
            (
                vec![
                    text("o"),
                    text("ne tw"),
                    text("x"),
                    text("o"),
                    image.clone(),
                ],
                "yynyy",
            ),
            (
                // Joined with other white space, and trimmed.
                vec![text(" one\\n\\ntwo"), text(" \\n"), text("\\nthree ")],
                "yyy",
            ),
            (
                vec![image.clone(), text("one"), text("three"), text("three")],
                "ynyn",
            ),
            (
                vec![
                    text("one two!"),
                    text("One"),
                    "{}".to_owned(),
                    "nonsense".to_owned(),
                ],
                "nnnn",
            ),
        ] {
            let mut echo = Echo::new(PROMPT, None);
            let found: String = chunks
                .iter()
                .map(|chunk| if echo.repeats(chunk) { 'y' } else { 'n' })
                .collect();
            assert_eq!(found, expected, "{chunks:?}");
        }
        assert!(!Echo::new("{", None).repeats(&text("a")));
    }

    #[test]
    fn what_is_said_within_a_turn_is_recorded_once() {
        let params = r#"{"prompt":[{"type":"text","text":"be brief"}]}"#;
        let said = || {
            let mut steered = Steered::default();
            steered.said("m", params);
            steered
        };
        // The agent shows it after it has taken it.
        let mut steered = said();
        assert!(steered.answered("m", true));
        assert!(steered.repeats(&text("be ")));
        assert!(steered.repeats(&format!("[{}]", text("brief"))));
        assert!(!steered.repeats(&text("brief")));
        // The agent shows it before.
        let mut steered = said();
        assert!(!steered.repeats(&text("be brief")));
        assert!(!steered.answered("m", true));
        // The answer does not say that the agent has taken it.
        let mut steered = said();
        assert!(!steered.answered("m", false));
        assert!(!steered.repeats(&text("be brief")));
        assert!(!steered.answered("m", true));
    }

    const CONTEXT: &str = "Below is what was said so far, in this conversation.\nONE: a\nTWO: b\n";

    /// Which chunks repeat the context (`c`), the prompt (`y`), or neither.
    fn found(chunks: &[String]) -> String {
        let mut echo = Echo::new(PROMPT, Some(CONTEXT));
        let mark = |chunk: &String| match echo.repeats_context(chunk) {
            true => 'c',
            false if echo.repeats(chunk) => 'y',
            false => 'n',
        };
        chunks.iter().map(mark).collect()
    }

    #[test]
    fn a_repeated_context_is_recognized_however_it_is_split() {
        let json = |text: &str| serde_json::json!({ "type": "text", "text": text }).to_string();
        let (begin, end) = CONTEXT.split_at(30);
        for (chunks, expected) in [
            (vec![json(CONTEXT), text("one two")], "cy"),
            (
                vec![json(&format!("{CONTEXT}\n\none two")), text("three")],
                "cy",
            ),
            (
                vec![json(begin), json(end), text("one two"), text("three")],
                "ccyy",
            ),
            (
                vec![
                    json(begin.trim()),
                    json(&format!("{end}\none")),
                    text("two"),
                ],
                "ccy",
            ),
            // Cut short, after a word of the agent, or twice.
            (
                vec![json(&format!("User: {}…", &CONTEXT[..55])), text("one")],
                "cy",
            ),
            (vec![json(CONTEXT), json(CONTEXT), text("one")], "ccy"),
            // With pieces left out.
            (vec![json(begin), json(&CONTEXT[40..64])], "cc"),
            // The agent sends the user's words alone, or something else.
            (vec![text("one two"), text("What now?")], "yn"),
        ] {
            assert_eq!(found(&chunks), expected, "{chunks:?}");
        }
    }
}
