//! The tools: their list, and those that need nothing but their arguments.

use serde_json::{Value, json};

/// All tools, as they are listed.
pub(crate) fn list(learned: &[String], hostile: bool) -> Vec<Value> {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let name = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let tool = |name: &str, about: &str, schema: &Value| json!({ "name": name, "description": about, "inputSchema": schema });
    let nothing = json!({ "type": "object" });
    let mut tools = vec![
        tool("echo", "Says a text", &text),
        tool("all", "Gives back every kind of content", &nothing),
        tool("structured", "Gives back data", &nothing),
        tool("fail", "Fails", &nothing),
        tool("refuse", "Answers with an error", &nothing),
        tool("where", "Tells where it works", &nothing),
        tool("key", "Tells how long its key is", &nothing),
        tool(
            "ask",
            "Asks the client for what it does not grant",
            &nothing,
        ),
        tool("hang", "Never answers", &nothing),
        tool("learn", "Learns a tool", &name),
        tool("die", "Ends", &nothing),
    ];
    if hostile {
        tools.push(tool("long", "Answers at too great length", &nothing));
        tools.push(tool("nag", "Pings the client a thousand times", &nothing));
    }
    tools.extend(
        learned
            .iter()
            .map(|name| tool(name, "Was learned", &nothing)),
    );
    for tool in &mut tools {
        let changes = ["learn", "die"].map(Value::from).contains(&tool["name"]);
        tool["annotations"] = json!({ "readOnlyHint": !changes });
    }
    tools
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub(crate) fn call(tool: &str, arguments: &Value) -> Value {
    match tool {
        "echo" => text(arguments["text"].as_str().unwrap_or_default()),
        "all" => json!({
            "content": [
                { "type": "text", "text": "one", "annotations": { "audience": ["user"] } },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
                { "type": "resource_link", "uri": "file:///a", "name": "a", "size": 3 },
                { "type": "resource", "resource": { "uri": "file:///b", "text": "b" } },
            ],
            "structuredContent": { "kinds": 5 },
        }),
        "structured" => json!({ "content": [], "structuredContent": { "n": 1 } }),
        "fail" => {
            let mut result = text("It did not work.");
            result["isError"] = true.into();
            result
        }
        "long" => text(&"x".repeat(17 * 1024 * 1024)),
        "where" => {
            let folder = std::env::current_dir().unwrap_or_default();
            text(&folder.to_string_lossy())
        }
        "key" => text(&std::env::var("KEY").unwrap_or_default().len().to_string()),
        other => text(&format!("{other} was called")),
    }
}
