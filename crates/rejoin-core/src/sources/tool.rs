//! Tool calls of tools whose names and arguments are the usual ones.

use std::collections::HashMap;

use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, console, diff, of_call, text};
use super::conversation::{ConversationBuilder, NewCall};

/// Kinds of the protocol, and the names of tools that have them: in lower case, letters only.
const KINDS: [(&str, &[&str]); 9] = [
    (
        "execute",
        &[
            "bash",
            "shell",
            "runshellcommand",
            "runcommand",
            "execcommand",
            "exec",
            "powershell",
            "terminal",
            "readbash",
            "writebash",
            "stopbash",
            "killshell",
            "executecommand",
            "runcommands",
            "runinterminal",
            "getterminaloutput",
            "execute",
            "executecode",
            "shellcommand",
            "executebash",
            "getprocessoutput",
        ],
    ),
    (
        "read",
        &[
            "read",
            "readfile",
            "readmanyfiles",
            "listdirectory",
            "view",
            "viewimage",
            "cat",
            "readmediafile",
            "skill",
            "readfiles",
            "skillview",
            "viewfile",
            "listdir",
        ],
    ),
    (
        "edit",
        &[
            "edit",
            "editfile",
            "multiedit",
            "write",
            "writefile",
            "replace",
            "create",
            "patch",
            "applypatch",
            "strreplace",
            "strreplacefile",
            "strreplaceeditor",
            "insert",
            "notebookedit",
            "texteditor",
            "editor",
            "fileeditor",
            "searchreplace",
            "createfile",
            "insertedit",
            "replacestring",
            "multireplacestring",
            "editedexistingfile",
            "newfilecreated",
            "applieddiff",
            "searchandreplace",
            "insertcontent",
            "writetofile",
            "replacefilecontent",
            "fswrite",
        ],
    ),
    (
        "search",
        &[
            "grep",
            "glob",
            "ls",
            "list",
            "find",
            "search",
            "grepsearch",
            "searchfilecontent",
            "codesearch",
            "lsp",
            "rg",
            "findpath",
            "findfiles",
            "findtextinfiles",
            "semanticsearch",
            "searchfiles",
            "searchcodebase",
            "codebasesearch",
            "listfiles",
            "listfilestoplevel",
            "listfilesrecursive",
            "listcodedefinitionnames",
            "finder",
            "filesearch",
        ],
    ),
    (
        "fetch",
        &[
            "webfetch",
            "fetch",
            "fetchurl",
            "websearch",
            "googlewebsearch",
            "searchweb",
            "fetchwebpage",
            "agenticfetch",
            "webextract",
            "readwebpage",
            "readurlcontent",
            "remotewebsearch",
        ],
    ),
    (
        "think",
        &[
            "task",
            "agent",
            "subagent",
            "runsubagent",
            "think",
            "delegate",
            "dynamictask",
            "delegatetask",
            "invokesubagent",
        ],
    ),
    (
        "switch_mode",
        &["exitplanmode", "enterplanmode", "exitspecmode"],
    ),
    (
        "delete",
        &["deletefile", "deletepath", "filedeleted", "remove"],
    ),
    ("move", &["movefile", "movepath", "renamefile"]),
];

/// The kind of a tool.
pub(super) fn kind(name: &str) -> &'static str {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let known = KINDS
        .iter()
        .find(|(_, names)| names.contains(&name.as_str()));
    known.map_or("other", |(kind, _)| kind)
}

/// The text of an argument that has one of these names.
fn argument<'a>(input: &'a Value, names: &[&str]) -> Option<&'a str> {
    let mut texts = names.iter().filter_map(|name| input[*name].as_str());
    texts.find(|text| !text.is_empty())
}

/// The file that a tool works on.
fn path(input: &Value) -> Option<&str> {
    let names = [
        "file_path",
        "filePath",
        "absolute_path",
        "path",
        "dir_path",
        "notebook_path",
        "filename",
        "AbsolutePath",
        "TargetFile",
        "DirectoryPath",
    ];
    argument(input, &names).or_else(|| input["files"][0]["path"].as_str())
}

/// Several commands of one call.
fn commands(input: &Value) -> Option<String> {
    let commands = input["commands"].as_array()?.iter();
    let commands: Vec<&str> = commands.filter_map(Value::as_str).collect();
    (!commands.is_empty()).then(|| commands.join("; "))
}

