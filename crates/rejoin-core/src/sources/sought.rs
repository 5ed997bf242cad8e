//! Says whether a tool's file may have a text that is looked for, without reading the conversation in it.

use std::collections::BTreeSet;

use memchr::memmem::{self, Finder};

/// The words that the readers add to what the files have.
const OWN_WORDS: &str = "API Ask Edit Error Fetch Find List Ready Read Run Search Subagent The Unknown View Write an code console diff document error exit file image recorded result returned was";

/// The longest word of a text that is looked for: in the files it is as it is, unless with escapes.
#[derive(Debug, Default)]
pub(super) struct SoughtWord<'t> {
    /// None if it may be in any file.
    word: Option<Finder<'t>>,
    characters: BTreeSet<u16>,
}

impl<'t> SoughtWord<'t> {
    /// The word of this text; without one, any file may have what is looked for.
    pub(super) fn of(text: Option<&'t str>) -> Self {
        let words = text
            .unwrap_or_default()
            .split(|c: char| !c.is_alphanumeric() && c != '_');
        let word = words.max_by_key(|word| word.len());
        // Readers put such words there.
        let word = word.filter(|word| !word.is_empty() && !OWN_WORDS.contains(word));
        Self {
            word: word.map(Finder::new),
            characters: word.unwrap_or_default().encode_utf16().collect(),
        }
    }

    /// Whether the text may be in a conversation that has these lines. Text there may be put together
    /// from several strings, but not within a word.
    pub(super) fn may_be_in(&self, file: &[u8]) -> bool {
        let Some(word) = &self.word else {
            return true;
        };
        if word.find(file).is_some() {
            return true;
        }
        let mut colours = Vec::new();
        for at in memmem::find_iter(file, b"\\u") {
            let digits = file.get(at + 2..at + 6);
            let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            // Each character can be written as an escape.
            if unit.is_some_and(|unit| self.characters.contains(&unit)) {
                return true;
            }
            if unit == Some(0x1b) {
                colours.push(at);
            }
        }
        // Readers remove what colours text in a terminal, also from within words.
        is_across(file, word, &colours)
    }
}

/// Whether a JSON text may have a word with sequences in it that colour text in a terminal; these
/// begin at `colours`.
fn is_across(json: &[u8], word: &Finder<'_>, colours: &[usize]) -> bool {
    let beside = word.needle().len() - 1;
    // Text without the sequences that are so near each other that a word may have several of them.
    let mut plain = Vec::new();
    // Where the last one ends.
    let mut end = 0;
    for &at in colours {
        let slashes = json[..at].iter().rev().take_while(|byte| **byte == b'\\');
        if at < end || slashes.count() % 2 == 1 {
            continue;
        }
        let Some(next) = end_of_colour(json, at) else {
            return true;
        };
        if at - end > 2 * beside {
            plain.extend_from_slice(&json[end..end + beside]);
            if word.find(&plain).is_some() {
                return true;
            }
            plain.clear();
            end = at - beside;
        }
        plain.extend_from_slice(&json[end..at]);
        end = next;
    }
    plain.extend(json[end..].iter().take(beside));
    word.find(&plain).is_some()
}

/// Where the sequence that begins with the escape at `at` ends; none if it is not plain.
fn end_of_colour(json: &[u8], at: usize) -> Option<usize> {
    let start = at + b"\\u001b[".len();
    if json.get(start - 1) != Some(&b'[') {
        return None;
    }
    let rest = json[start..].iter();
    let mut rest = rest.zip(start..);
    let (last, at) = rest.find(|(byte, _)| (b'@'..=b'~').contains(*byte))?;
    (*last != b'\\').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_be_in_a_file_with_escapes_and_colours_in_it() {
        let sought = SoughtWord::of(Some("the redis"));
        for (file, expected) in [
            ("a redis", true),
            ("a red is", false),
            (r"red\u001b[1mis", true),
            (r"r\u001b[1m\u001b[0;31med\u001B[0mis", true),
            (
                r"x\u001b[1mred\u001b[0mxis and \u001b[1ma long way off",
                false,
            ),
            (
                r"\u001b[1mx\u001b[0m and a long way off r\u001b[1medis",
                true,
            ),
            (r"redi\u001b[1m", false),
            (r"\u001b[1mredi", false),
            // The text `\u001b[1m`.
            (r"red\\u001b[1mis", false),
            (r"red\\\u001b[1mis", false),
            // Escape sequences that are not parsed.
            (r"red\u001b]0;is", true),
            (r"\u001b", true),
            // Letters of the word.
            (r"r\u0065dis", true),
            (r"\u007a", false),
        ] {
            assert_eq!(sought.may_be_in(file.as_bytes()), expected, "{file}");
        }
    }
}
