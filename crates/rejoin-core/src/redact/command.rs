//! Command lines as they may be shown: without the values that are keys, tokens or passwords.
//!
//! Nothing but the name of an option, or of a variable, says that a value is one. So more is masked
//! here than in a conversation, and none of the value is shown.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The text in the place of a secret.
pub const HIDDEN: &str = "…";

/// The words of a name whose value is a secret.
pub const NAMES: &str = "key|token|secret|pass|pwd|auth|credential|cookie|bearer|jwt|signature";

/// Whole names that are too short to be looked for in others.
pub const SHORT_NAMES: &str = "pat|pw|pin";

/// An option of a program that is followed by a secret, or by `=` and a secret.
static OPTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r"(?is)^(--?[^=\s]*(?:{NAMES}|header)[^=\s]*|--?(?:{SHORT_NAMES})|-H)(=.*)?$"
    ))
    .ok()
});

/// The text before a secret in an argument: the name of a variable that is set, or words with the
/// name of a secret.
static BEFORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r#"(?is)^(?:((?:--?[\w-]+=)?[a-z_]\w*=).+|(.*?(?:{NAMES})[\w.-]*)[\s=:"'].*)$"#
    ))
    .ok()
});

/// The user and the password in an address.
static LOGIN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"(://)[^\s"]+@"#).ok());

/// The words of a command as they may be shown.
pub fn masked_command<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut behind = None;
    let shown = words.into_iter().map(|word| {
        let before = behind.take();
        if !before.is_some_and(|before| takes(before, word)) {
            behind = Some(word);
        }
        argument(word, before).unwrap_or_else(|| super::text(&logins(word)).into_owned())
    });
    shown.collect()
}

/// The text to show for an argument that comes behind another one, if it has a secret.
pub fn argument(text: &str, behind: Option<&str>) -> Option<String> {
    if behind.is_some_and(|behind| takes(behind, text)) {
        return (!text.is_empty()).then(|| HIDDEN.to_owned());
    }
    let before = |found: Captures<'_>| {
        let name = found.get(1).or(found.get(2));
        name.map_or("", |name| name.as_str()).to_owned()
    };
    if let Some(option) = option(text) {
        option.get(2)?;
        return Some(format!("{}={HIDDEN}", before(option)));
    }
    let found = BEFORE.as_ref()?.captures(text)?;
    Some(before(found) + HIDDEN)
}

/// Whether an argument is the secret of the option before it.
pub fn takes(behind: &str, text: &str) -> bool {
    option(behind).is_some_and(|option| option.get(2).is_none())
        || matches!(behind, "-u" | "--user") && text.contains(':')
}

/// A text without the users and passwords in its addresses.
pub fn logins(text: &str) -> String {
    match &*LOGIN {
        Some(login) => login
            .replace_all(text, format!("${{1}}{HIDDEN}@"))
            .into_owned(),
        None => text.to_owned(),
    }
}

fn option(text: &str) -> Option<Captures<'_>> {
    OPTION.as_ref()?.captures(text)
}

#[cfg(test)]
mod tests {
    use super::masked_command;

    fn shown(line: &[&str]) -> String {
        masked_command(line.iter().copied()).join(" ")
    }

    #[test]
    fn secrets_of_options_and_variables_are_not_shown() {
        let key = ["sk", "-ant-", "api03-", "Xq7Lm2Vt9Rz4Kc8Wp1Nb6Hs3"].concat();
        for (line, expected) in [
            (
                &[
                    "wrap",
                    "--keep",
                    "--",
                    "agent",
                    "--api-key",
                    "k1",
                    "--token=k2",
                    "-v",
                ][..],
                "wrap --keep -- agent --api-key … --token=… -v",
            ),
            (
                &["wrap", "--", "env", "API_KEY=k1", "agent", "acp"],
                "wrap -- env API_KEY=… agent acp",
            ),
            (
                &["wrap", "--", "sh", "-c", "exec agent --password k1"],
                "wrap -- sh -c exec agent --password…",
            ),
            (
                &[
                    "agent",
                    "-u",
                    "ada:k1",
                    "https://ada:k2@host/x",
                    key.as_str(),
                ],
                "agent -u … https://…@host/x [redacted anthropic-token]",
            ),
            (
                &["serve", "--store-password-command", "echo k1", "--keep=30m"],
                "serve --store-password-command … --keep=30m",
            ),
            (&["agent", "--token", "…"], "agent --token …"),
            (
                &[
                    "wrap",
                    "--keep",
                    "--log-level=debug",
                    "--",
                    "npx",
                    "-y",
                    "@x/keys@1.0",
                ],
                "wrap --keep --log-level=debug -- npx -y @x/keys@1.0",
            ),
        ] {
            assert_eq!(shown(line), expected);
        }
    }
}
