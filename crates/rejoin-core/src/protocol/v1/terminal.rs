//! The output of an agent's terminals, as text: version 1 has no terminals of an agent.

use std::collections::HashMap;

use crate::json;
use crate::protocol::Id;

/// The output of the terminals of one session.
#[derive(Debug, Default)]
pub(super) struct V1Terminals(HashMap<Id, Vec<u8>>);

impl V1Terminals {
    /// Takes an update of a terminal: its state or more output. Returns the terminal if its output
    /// has changed.
    pub(super) fn update(&mut self, update: &str) -> Option<Id> {
        let id = Id::of(json::string_member(update, "terminalId")?.as_bytes());
        let output = self.0.entry(id).or_default();
        if let Some(data) = json::string_member(update, "data") {
            decode(&data, output);
            return Some(id);
        }
        let whole = json::text_member(update, "output")?;
        output.clear();
        if let Some(data) = json::string_member(whole, "data") {
            decode(&data, output);
        }
        Some(id)
    }

    /// The output of a terminal so far.
    pub(super) fn text(&self, id: Id) -> String {
        let output = self.0.get(&id).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(output).into_owned()
    }

    /// Forgets the output.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Appends the bytes of a text in base64 (RFC 4648). Anything else in it is skipped.
fn decode(text: &str, out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("w7/vv70/", "\u{ff}\u{fffd}?"),
        ] {
            let mut out = Vec::new();
            decode(text, &mut out);
            assert_eq!(out, bytes.as_bytes());
        }
    }
}
