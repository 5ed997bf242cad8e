//! The tools of Gemini CLI.

use serde_json::Value;

use super::super::content::{self, as_text, console, diff, of_call, text};
use super::super::conversation::NewCall;
use super::super::tool;

/// A call as it begins. Its id, name and arguments are in one object with its result.
pub(super) fn call<'a>(id: &'a str, call: &'a Value) -> NewCall<'a> {
    let name = call["name"].as_str().unwrap_or_default();
    let shown = call["displayName"].as_str().unwrap_or(name);
    let mut begun = tool::call(id, name, shown, &call["args"]);
    // Some versions record what the call does, others what the tool is for.
    let described = call["description"].as_str().filter(|text| !text.is_empty());
    if let (true, Some(described)) = (begun.title == shown, described) {
        described.clone_into(&mut begun.title);
    }
    if call["resultDisplay"]["isSubagentProgress"] == true {
        begun.kind = "think";
    }
    begun
}

/// The result of a call, as members of its update.
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
    } else if call["status"] == "success" && !tool::changes(name, input).is_empty() {
        tool::changes(name, input)
    } else if tool::kind(name) == "execute" {
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
    let mut outcome = content::outcome(content);
    let responses = call["result"].as_array().into_iter().flatten();
    let parts = responses.flat_map(|part| {
        let parts = part["functionResponse"]["parts"].as_array();
        parts.into_iter().flatten().chain([part])
    });
    content::attach(&mut outcome, parts.filter_map(content::inline_image));
    outcome
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
