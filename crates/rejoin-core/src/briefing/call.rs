//! A tool call in short: one line about the call, a part of its result, and its changes.

use crate::conversation::CallEntry;
use crate::json::{self, text_body, text_elements, text_member};
use crate::text::{ReplacedLines, shortened};

use super::steps::Step;
use super::text::{Clip, block_name, block_text, line, short, short_member};

/// The longest title or path, in characters.
const TITLE: usize = 160;
/// The longest kind or status, in characters.
const WORD: usize = 40;
/// How many paths, and how many changes, are shown.
const PATHS: usize = 6;
/// How much of a result is kept in a briefing, in bytes, and how many times less of an input.
const RESULT: usize = 600;
const SHORTER: usize = 3;
/// Longer files are not compared, in bytes.
const COMPARED: usize = 128 * 1024;
/// How many lines of each side of a change are shown, and their longest length, in characters.
const LINES: usize = 4;
const LINE: usize = 120;

/// A tool call with all its updates applied.
#[derive(Clone, Debug)]
pub(super) struct BriefingCall {
    /// How much of its result is kept, in bytes.
    most: usize,
    title: Option<String>,
    kind: Option<String>,
    status: Option<String>,
    input: Option<String>,
    locations: Vec<String>,
    /// Path and change of each file.
    changes: Vec<(String, String)>,
    result: Clip,
    /// The tool's raw output, and what a terminal of the agent's own showed; shown only if there
    /// is no other result.
    output: Option<String>,
    terminal: Clip,
    /// The exit code of the command.
    exit: Option<String>,
    /// The command that it runs.
    command: Option<String>,
}

impl Default for BriefingCall {
    fn default() -> Self {
        Self::with_result(RESULT)
    }
}

impl BriefingCall {
    /// A call of whose result at most so many bytes are kept.
    pub(super) fn with_result(most: usize) -> Self {
        Self {
            most,
            title: None,
            kind: None,
            status: None,
            input: None,
            locations: Vec::new(),
            changes: Vec::new(),
            result: Clip::default(),
            output: None,
            terminal: Clip::new(most),
            exit: None,
            command: None,
        }
    }

    /// Applies an update: each member that is given replaces the one before.
    pub(super) fn update(&mut self, update: &CallEntry<'_>) {
        let put = |to: &mut Option<String>, value: Option<String>| {
            if value.is_some() {
                *to = value;
            }
        };
        for (name, value) in update.members() {
            match name {
                _ if value == "null" => {}
                "title" => put(&mut self.title, short(value, TITLE)),
                "kind" => put(&mut self.kind, short(value, WORD)),
                "status" => put(&mut self.status, short(value, WORD)),
                "rawInput" => {
                    self.input = line(value, self.most / SHORTER);
                    put(&mut self.command, command(value));
                }
                "rawOutput" => {
                    self.output = self.raw_output(value);
                    put(&mut self.exit, exit_code(value));
                }
                "_meta" => {
                    if let Some(data) = text_member(value, "terminal_output")
                        .and_then(|output| text_body(text_member(output, "data")?))
                    {
                        self.terminal.push_escaped(data);
                    }
                    let exit = text_member(value, "terminal_exit");
                    put(&mut self.exit, exit.and_then(exit_code));
                }
                "locations" => {
                    let path = |location| short_member(location, "path", TITLE);
                    self.locations = text_elements(value).filter_map(path).take(PATHS).collect();
                }
                "content" => self.content(value),
                _ => {}
            }
        }
    }

    /// The text of a raw output: where the known agents have it, or the JSON in short.
    fn raw_output(&self, value: &str) -> Option<String> {
        let names = [
            "formatted_output",
            "aggregated_output",
            "stdout",
            "output",
            "text",
        ];
        let text = |name| text_member(value, name).and_then(text_body);
        let text = names
            .into_iter()
            .filter_map(text)
            .find(|text| !text.is_empty());
        let text = text.or_else(|| text_body(value).filter(|text| !text.is_empty()));
        let Some(text) = text else {
            return line(value, self.most / SHORTER);
        };
        let mut clip = Clip::new(self.most);
        clip.push_escaped(text);
        clip.shown()
    }