/// A call of a tool as it begins. `shown` is the name for people.
pub(super) fn call<'a>(id: &'a str, name: &str, shown: &str, input: &'a Value) -> NewCall<'a> {
    let kind = kind(name);
    let about = [
        "pattern",
        "filePattern",
        "query",
        "url",
        "description",
        "title",
        "name",
    ];
    let title = match kind {
        "execute" => argument(input, &["command", "cmd", "script", "CommandLine"])
            .map(str::to_owned)
            .or_else(|| commands(input)),
        "think" => argument(input, &["description", "title", "goal"]).map(str::to_owned),
        _ => path(input)
            .or_else(|| argument(input, &about))
            .map(|about| format!("{shown} {about}")),
    };
    let is_file = matches!(kind, "read" | "edit" | "delete" | "move");
    let location = path(input).filter(|_| is_file);
    let line = ["offset", "line"]
        .iter()
        .find_map(|name| input[*name].as_u64());
    NewCall {
        id,
        title: title.unwrap_or_else(|| shown.to_owned()),
        kind,
        input,
        locations: location
            .map(|path| (path.to_owned(), line))
            .into_iter()
            .collect(),
        content: Vec::new(),
    }
}

/// The changes of files that the arguments ask for.
pub(super) fn changes(name: &str, input: &Value) -> Vec<Value> {
    if kind(name) != "edit" {
        return Vec::new();
    }
    let Some(path) = path(input) else {
        return Vec::new();
    };
    let change = |edit: &Value| {
        let old = argument(
            edit,
            &[
                "old_string",
                "oldString",
                "oldText",
                "old_text",
                "old_str",
                "oldStr",
                "old",
                "TargetContent",
            ],
        );
        let new = [
            "new_string",
            "newString",
            "newText",
            "new_text",
            "new_str",
            "newStr",
            "new",
            "ReplacementContent",
        ];
        let new = new.iter().find_map(|name| edit[*name].as_str());
        if let (Some(old), Some(new)) = (old, new) {
            return Some(diff(path, Some(old), new));
        }
        let content = ["content", "file_text", "CodeContent"]
            .iter()
            .find_map(|name| edit[*name].as_str());
        content.map(|content| diff(path, None, content))
    };
    match input["edits"].as_array() {
        Some(edits) => edits.iter().filter_map(change).collect(),
        None => change(input).into_iter().collect(),
    }
}

/// The tool calls of a conversation whose results are records of their own: the name and the
/// arguments of each, by its id.
#[derive(Debug, Default)]
pub(super) struct CallsById(HashMap<String, (String, Value)>);

impl CallsById {
    /// Whether this call has begun.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The file that a call is about.
    pub(super) fn path(&self, id: &str) -> Option<&str> {
        self.0.get(id).and_then(|(_, input)| path(input))
    }

    /// Begins a call. `title` is for one whose arguments do not make a title.
    pub(super) fn begin(
        &mut self,
        builder: &mut ConversationBuilder,
        at: Timestamp,
        id: &str,
        name: &str,
        input: Value,
        title: Option<&str>,
    ) {
        let mut begun = call(id, name, name, &input);
        if let (Some(title), true) = (title, begun.title == name) {
            title.clone_into(&mut begun.title);
        }
        builder.call(at, begun);
        self.0.insert(id.to_owned(), (name.to_owned(), input));
    }

    /// Ends a call with what it gave back, and images. One that has not begun is ignored.
    pub(super) fn end(
        &self,
        builder: &mut ConversationBuilder,
        at: Timestamp,
        id: &str,
        ok: bool,
        output: &Value,
        images: impl IntoIterator<Item = Value>,
    ) {
        if let Some((name, input)) = self.0.get(id) {
            let mut update = outcome(name, input, ok, output);
            content::attach(&mut update, images.into_iter());
            builder.result(at, id, ok, update);
        }
    }
}

/// Arguments, which some tools record as JSON in a string. The model may have got that wrong.
pub(super) fn arguments(given: &Value) -> Value {
    let parsed = given
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| given.clone())
}

/// The result of a call, as members of its update: its changes if it succeeded, else its output.
pub(super) fn outcome(name: &str, input: &Value, ok: bool, output: &Value) -> Value {
    let mut content = if ok { changes(name, input) } else { Vec::new() };
    if content.is_empty() {
        let output = as_text(output);
        if kind(name) == "execute" {
            content.extend(console(&output));
        } else if !output.trim().is_empty() {
            content.push(of_call(text(&output)));
        }
    }
    content::outcome(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_compared_by_their_letters() {
        assert_eq!(kind("run_shell_command"), "execute");
        assert_eq!(kind("WebFetch"), "fetch");
        assert_eq!(kind("mcp__a__b"), "other");
    }

    #[test]
    fn several_edits_are_several_changes() {
        let input = json!({"path": "a", "edits": [
            {"oldText": "x", "newText": ""},
            {"old_string": "", "new_string": "y"},
        ]});
        assert_eq!(changes("edit", &input), [diff("a", Some("x"), "")]);
        assert_eq!(changes("read", &input), Vec::<Value>::new());
        let written = json!({"filePath": "b", "content": "c"});
        assert_eq!(changes("write", &written), [diff("b", None, "c")]);
    }
}
