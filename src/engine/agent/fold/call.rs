//! A tool call in short: one line about the call, a part of its result, and its changes.

use crate::json;

use super::block;
use super::clip::Clip;
use super::node::Node;
use super::update::Update;

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
    result: Option<Clip>,
    /// The tool's raw output; shown only if there is no other result.
    output: Option<String>,
}

impl Call {
    /// Applies a `tool_call` or a `tool_call_update`.
    pub(super) fn update(&mut self, update: &Update<'_>) {
        let put = |to: &mut Option<String>, value: Option<Node<'_>>, chars| {
            if let Some(text) = value.and_then(|value| value.short(chars)) {
                *to = Some(text);
            }
        };
        put(&mut self.title, update.title, TITLE);
        put(&mut self.kind, update.kind, WORD);
        put(&mut self.status, update.status, WORD);
        let raw = |to: &mut Option<String>, value: Option<Node<'_>>| {
            if let Some(value) = value {
                *to = Some(value.line(INPUT)).filter(|line| !line.is_empty());
            }
        };
        raw(&mut self.input, update.input);
        raw(&mut self.output, update.output);
        if let Some(locations) = update.locations {
            let path = |location: Node<'_>| location.get("path")?.short(TITLE);
            self.locations = locations.elements().filter_map(path).take(PATHS).collect();
        }
        if let Some(content) = update.content {
            self.content(content);
        }
    }

    fn content(&mut self, content: Node<'_>) {
        self.changes.clear();
        self.result = None;
        for item in content.elements() {
            let [kind, path, content] = item.pick(["type", "path", "content"]);
            if kind.is_some_and(|kind| kind.is("diff")) {
                if self.changes.len() < PATHS
                    && let Some(path) = path.and_then(|path| path.short(TITLE))
                {
                    self.changes.push((path, change(item)));
                }
            } else if let Some(block) = content {
                let result = self.result.get_or_insert_with(|| Clip::new(RESULT));
                if !result.is_empty() {
                    result.push("\n");
                }
                match block::text(block) {
                    Some(text) => text.add_to(result),
                    None => result.push(&format!("({})", block::name(block))),
                }
            }
        }
    }

    /// Drops everything that its line does not need.
    pub(super) fn make_slim(&mut self) {
        self.input = None;
        self.output = None;
        self.result = None;
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
        if let Some(result) = self.result.as_ref().filter(|result| !result.is_empty()) {
            let (head, left_out, tail) = result.parts();
            let gap = if left_out > 0 {
                format!("\n… {left_out} bytes …\n")
            } else {
                String::new()
            };
            details.push(("its result".to_owned(), format!("{head}{gap}{tail}")));
        } else if let Some(output) = &self.output {
            details.push(("its result".to_owned(), output.clone()));
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
        let texts = texts
            .into_iter()
            .flatten()
            .chain(&self.locations)
            .map(String::len);
        let changes = self
            .changes
            .iter()
            .map(|(path, change)| path.len() + change.len());
        texts.chain(changes).sum::<usize>() + self.result.as_ref().map_or(0, Clip::len)
    }
}

/// The change to a file, in short.
fn change(diff: Node<'_>) -> String {
    let [old, new] = diff.pick(["oldText", "newText"]);
    let new = new.and_then(Node::body).unwrap_or_default();
    let Some(old) = old.and_then(Node::body) else {
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
    let behind = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count();
    let (old, new) = (&old[..old.len() - behind], &new[..new.len() - behind]);
    let mut lines = vec![format!(
        "from line {}: {} lines became {}",
        before + 1,
        old.len(),
        new.len()
    )];
    for (sign, side) in [('-', old), ('+', new)] {
        let told = side.iter().take(LINES);
        lines.extend(told.map(|line| format!("{sign} {}", clipped(line))));
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
            call.update(&Update::read(Node::root(update)));
        }
        call
    }

    #[test]
    fn a_call_is_a_line_and_what_came_of_it() {
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
    fn changes_are_told_by_their_lines() {
        for (old, new, told) in [
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
                [("a change of /f".to_owned(), told.to_owned())]
            );
        }
    }
}
