//! Keeps what may be a secret of a server's description out of what is said about the server.

use std::fmt;

/// What shorter values are not looked for: they would hit words that have nothing to do with them.
const SHORTEST: usize = 4;

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// Texts that must not be shown: the longest first, since one may be a part of another.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// These texts.
    pub(super) fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> = texts
            .into_iter()
            .filter(|text| text.len() >= SHORTEST)
            .collect();
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
}
