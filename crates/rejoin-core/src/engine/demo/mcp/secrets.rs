//! Hides possible secrets of a server's configuration in texts about the server.

use std::fmt;

use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Shorter values are not hidden: they would match unrelated words.
const SHORTEST: usize = 4;

/// Shorter lines of a longer value are not hidden separately.
const SHORTEST_LINE: usize = 8;

/// The length of the longest escape of a byte in JSON: `\u001f`.
const LONGEST_ESCAPE: usize = 6;

/// The replacement for a secret.
const HIDDEN: &str = "***";

/// Texts that must not be shown: the longest first, since one may be a part of another. They are
/// overwritten in memory when they are dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct McpSecrets(Vec<Zeroizing<String>>);

impl ZeroizeOnDrop for McpSecrets {}

impl McpSecrets {
    /// The secrets in these texts; short ones are ignored.
    pub(super) fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let texts = texts.into_iter().map(Zeroizing::new);
        let texts = texts.filter(|text| text.len() >= SHORTEST);
        let mut texts: Vec<_> = texts.flat_map(|text| forms(&text)).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self(texts)
    }

    /// The text with all secrets replaced.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }
}

/// The forms in which a text may be repeated: as it is, line by line, and in JSON.
fn forms(text: &str) -> Vec<Zeroizing<String>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.len() >= SHORTEST_LINE);
    let whole = std::iter::once(text);
    let mut forms: Vec<_> = lines.chain(whole).map(copied).collect();
    let within: Vec<_> = forms.iter().flat_map(|form| in_json(form)).collect();
    forms.extend(within);
    forms
}

/// A text as it is in a JSON string: with other characters than ASCII as they are, and escaped.
fn in_json(text: &str) -> [Zeroizing<String>; 2] {
    // The buffer must not grow: reallocation would leave a copy of the secret behind.
    let mut quoted = Zeroizing::new(Vec::with_capacity(2 + LONGEST_ESCAPE * text.len()));
    // Serializing a string cannot fail.
    serde_json::to_writer(&mut *quoted, text).ok();
    let quoted = std::str::from_utf8(&quoted).unwrap_or_default();
    let inner = quoted.trim_start_matches('"');
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut ascii = Zeroizing::new(String::with_capacity(LONGEST_ESCAPE * inner.len()));
    for c in inner.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let escaped = format!("\\u{unit:04x}");
                ascii.push_str(&escaped);
            }
        }
    }
    [copied(inner), ascii]
}

fn copied(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

impl fmt::Debug for McpSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpSecrets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_anywhere_in_a_text() {
        let secrets = ["pass", "password", "-y", "Zoë!"].map(str::to_owned);
        let secrets = McpSecrets::new(secrets);
        for (text, expected) in [
            ("no such file", "no such file"),
            ("wrong password: password", "wrong ***: ***"),
            ("pass-y", "***-y"),
            ("user=Zoë!.", "user=***."),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
        assert_eq!(format!("{secrets:?}"), "McpSecrets");
    }

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let key = "-----BEGIN KEY-----\nSECRETLINE\n-----END KEY-----";
        let secrets = McpSecrets::new([key.to_owned(), "Zq\"x\\7Secr3té".to_owned()]);
        for (text, expected) in [
            ("it said SECRETLINE", "it said ***"),
            (r#"{"v":"Zq\"x\\7Secr3té"}"#, r#"{"v":"***"}"#),
            (r#"{"v":"Zq\"x\\7Secr3t\u00e9"}"#, r#"{"v":"***"}"#),
            (
                r#"["-----BEGIN KEY-----\nSECRETLINE\n-----END KEY-----"]"#,
                r#"["***"]"#,
            ),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
    }
}
