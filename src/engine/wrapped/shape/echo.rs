//! Recognises the user's own words when the agent repeats them.
//!
//! Some agents answer a prompt by sending it back as chunks of a user message. It is in the log
//! already, as the prompt.

use std::collections::VecDeque;

use serde_json::Value;

use crate::record::json;

/// What is left of a prompt to be repeated.
#[derive(Debug)]
pub(super) enum Echo {
    /// Nothing was repeated so far: the request's parameters. Most agents never do.
    Unread(String),
    /// What was not repeated yet.
    Left(VecDeque<Part>),
}

/// A part of a prompt.
#[derive(Debug)]
pub(super) enum Part {
    /// The text of one block or of several in a row.
    Text(String),
    /// Another block.
    Block(Value),
}

impl Echo {
    pub(super) fn new(prompt_params: &str) -> Self {
        Self::Unread(prompt_params.to_owned())
    }

    /// Whether a chunk's content repeats what comes next in the prompt: more of its text, or the
    /// same block. The agent may leave parts out.
    pub(super) fn repeats(&mut self, content: &str) -> bool {
        let Some(chunk) = json::tree(content) else {
            return false;
        };
        if let Self::Unread(params) = self {
            *self = Self::Left(parts(params));
        }
        let Self::Left(left) = self else {
            return false;
        };
        let text = text(&chunk);
        let same = |part: &Part| match (part, text) {
            (Part::Text(part), Some(text)) => part.starts_with(text),
            (Part::Block(part), None) => *part == chunk,
            _ => false,
        };
        if text == Some("") {
            return true;
        }
        let Some(at) = left.iter().position(same) else {
            return false;
        };
        left.drain(..at);
        match (left.pop_front(), text) {
            (Some(Part::Text(mut part)), Some(text)) if part.len() > text.len() => {
                part.drain(..text.len());
                left.push_front(Part::Text(part));
            }
            _ => {}
        }
        true
    }
}

fn text(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").filter(|_| is_text)?.as_str()
}

fn parts(params: &str) -> VecDeque<Part> {
    let mut parts = VecDeque::new();
    let blocks = json::tree(params).and_then(|mut params| {
        let prompt = params.get_mut("prompt")?.as_array_mut()?;
        Some(std::mem::take(prompt))
    });
    for block in blocks.unwrap_or_default() {
        match (parts.back_mut(), text(&block)) {
            (Some(Part::Text(last)), Some(text)) => last.push_str(text),
            (_, Some(text)) => parts.push_back(Part::Text(text.to_owned())),
            (_, None) => parts.push_back(Part::Block(block)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"prompt":[{"type":"text","text":"one "},{"type":"text","text":"t\u0077o"},{"type":"image","data":"AA==","n":1.0},{"type":"text","text":"three"}]}"#;

    fn text(text: &str) -> String {
        format!(r#"{{"type":"text","text":"{text}"}}"#)
    }

    #[test]
    fn the_prompt_is_recognised_however_it_is_cut() {
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
            let mut echo = Echo::new(PROMPT);
            let found: String = chunks
                .iter()
                .map(|chunk| if echo.repeats(chunk) { 'y' } else { 'n' })
                .collect();
            assert_eq!(found, expected, "{chunks:?}");
        }
        assert!(!Echo::new("{").repeats(&text("a")));
    }
}
