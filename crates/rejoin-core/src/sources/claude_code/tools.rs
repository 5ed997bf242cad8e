//! The tools of Claude Code, with kinds and titles as its ACP agent gives them.

use serde_json::{Value, json};

use super::super::content::{self, as_text, console, diff, of_call, sides_of_hunks, text};
use super::super::conversation::NewCall;

/// A call of a tool as it begins.
pub(super) fn call<'a>(id: &'a str, name: &str, input: &'a Value) -> NewCall<'a> {
    let member = |name: &str| input[name].as_str().unwrap_or_default();
    let path = ["file_path", "notebook_path", "path"].into_iter();
    let path = path.map(member).find(|path| !path.is_empty());
    let titled = |verb: &str| match path {
        Some(path) => format!("{verb} {path}"),
        None => verb.to_owned(),
    };
    let mut content = Vec::new();
    let (kind, title) = match name {
        "Bash" | "PowerShell" => {
            if !member("description").is_empty() {
                content.push(of_call(text(member("description"))));
            }
            ("execute", member("command").to_owned())
        }
        "BashOutput" | "KillShell" | "KillBash" | "TaskOutput" | "TaskStop" => {
            ("execute", name.to_owned())
        }
        "Read" | "NotebookRead" => ("read", titled("Read")),
        "Edit" | "MultiEdit" | "NotebookEdit" => ("edit", titled("Edit")),
        "Write" => ("edit", titled("Write")),
        "LS" => ("search", titled("List")),
        "Glob" | "Grep" => ("search", format!("{name} {}", member("pattern"))),
        "LSP" | "ToolSearch" => ("search", format!("{name} {}", member("query"))),
        "WebFetch" => ("fetch", format!("Fetch {}", member("url"))),
        "WebSearch" | "web_search" => ("fetch", format!("Search {}", member("query"))),
        "Task" | "Agent" => {
            if !member("prompt").is_empty() {
                content.push(of_call(text(member("prompt"))));
            }
            ("think", member("description").to_owned())
        }
        "ExitPlanMode" => {
            content.push(of_call(text(member("plan"))));
            ("switch_mode", "Ready to code?".to_owned())
        }
        _ => ("other", name.to_owned()),
    };
    let line = input["offset"].as_u64();
    let title = title.trim().to_owned();
    NewCall {
        id,
        title: if title.is_empty() {
            name.to_owned()
        } else {
            title
        },
        kind,
        input,
        locations: path
            .map(|path| (path.to_owned(), line))
            .into_iter()
            .collect(),
        content,
    }
}

/// The result of a call, as members of its update. `block` is what the model was given,
/// `structured` what the tool returned: an object, a text if it failed, or a list.
pub(super) fn result(
    name: &str,
    input: &Value,
    block: &Value,
    structured: &Value,
    ok: bool,
) -> Value {
    let content = match name {
        _ if !ok => given(block),
        "Bash" | "PowerShell" if structured.is_object() => {
            let output = ["stdout", "stderr"].map(|name| as_text(&structured[name]));
            let output = output.iter().filter(|output| !output.is_empty());
            let output = output.cloned().collect::<Vec<_>>().join("\n");
            console(&output).map_or_else(|| given(block), |block| vec![block])
        }
        "Bash" | "BashOutput" | "TaskOutput" => {
            let output = given_text(block);
            console(&output).into_iter().collect()
        }
        "Edit" | "MultiEdit" | "Write" => {
            let changed = changes(input, structured);
            if changed.is_empty() {
                given(block)
            } else {
                changed
            }
        }
        "Read" => match structured["file"]["content"].as_str() {
            Some(read) => vec![of_call(text(read))],
            None => given(block),
        },
        "ExitPlanMode" => Vec::new(),
        _ => given(block),
    };
    let mut update = json!({});
    if !content.is_empty() {
        update["content"] = content.into();
    }
    let files = structured["filenames"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let files = files.iter().filter_map(Value::as_str);
    let locations: Vec<Value> = files.map(|path| json!({ "path": path })).collect();
    if !locations.is_empty() {
        update["locations"] = locations.into();
    }
    // What is in the content already is not repeated: results repeat whole files and images.
    let is_in_content = matches!(name, "Bash" | "Read" | "Edit" | "MultiEdit" | "Write");
    if !structured.is_null() && !is_in_content && !has_image(block) {
        update["rawOutput"] = structured.clone();
    }
    update
}

/// The changes of files.
fn changes(input: &Value, structured: &Value) -> Vec<Value> {
    let path = structured["filePath"]
        .as_str()
        .or(input["file_path"].as_str());
    let Some(path) = path else { return Vec::new() };
    if let Some(content) = structured["content"].as_str().or(input["content"].as_str()) {
        let old = structured["originalFile"].as_str();
        return vec![diff(path, old, content)];
    }
    let hunks = structured["structuredPatch"].as_array();
    let hunks: Vec<Value> = hunks
        .into_iter()
        .flatten()
        .filter_map(|hunk| {
            let lines = hunk["lines"].as_array()?.iter().filter_map(Value::as_str);
            let (old, new) = sides_of_hunks(lines);
            Some(diff(path, Some(&old), &new))
        })
        .collect();
    if !hunks.is_empty() {
        return hunks;
    }
    let single = [input.clone()];
    let edits = input["edits"].as_array().map_or(&single[..], Vec::as_slice);
    let edits = edits.iter().filter_map(|edit| {
        let old = edit["old_string"].as_str()?;
        Some(diff(path, Some(old), edit["new_string"].as_str()?))
    });
    edits.collect()
}

/// The result that the model was given, as content.
fn given(block: &Value) -> Vec<Value> {
    match &block["content"] {
        Value::String(given) if !given.is_empty() => vec![of_call(text(given))],
        Value::Array(blocks) => {
            let blocks = blocks
                .iter()
                .filter_map(|block| match block["type"].as_str()? {
                    "text" => Some(of_call(text(block["text"].as_str()?))),
                    "image" => {
                        let source = &block["source"];
                        let mime_type = source["media_type"].as_str()?;
                        Some(of_call(content::image(mime_type, source["data"].as_str()?)))
                    }
                    "tool_reference" => Some(of_call(text(block["tool_name"].as_str()?))),
                    _ => None,
                });
            blocks.collect()
        }
        _ => Vec::new(),
    }
}

fn given_text(block: &Value) -> String {
    let texts = given(block).into_iter();
    let texts = texts.map(|block| as_text(&block["content"]["text"]));
    texts.collect::<Vec<_>>().join("\n")
}

fn has_image(block: &Value) -> bool {
    let blocks = block["content"].as_array();
    blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "image"))
}
