//! Keeps what may be a secret of a server's description out of what is said about the server.

use std::fmt;

/// What shorter values are not looked for: they would hit words that have nothing to do with them.
const SHORTEST: usize = 4;

/// What shorter lines of a longer value are not looked for.
const SHORTEST_LINE: usize = 8;

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// Texts that must not be shown: the longest first, since one may be a part of another.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// These texts.
    pub(super) fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let texts = texts.into_iter().filter(|text| text.len() >= SHORTEST);
        let mut texts: Vec<String> = texts.flat_map(|text| forms(&text)).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self(texts)
    }

    /// The text without any of them.
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

/// A text in the forms in which it may be repeated: as it is, line by line, and within JSON.
fn forms(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.len() >= SHORTEST_LINE);
    let mut forms: Vec<String> = lines.map(str::to_owned).collect();
    forms.push(text.to_owned());
    let within: Vec<String> = forms.iter().flat_map(|form| in_json(form)).collect();
    forms.extend(within);
    forms
}

/// How a text stands within a JSON string, with all characters and with those of ASCII alone.
fn in_json(text: &str) -> [String; 2] {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.trim_start_matches('"');
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut ascii = String::new();
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
    [inner.to_owned(), ascii]
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let secrets = ["pass", "password", "-y", "Zoë!"].map(str::to_owned);
        let secrets = Secrets::new(secrets);
        for (text, expected) in [
            ("no such file", "no such file"),
            ("wrong password: password", "wrong ***: ***"),
            ("pass-y", "***-y"),
            ("user=Zoë!.", "user=***."),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
        assert_eq!(format!("{secrets:?}"), "Secrets");
    }

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let key = "-----BEGIN KEY-----\nSECRETLINE\n-----END KEY-----";
        let secrets = Secrets::new([key.to_owned(), "Zq\"x\\7Secr3té".to_owned()]);
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
