//! A tool call in short: one line about the call, a part of its result, and its changes.

use crate::json::{self, text_member};

use super::text::{Clip, block_name, block_text, elements, line, short, short_member, string_body};

/// The longest title or path, in characters.
const TITLE: usize = 160;
/// The longest kind or status, in characters.
const WORD: usize = 40;
/// How many paths, and how many changes, are shown.
const PATHS: usize = 6;
/// How much of an input, in characters, and of a result, in bytes, is kept.
const INPUT: usize = 200;
const RESULT: usize = 600;
/// Longer files are not compared, in bytes.
const COMPARED: usize = 128 * 1024;
/// How many lines of each side of a change are shown, and their longest length, in characters.
const LINES: usize = 4;
const LINE: usize = 120;

/// A tool call with all its updates applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    title: Option<String>,
    kind: Option<String>,
    status: Option<String>,
    input: Option<String>,
    locations: Vec<String>,
    /// Path and change of each file.
    changes: Vec<(String, String)>,
    result: Clip,
    /// The tool's raw output; shown only if there is no other result.
    output: Option<String>,
}

impl Call {
    /// Applies a `tool_call` or a `tool_call_update`: each member that is given replaces the one
    /// before.
    pub(super) fn update(&mut self, update: &str) {
        let put = |to: &mut Option<String>, value: Option<String>| {
            if value.is_some() {
                *to = value;
            }
        };
        let Some(mut members) = json::members(update.as_bytes(), 0) else {
            return;
        };
        while let Some(member) = members.member() {
            let value = &update[member.value];
            match &update[member.key] {
                _ if value == "null" => {}
                "title" => put(&mut self.title, short(value, TITLE)),
                "kind" => put(&mut self.kind, short(value, WORD)),
                "status" => put(&mut self.status, short(value, WORD)),
                "rawInput" => self.input = line(value, INPUT),
                "rawOutput" => self.output = line(value, INPUT),
                "locations" => {
                    let path = |location| short_member(location, "path", TITLE);
                    self.locations = elements(value).filter_map(path).take(PATHS).collect();
                }
                "content" => self.content(value),
                _ => {}
            }
        }
    }

    fn content(&mut self, content: &str) {
        self.changes.clear();
        self.result = Clip::new(RESULT);
        for item in elements(content) {
            if text_member(item, "type").and_then(string_body) == Some("diff") {
                if self.changes.len() < PATHS
                    && let Some(path) = short_member(item, "path", TITLE)
                {
                    self.changes.push((path, change(item)));
                }
            } else if let Some(block) = text_member(item, "content") {
                if !self.result.is_empty() {
                    self.result.push("\n");
                }
                match block_text(block) {
                    Some(text) => self.result.push_escaped(text),
                    None => self.result.push(&format!("({})", block_name(block))),
                }
            }
        }
    }

    /// Drops everything that its line does not need.
    pub(super) fn make_slim(&mut self) {
        self.input = None;
        self.output = None;
        self.result = Clip::default();
        for (_, change) in &mut self.changes {
            *change = String::new();
        }
    }

    /// The call on one line.
    pub(super) fn line(&self) -> String {
        let mut line = self.title.clone().unwrap_or_else(|| "a tool".to_owned());
        let status = self.status.as_deref().or(Some("pending"));
        let words: Vec<_> = [self.kind.as_deref(), status]
            .into_iter()
            .flatten()
            .collect();
        line = format!("{line} ({})", words.join(", "));
        let changed = self.changes.iter().map(|(path, _)| path);
        let mut paths: Vec<&String> = Vec::new();
        for path in self.locations.iter().chain(changed) {
            if !paths.contains(&path) && !line.contains(path.as_str()) {
                paths.push(path);
            }
        }
        for path in paths.into_iter().take(PATHS) {
            line.push(' ');
            line.push_str(path);
        }
        line
    }

    /// Its input, result and changes, each as a name and a text.
    pub(super) fn details(&self) -> Vec<(String, String)> {
        let mut details = Vec::new();
        if let Some(input) = &self.input {
            details.push(("its input".to_owned(), input.clone()));
        }
        for (path, change) in self.changes.iter().filter(|(_, change)| !change.is_empty()) {
            details.push((format!("a change of {path}"), change.clone()));
        }
        let result = match self.result.parts() {
            ("", 0, _) => self.output.clone().unwrap_or_default(),
            (text, 0, _) => text.to_owned(),
            (head, left_out, tail) => format!("{head}\n… {left_out} bytes …\n{tail}"),
        };
        if !result.is_empty() {
            details.push(("its result".to_owned(), result));
        }
        details
    }

