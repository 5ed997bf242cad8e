//! Content blocks as text: kept verbatim, with the text of adjacent chunks joined.

use crate::json::split::{begins_with_low_surrogate, ends_in_high_surrogate};
use crate::protocol::text_block::plain_text;

/// The content of a message.
#[derive(Debug, Default)]
pub(super) struct MessageContent {
    blocks: Vec<String>,
    /// If the last block has only text: where its text ends, and the id of its message.
    open: Option<(usize, String)>,
}

impl MessageContent {
    /// Adds a block of the message with this id, as JSON text of one object. `budget` is how many
    /// more bytes are allowed, and is reduced. Returns false if the block is too long.
    pub(super) fn add(&mut self, block: &str, message: &str, budget: &mut usize) -> bool {
        let text = plain_text(block.as_bytes(), 0);
        if let (Some(text), Some((end, of)), Some(last)) =
            (&text, &mut self.open, self.blocks.last_mut())
            && of == message
            && !parts_a_pair(&last[..*end], &block[text.clone()])
        {
            let more = &block[text.clone()];
            if more.len() > *budget {
                return false;
            }
            *budget -= more.len();
            last.insert_str(*end, more);
            *end += more.len();
            return true;
        }
        if block.len() > *budget {
            return false;
        }
        *budget -= block.len();
        self.open = text.map(|text| (text.end, message.to_owned()));
        self.blocks.push(block.to_owned());
        true
    }

    /// Ends the last block: text that is added from now on is not joined to it.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Appends the JSON array to a text.
    pub(super) fn write(&self, text: &mut String) {
        for (number, block) in self.blocks.iter().enumerate() {
            text.extend([if number == 0 { "[" } else { "," }, block]);
        }
        text.push_str(if self.blocks.is_empty() { "[]" } else { "]" });
    }
}

/// Whether a text ends with one half of a surrogate pair and the next text begins with the other.
/// Apart they are two broken characters; joined they are a character that nobody sent.
fn parts_a_pair(before: &str, after: &str) -> bool {
    ends_in_high_surrogate(before.as_bytes()) && begins_with_low_surrogate(after.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(blocks: &MessageContent) -> String {
        let mut text = String::new();
        blocks.write(&mut text);
        text
    }

    #[test]
    fn text_of_one_message_is_joined_and_nothing_else() {
        let mut blocks = MessageContent::default();
        for (block, message) in [
            (r#"{"type":"text","text":"a\u00e9"}"#, "1"),
            (r#"{ "text" : "b" , "type":"text"}"#, "1"),
            (r#"{"type":"text","text":"c"}"#, "2"),
            (r#"{"type":"text","text":"d","_meta":{"n":1.50}}"#, "2"),
            (r#"{"type":"text","text":"e"}"#, "2"),
            (r#"{"type":"text","text":"\ud83d"}"#, "2"),
            (r#"{"type":"text","text":"\ude00"}"#, "2"),
            (r#"{"type":"image","data":"","mimeType":"x"}"#, "2"),
        ] {
            assert!(blocks.add(block, message, &mut 1000));
        }
        let expected = [
            r#"{"type":"text","text":"a\u00e9b"}"#,
            r#"{"type":"text","text":"c"}"#,
            r#"{"type":"text","text":"d","_meta":{"n":1.50}}"#,
            r#"{"type":"text","text":"e\ud83d"}"#,
            r#"{"type":"text","text":"\ude00"}"#,
            r#"{"type":"image","data":"","mimeType":"x"}"#,
        ];
        assert_eq!(array(&blocks), format!("[{}]", expected.join(",")));
    }

    #[test]
    fn what_is_beyond_the_budget_is_left_out() {
        let block = r#"{"type":"text","text":"abc"}"#;
        let mut blocks = MessageContent::default();
        let mut budget = block.len() + 2;
        assert!(blocks.add(block, "", &mut budget));
        assert_eq!(budget, 2);
        assert!(!blocks.add(block, "", &mut budget));
        assert_eq!(array(&blocks), format!("[{block}]"));
    }
}
