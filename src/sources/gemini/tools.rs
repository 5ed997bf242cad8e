//! The tools of Gemini CLI.

use serde_json::{Value, json};

use super::super::content::{as_text, console, diff, of_call, text};
use super::super::conversation::Call;

/// A call as it begins. Its id, name and arguments are in one object with its result.
pub(super) fn call<'a>(id: &'a str, call: &'a Value) -> Call<'a> {
    let name = call["name"].as_str().unwrap_or_default();
    let input = &call["args"];
    let member = |name: &str| input[name].as_str().filter(|text| !text.is_empty());
    let path = ["file_path", "absolute_path", "dir_path", "path"];
    let path = path.into_iter().find_map(member);
    let kind = match name {
        "run_shell_command" => "execute",
        "read_file" | "read_many_files" | "list_directory" => "read",
        "write_file" | "replace" => "edit",
        "glob" | "grep_search" | "search_file_content" => "search",
        "web_fetch" | "google_web_search" => "fetch",
        "exit_plan_mode" => "switch_mode",
        _ if call["resultDisplay"]["isSubagentProgress"] == true => "think",
        _ => "other",
    };
    let shown = call["displayName"].as_str().unwrap_or(name);
    // Some versions record what the call does, others what the tool is for.
    let described = call["description"].as_str();
    let title = match (member("command"), path, described) {
        (Some(command), ..) => command.to_owned(),
        (None, Some(path), _) => format!("{shown} {path}"),
        (None, None, Some(described)) if !described.is_empty() => described.to_owned(),
        _ => shown.to_owned(),
    };
    Call {
        id,
        title,
        kind,
        input,
        locations: path
            .map(|path| (path.to_owned(), None))
            .into_iter()
            .collect(),
        content: Vec::new(),
    }
}

/// What is known of the result.
pub(super) fn result(call: &Value) -> Value {
    let input = &call["args"];
    let display = &call["resultDisplay"];
    let given = call["result"].as_array().into_iter().flatten();
    let given: Vec<String> = given
        .map(|part| &part["functionResponse"]["response"])
        .flat_map(|response| ["output", "error"].map(|name| as_text(&response[name])))
        .filter(|said| !said.is_empty())
        .collect();
    let given = given.join("\n");
    let name = call["name"].as_str().unwrap_or_default();
    let content = if let Some(new) = display["newContent"].as_str() {
        let paths = [
            &display["filePath"],
            &input["file_path"],
            &display["fileName"],
        ];
        let path = paths
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        let old = display["originalContent"].as_str();
        let old = old.filter(|old| display["isNewFile"] != true || !old.is_empty());
        vec![diff(path, old, new)]
    } else if let (true, Some(change)) = (call["status"] == "success", change(input)) {
        vec![change]
    } else if name == "run_shell_command" {
        let shown = match display {
            Value::String(shown) => shown.clone(),
            Value::Array(lines) => terminal(lines),
            _ => given,
        };
        console(&shown).into_iter().collect()
    } else {
        let result = display["result"].as_str().map(str::to_owned);
        let shown = result.unwrap_or(given);
        let shown = if shown.is_empty() {
            as_text(display)
        } else {
            shown
        };
        let shown = (!shown.is_empty()).then(|| of_call(text(&shown)));
        shown.into_iter().collect()
    };
    if content.is_empty() {
        return json!({});
    }
    json!({ "content": content })
}

/// The change of a file that the arguments ask for.
fn change(input: &Value) -> Option<Value> {
    let path = input["file_path"].as_str()?;
    if let (Some(old), Some(new)) = (input["old_string"].as_str(), input["new_string"].as_str()) {
        return Some(diff(path, Some(old), new));
    }
    Some(diff(path, None, input["content"].as_str()?))
}

/// Lines of a terminal, each with runs of text in one colour.
fn terminal(lines: &[Value]) -> String {
    let lines = lines.iter().map(|line| {
        let runs = line.as_array().into_iter().flatten();
        runs.filter_map(|run| run["text"].as_str())
            .collect::<String>()
    });
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
