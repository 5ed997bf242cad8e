//! Secrets in settings that are not shown: keys, tokens, passwords, and the values of environment
//! variables.

use std::sync::LazyLock;

use jsonc_parser::ast::{Object, Value};
use regex::Regex;

use rejoin::json;
use rejoin::redact;
use rejoin::redact::command::{self, HIDDEN, NAMES, SHORT_NAMES};

use super::document::Document;

/// The name of a member with a secret.
static NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("(?i){NAMES}|^(?:{SHORT_NAMES})$")).ok());

/// The name and the value of a member in JSON, which may be in a comment.
static MEMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r#"(?i)("[^"]*(?:{NAMES})[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*""#
    ))
    .ok()
});

/// The secrets in settings.
#[derive(Debug, Default)]
pub(super) struct SettingsSecrets {
    /// Strings as they are written, and what is shown in their place.
    strings: Vec<(String, String)>,
}

impl SettingsSecrets {
    /// The secrets in these settings.
    pub(super) fn of<'d>(documents: impl IntoIterator<Item = &'d Document<'d>>) -> Self {
        let mut secrets = Self::default();
        for document in documents {
            if let Some(root) = document.root() {
                secrets.add_members(document, root, false);
            }
        }
        secrets
    }

    /// Adds the secrets in the members of an object, such as `env` and `args` of an agent or an MCP
    /// server. `all` says whether each value is one.
    fn add_members(&mut self, document: &Document<'_>, object: &Object<'_>, all: bool) {
        for member in &object.properties {
            let name = member.name.as_str();
            let is_secret = all || NAME.as_ref().is_some_and(|secret| secret.is_match(name));
            let has_secrets = is_secret || matches!(name, "env" | "headers" | "http_headers");
            match &member.value {
                Value::Object(object) => self.add_members(document, object, has_secrets),
                Value::Array(array) => self.add_elements(document, &array.elements, has_secrets),
                value if is_secret => self.add(document, value, HIDDEN),
                value => {
                    self.add_argument(document, value, None);
                }
            }
        }
    }

    fn add_elements(&mut self, document: &Document<'_>, elements: &[Value<'_>], all: bool) {
        let mut before = None;
        for element in elements {
            let mut is_value = false;
            match element {
                Value::Object(object) => self.add_members(document, object, all),
                Value::Array(array) => self.add_elements(document, &array.elements, all),
                value if all => self.add(document, value, HIDDEN),
                value => is_value = self.add_argument(document, value, before),
            }
            let text = element.as_string_lit().filter(|_| !is_value);
            before = text.map(|text| &*text.value);
        }
    }

    /// The secret in an argument of a program, which comes behind another one. Returns whether it is
    /// the value of that.
    fn add_argument(
        &mut self,
        document: &Document<'_>,
        value: &Value<'_>,
        behind: Option<&str>,
    ) -> bool {
        let Some(text) = value.as_string_lit().map(|text| &*text.value) else {
            return false;
        };
        let is_value = behind.is_some_and(|behind| command::takes(behind, text));
        if let Some(shown) = command::argument(text, behind) {
            self.add(document, value, &shown);
        }
        is_value
    }

    /// A string in whose place another one is shown.
    fn add(&mut self, document: &Document<'_>, value: &Value<'_>, shown: &str) {
        let Value::StringLit(text) = value else {
            return;
        };
        if !text.value.is_empty() {
            let written = document.source(value).to_owned();
            self.strings.push((written, json::quoted(shown)));
        }
    }

    /// A line of the settings without the secrets in it.
    pub(super) fn masked(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (written, shown) in &self.strings {
            line = replaced(&line, written, shown);
        }
        let line = command::logins(&line);
        let line = redact::text(&line);
        match &*MEMBER {
            Some(member) => member
                .replace_all(&line, format!("$1\"{HIDDEN}\""))
                .into_owned(),
            None => line.into_owned(),
        }
    }
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

    fn shown(text: &str) -> String {
        let document = Document::parse(text).unwrap();
        let secrets = SettingsSecrets::of([&document]);
        let lines: Vec<_> = text.lines().map(|line| secrets.masked(line)).collect();
        lines.join("\n")
    }

    #[test]
    fn secrets_in_members_are_not_shown() {
        let text = r#"{
  "proxy": "http://ada:hunter2@host:1/x", "my_token": "t0", "tokens": ["t1"],
  "agent_servers": {
    "a": {
      "command": "agent", "MODE": "command", "args": ["command"],
      "env": { "MODE": "command", "N": 1, "DSN": "d3" },
      "ap\u0069_key":
        "t2" // "old_key": "t3"
    }
  },
  "context_servers": {
    "m": { "url": "https://x/", "headers": { "X": "d4" }, "command": { "env": { "M": ["d6"] } } }
  }
}"#;
        let expected = r#"{
  "proxy": "http://…@host:1/x", "my_token": "…", "tokens": ["…"],
  "agent_servers": {
    "a": {
      "command": "agent", "MODE": "…", "args": ["…"],
      "env": { "MODE": "…", "N": 1, "DSN": "…" },
      "ap\u0069_key":
        "…" // "old_key": "…"
    }
  },
  "context_servers": {
    "m": { "url": "https://x/", "headers": { "X": "…" }, "command": { "env": { "M": ["…"] } } }
  }
}"#;
        assert_eq!(shown(text), expected);
    }

    #[test]
    fn secrets_in_arguments_are_not_shown() {
        for (arguments, expected) in [
            (r#""--api-key", "k1", "acp""#, r#""--api-key", "…", "acp""#),
            (r#""--token", "-xkey", "-v""#, r#""--token", "…", "-v""#),
            (r#""--password=p\"w""#, r#""--password=…""#),
            (r#""--pat", "k1", "--pin=2""#, r#""--pat", "…", "--pin=…""#),
            (r#""-H", "X-Goog: k1""#, r#""-H", "…""#),
            (r#""--header=X: k1""#, r#""--header=…""#),
            (r#""Authorization : Bearer k1""#, r#""Authorization…""#),
            (r#""DB=k1", "agent""#, r#""DB=…", "agent""#),
            (
                r#""--env=A=k1", "-eTOKEN=k2""#,
                r#""--env=A=…", "-eTOKEN=…""#,
            ),
            (
                r#""-c", "exec agent --api-key k1""#,
                r#""-c", "exec agent --api-key…""#,
            ),
            (r#""{\"api_key\":\"k1\"}""#, r#""{\"api_key…""#),
            (r#""https://x/?a=b&token=k1""#, r#""https://x/?a=b&token…""#),
            (r#""https://ada:p@k1@x/""#, r#""https://…@x/""#),
            (
                r#""-u", "ada:k1", "-u", "ada""#,
                r#""-u", "…", "-u", "ada""#,
            ),
            // Arguments without secrets.
            (
                r#""-m", "pro", "--port", "80""#,
                r#""-m", "pro", "--port", "80""#,
            ),
            (r#""--model=pro", "a: b""#, r#""--model=pro", "a: b""#),
            (
                r#""-y", "@x/keys@1.0", "acp""#,
                r#""-y", "@x/keys@1.0", "acp""#,
            ),
            (r#""/opt/key/agent""#, r#""/opt/key/agent""#),
        ] {
            let settings =
                |list| format!(r#"{{ "agent_servers": {{ "a": {{ "args": [{list}] }} }} }}"#);
            assert_eq!(shown(&settings(arguments)), settings(expected));
        }
    }
}