    fn content(&mut self, content: &str) {
        self.changes.clear();
        self.result = Clip::new(self.most);
        for item in text_elements(content) {
            if text_member(item, "type").and_then(text_body) == Some("diff") {
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
        self.terminal = Clip::default();
        for (_, change) in &mut self.changes {
            *change = String::new();
        }
    }

    /// The call on one line.
    pub(super) fn line(&self) -> String {
        let mut line = self.title.clone().unwrap_or_else(|| "a tool".to_owned());
        let status = self.status.as_deref().or(Some("pending"));
        let exit = self.exit.as_ref().map(|code| format!("exit code {code}"));
        let words: Vec<_> = [self.kind.as_deref(), status, exit.as_deref()]
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
        let result = (self.result.shown()).or_else(|| self.terminal.shown());
        let result = result.or_else(|| self.output.clone()).unwrap_or_default();
        if !result.is_empty() {
            details.push(("its result".to_owned(), result));
        }
        details
    }

    /// The steps of the call, for the trail: one for a command, or one for each file.
    pub(super) fn steps(&self) -> Vec<Step> {
        let verb = match self.kind.as_deref() {
            Some("execute") => "ran",
            Some("read") => "read",
            Some("edit") => "edited",
            Some("delete") => "deleted",
            Some("move") => "moved",
            Some("search") => "searched",
            Some("fetch") => "fetched",
            Some("think" | "switch_mode") => return Vec::new(),
            _ if !self.changes.is_empty() => "edited",
            _ => "called",
        };
        let files: Vec<&String> = match verb {
            "read" | "edited" | "deleted" | "moved" => {
                let changed = self.changes.iter().map(|(path, _)| path);
                changed.chain(&self.locations).collect()
            }
            _ => Vec::new(),
        };
        let what = (self.command.as_ref().filter(|_| verb == "ran")).or(self.title.as_ref());
        let one = what.filter(|_| files.is_empty());
        let mut outcome = match (&self.exit, self.status.as_deref()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some("failed")) => "failed".to_owned(),
            (None, Some("completed")) => String::new(),
            (None, _) => "not finished".to_owned(),
        };
        if verb != "ran" && outcome.starts_with("exit") {
            outcome.clear();
        }
        let step = |what: &String| Step {
            verb,
            what: what.clone(),
            outcome: outcome.clone(),
            times: 1,
        };
        one.into_iter().chain(files).map(step).collect()
    }

    /// About how much memory it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        let texts = [
            &self.title,
            &self.kind,
            &self.status,
            &self.input,
            &self.output,
            &self.exit,
            &self.command,
        ];
        let texts = texts.into_iter().flatten().chain(&self.locations);
        let changes = (self.changes.iter()).flat_map(|(path, change)| [path, change]);
        let results = self.result.len() + self.terminal.len();
        texts.chain(changes).map(String::len).sum::<usize>() + results
    }
}

/// The command of an execution's input: a text, or a list of arguments.
fn command(input: &str) -> Option<String> {
    let command = text_member(input, "command").or_else(|| text_member(input, "cmd"))?;
    if let Some(command) = short(command, TITLE) {
        return Some(command);
    }
    let arguments: Vec<_> = text_elements(command)
        .filter_map(|argument| short(argument, TITLE))
        .collect();
    // What a shell was started for is its last argument.
    let shell = matches!(arguments.get(1).map(String::as_str), Some("-c" | "-lc"));
    let shown = if shell { arguments.get(2..) } else { None };
    let line = shortened(&shown.unwrap_or(&arguments).join(" "), TITLE);
    (!line.is_empty()).then_some(line)
}

/// The exit code in a result, as the known agents report it.
fn exit_code(result: &str) -> Option<String> {
    let code = |of: &str| {
        let names = ["exit_code", "exitCode", "exit"].into_iter();
        names
            .filter_map(|name| text_member(of, name))
            .find(|code| code.parse::<i32>().is_ok())
            .map(str::to_owned)
    };
    code(result).or_else(|| code(text_member(result, "metadata")?))
}

/// The change to a file, in short.
fn change(diff: &str) -> String {
    let side = |key| text_body(text_member(diff, key)?);
    let new = side("newText").unwrap_or_default();
    let Some(old) = side("oldText") else {
        return format!("a new file of {} bytes", new.len());
    };
    if old.len().max(new.len()) > COMPARED {
        return format!("{} bytes became {} bytes", old.len(), new.len());
    }
    let (old, new) = (json::unescape(old), json::unescape(new));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let ReplacedLines { before, old, new } = ReplacedLines::between(&old, &new);
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

    fn call(updates: &[&str]) -> BriefingCall {
        let mut call = BriefingCall::default();
        for update in updates {
            call.update(&CallEntry::of(update));
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
            [("its result".to_owned(), "a\n\"b\"".to_owned())]
        );
        let codex = super::tests::call(&[
            r#"{"title":"Run","kind":"execute","status":"completed","rawInput":{"command":["bash","-lc","make  it"]},"rawOutput":{"call_id":"x","stdout":"","formatted_output":"a\nb","exit_code":2}}"#,
        ]);
        assert_eq!(codex.line(), "Run (execute, completed, exit code 2)");
        assert_eq!(codex.details()[1].1, "a\nb");
        assert_eq!(codex.steps()[0].line(), "ran make it (exit code 2)");
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
