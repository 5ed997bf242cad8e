//! What is not shown of settings: keys, tokens, passwords, and the values of environment variables.

use std::sync::LazyLock;

use jsonc_parser::ast::Value;
use regex::Regex;

use crate::redact;

use super::document::Document;

/// What is shown in the place of a secret.
const MASK: &str = "…";

/// The words of a name whose value is a secret.
const NAMES: &str = "key|token|secret|passw|pwd|auth|credential|cookie|bearer";

/// The name and the value of a member in JSON.
static MEMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r#"(?i)("[^"]*(?:{NAMES})[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*""#
    ))
    .ok()
});

/// A variable of the environment with its value, or a header with a secret.
static ASSIGNED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r"(?is)^([a-z_][a-z0-9_]*=|[\w-]*(?:{NAMES})[\w-]*:).+$"
    ))
    .ok()
});

/// An option of a program that is followed by a secret, or by `=` and a secret.
static OPTION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"(?i)^(-[^=\s]*(?:{NAMES})[^=\s]*)(=.*)?$")).ok());

/// The password in an address.
static PASSWORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(://[^\s/:@"]*:)[^\s/@"]+@"#).ok());

/// The secrets in settings.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Strings as they are written, and what is shown in their place.
    strings: Vec<(String, String)>,
}

impl Secrets {
    /// The secrets in these settings.
    pub(super) fn of<'d>(documents: impl IntoIterator<Item = &'d Document<'d>>) -> Self {
        let mut secrets = Self::default();
        for document in documents {
            for member in document.root().iter().flat_map(|root| &root.properties) {
                secrets.add_member(document, member.name.as_str(), &member.value);
            }
        }
        secrets
    }

    /// Those in a member of any object, such as `env` and `args` of an agent or an MCP server.
    fn add_member(&mut self, document: &Document<'_>, name: &str, value: &Value<'_>) {
        match value {
            Value::Object(object) => {
                for member in &object.properties {
                    if name == "env" {
                        self.add(document, &member.value, &format!("\"{MASK}\""));
                    }
                    self.add_member(document, member.name.as_str(), &member.value);
                }
            }
            Value::Array(array) => {
                self.add_arguments(document, &array.elements);
                for element in &array.elements {
                    self.add_member(document, "", element);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, document: &Document<'_>, value: &Value<'_>, shown: &str) {
        let Value::StringLit(text) = value else {
            return;
        };
        if !text.value.is_empty() {
            let written = document.source(value).to_owned();
            self.strings.push((written, shown.to_owned()));
        }
    }

    fn add_arguments(&mut self, document: &Document<'_>, arguments: &[Value<'_>]) {
        let mut follows = false;
        for argument in arguments {
            let text = argument
                .as_string_lit()
                .map(|text| &*text.value)
                .unwrap_or_default();
            let option = OPTION.as_ref().and_then(|option| option.captures(text));
            match option {
                Some(option) if option.get(2).is_some() => {
                    self.add(document, argument, &format!("\"{}={MASK}\"", &option[1]));
                    follows = false;
                }
                Some(_) => follows = true,
                None if let Some(assigned) = assigned(text) => {
                    self.add(document, argument, &format!("\"{assigned}{MASK}\""));
                    follows = false;
                }
                None if std::mem::take(&mut follows) => {
                    self.add(document, argument, &format!("\"{MASK}\""));
                }
                None => {}
            }
        }
    }

    /// A line of the settings without the secrets in it.
    pub(super) fn masked(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (written, shown) in &self.strings {
            line = replaced(&line, written, shown);
        }
        let line = redact::text(&line);
        let line = match &*MEMBER {
            Some(member) => member.replace_all(&line, format!("$1\"{MASK}\"")),
            None => line,
        };
        match &*PASSWORD {
            Some(password) => password
                .replace_all(&line, format!("${{1}}{MASK}@"))
                .into_owned(),
            None => line.into_owned(),
        }
    }
}

/// What comes before the value that an argument assigns to a variable or a header.
fn assigned(argument: &str) -> Option<&str> {
    let found = ASSIGNED.as_ref()?.captures(argument)?;
    Some(found.get(1)?.as_str())
}

/// The line with another string in the place of this one, where that is no name of a member.
fn replaced(line: &str, written: &str, shown: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once(written) {
        out.push_str(before);
        let is_name = behind.trim_start().starts_with(':');
        out.push_str(if is_name { written } else { shown });
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_agents_are_not_shown() {
        let text = r#"{
  "proxy": "http://ada:hunter2@host:1/x", "my_token": "t0",
  "agent_servers": {
    "a": {
      "command": "agent", "MODE": "command",
      "args": ["--api-key", "k1", "--port", "80", "--password=p\"w", "--verbose"],
      "env": { "MODE": "command", "N": 1, "DSN": "d3" }
    },
    "b": { "command": "env", "args": [
      "DB=d4", "agent", "-H", "Authorization: Basic d5",
      "--auth-token",
      "k2",
      "a: b", "https://x/?a=b",
      "last"
    ] }
  },
  "context_servers": { "m": { "command": { "env": { "M": "d6" }, "args": ["--token=d7"] } } }
}"#;
        let document = Document::parse(text).unwrap();
        let secrets = Secrets::of([&document]);
        let shown: Vec<_> = text.lines().map(|line| secrets.masked(line)).collect();
        let expected = r#"{
  "proxy": "http://ada:…@host:1/x", "my_token": "…",
  "agent_servers": {
    "a": {
      "command": "agent", "MODE": "…",
      "args": ["--api-key", "…", "--port", "80", "--password=…", "--verbose"],
      "env": { "MODE": "…", "N": 1, "DSN": "…" }
    },
    "b": { "command": "env", "args": [
      "DB=…", "agent", "-H", "Authorization:…",
      "--auth-token",
      "…",
      "a: b", "https://x/?a=b",
      "last"
    ] }
  },
  "context_servers": { "m": { "command": { "env": { "M": "…" }, "args": ["--token=…"] } } }
}"#;
        assert_eq!(shown.join("\n"), expected);
    }
}