    /// About how much memory it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        let texts = [
            &self.title,
            &self.kind,
            &self.status,
            &self.input,
            &self.output,
        ];
        let texts = texts.into_iter().flatten().chain(&self.locations);
        let changes = (self.changes.iter()).flat_map(|(path, change)| [path, change]);
        texts.chain(changes).map(String::len).sum::<usize>() + self.result.len()
    }
}

/// The change to a file, in short.
fn change(diff: &str) -> String {
    let side = |key| string_body(text_member(diff, key)?);
    let new = side("newText").unwrap_or_default();
    let Some(old) = side("oldText") else {
        return format!("a new file of {} bytes", new.len());
    };
    if old.len().max(new.len()) > COMPARED {
        return format!("{} bytes became {} bytes", old.len(), new.len());
    }
    let (old, new) = (json::unescape(old), json::unescape(new));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = (old.iter().rev().zip(new.iter().rev()))
        .take_while(same)
        .count();
    let (old, new) = (&old[..old.len() - after], &new[..new.len() - after]);
    let mut lines = vec![format!(
        "from line {}: {} lines became {}",
        before + 1,
        old.len(),
        new.len()
    )];
    for (sign, side) in [('-', old), ('+', new)] {
        let shown = side.iter().take(LINES);
        lines.extend(shown.map(|line| format!("{sign} {}", clipped(line))));
        if side.len() > LINES {
            lines.push(format!("{sign} … {} more", side.len() - LINES));
        }
    }
    lines.join("\n")
}

/// A clipped line of a file that keeps its indentation.
fn clipped(line: &str) -> String {
    let mut chars = line.chars();
    let mut clipped: String = chars
        .by_ref()
        .take(LINE)
        .filter(|c| !c.is_control() || *c == '\t')
        .collect();
    if chars.next().is_some() {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(updates: &[&str]) -> Call {
        let mut call = Call::default();
        for update in updates {
            call.update(update);
        }
        call
    }

    #[test]
    fn a_call_is_a_line_and_its_details() {
        let call = call(&[
            r#"{"title":"Run\nit","kind":"execute","status":"pending","rawInput":{"command":"ls"},"locations":[{"path":"/a"},{"path":"/b"},{}]}"#,
            r#"{"title":null,"status":"completed","content":[{"type":"content","content":{"type":"text","text":"one\ntwo"}},{"type":"terminal","terminalId":"t"},{"type":"content","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}],"rawOutput":{"code":0}}"#,
        ]);
        assert_eq!(call.line(), "Run it (execute, completed) /a /b");
        assert_eq!(
            call.details(),
            [
                ("its input".to_owned(), r#"{"command":"ls"}"#.to_owned()),
                (
                    "its result".to_owned(),
                    "one\ntwo\n(image, image/png, 3 bytes)".to_owned()
                ),
            ]
        );
        assert_eq!(super::tests::call(&["{}"]).line(), "a tool (pending)");
        let raw = super::tests::call(&[r#"{"rawOutput":"a\n\"b\"","rawInput":null}"#]);
        assert_eq!(
            raw.details(),
            [("its result".to_owned(), "a \"b\"".to_owned())]
        );
    }

    #[test]
    fn changes_are_shown_by_their_lines() {
        for (old, new, expected) in [
            (
                r#""a\nb\nc""#,
                r#""a\nx\ny\nc""#,
                "from line 2: 1 lines became 2\n- b\n+ x\n+ y",
            ),
            (
                r#""a\na""#,
                r#""a\na\na""#,
                "from line 3: 0 lines became 1\n+ a",
            ),
            (r#""a""#, r#""a""#, "from line 2: 0 lines became 0"),
            ("null", r#""a\nb""#, "a new file of 4 bytes"),
            (
                r#""""#,
                r#""1\n2\n3\n4\n5\n6""#,
                "from line 1: 0 lines became 6\n+ 1\n+ 2\n+ 3\n+ 4\n+ … 2 more",
            ),
        ] {
            let diff = format!(r#"{{"type":"diff","path":"/f","oldText":{old},"newText":{new}}}"#);
            let call = call(&[&format!(r#"{{"title":"Edit","content":[{diff}]}}"#)]);
            assert_eq!(call.line(), "Edit (pending) /f");
            assert_eq!(
                call.details(),
                [("a change of /f".to_owned(), expected.to_owned())]
            );
        }
    }
}
