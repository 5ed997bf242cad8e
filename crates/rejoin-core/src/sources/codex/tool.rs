//! The tools of Codex.

use serde_json::Value;

use super::super::content::{as_text, of_call, text};
use super::super::conversation::NewCall;
use super::patch;

/// The kind of a tool call, which decides how its result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodexTool {
    Command,
    Patch,
    /// A call that continues another call.
    Input,
    Other,
}

impl CodexTool {
    /// The tool that a call names.
    pub(super) fn of(name: &str, item: &Value, input: &Value) -> Self {
        let is_command = matches!(
            name,
            "shell"
                | "shell_command"
                | "container.exec"
                | "exec_command"
                | "local_shell"
                | "unified_exec"
        );
        if name == "apply_patch" {
            Self::Patch
        } else if is_command || item["type"] == "local_shell_call" {
            // The model may call the tool for patches as a command.
            let is_patch = command_line(input).trim_start().starts_with("apply_patch");
            if is_patch { Self::Patch } else { Self::Command }
        } else {
            Self::Other
        }
    }

    /// A change of files that was made: with what was changed, by path, and the differences.
    pub(super) fn change<'a>(id: &'a str, input: &'a Value, content: Vec<Value>) -> NewCall<'a> {
        let paths = input.as_object().into_iter().flatten();
        let locations: Vec<_> = paths.map(|(path, _)| (path.clone(), None)).collect();
        NewCall {
            id,
            title: edit_title(&locations),
            kind: "edit",
            input,
            locations,
            content,
        }
    }

    /// A call of it as it begins.
    pub(super) fn call<'a>(self, id: &'a str, name: &str, input: &'a Value) -> NewCall<'a> {
        let mut call = NewCall {
            id,
            title: name.to_owned(),
            kind: "other",
            input,
            locations: Vec::new(),
            content: Vec::new(),
        };
        match self {
            Self::Command => {
                call.kind = "execute";
                call.title = command_line(input);
            }
            Self::Patch => {
                call.kind = "edit";
                let patch = [input, &input["input"], &input["patch"]];
                let patch = patch.into_iter().find_map(Value::as_str);
                let command = command_line(input);
                call.content = patch::written(patch.unwrap_or(&command));
                let paths = call.content.iter().map(|diff| as_text(&diff["path"]));
                call.locations = paths.map(|path| (path, None)).collect();
                call.locations.dedup();
                call.title = edit_title(&call.locations);
            }
            Self::Input | Self::Other => match name {
                "view_image" => {
                    let path = as_text(&input["path"]);
                    call.kind = "read";
                    call.title = format!("View {path}");
                    call.locations.push((path, None));
                }
                "exec" => call.kind = "execute",
                "tool_search" => call.kind = "search",
                _ if is_about_agents(name) => {
                    call.kind = "think";
                    let task = ["message", "prompt"].map(|name| as_text(&input[name]));
                    let task = task.into_iter().find(|task| !task.is_empty());
                    call.content.extend(task.map(|task| of_call(text(&task))));
                }
                _ => {}
            },
        }
        call
    }
}

/// The command that a shell ran.
fn command_line(input: &Value) -> String {
    let command = [&input["cmd"], &input["command"]];
    let command = command.into_iter().find(|value| !value.is_null());
    match command {
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => {
                    (*script).to_owned()
                }
                words => words.join(" "),
            }
        }
        Some(Value::String(command)) => command.clone(),
        _ => "a command".to_owned(),
    }
}

fn edit_title(locations: &[(String, Option<u64>)]) -> String {
    match locations {
        [(path, _)] => format!("Edit {path}"),
        _ => "Edit files".to_owned(),
    }
}

fn is_about_agents(name: &str) -> bool {
    name.ends_with("_agent") || name.ends_with("_agents") || name == "send_message"
}
