//! Content as the protocol has it, made from what tools record.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// A block of text.
pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// An image.
pub(super) fn image(mime_type: &str, base64: &str) -> Value {
    json!({"type": "image", "mimeType": mime_type, "data": base64})
}

/// The image in a `data:` URL.
pub(super) fn data_image(url: &str) -> Option<Value> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime_type = head.strip_suffix(";base64")?;
    mime_type
        .starts_with("image/")
        .then(|| image(mime_type, data))
}

/// The image in a part of the API of Gemini.
pub(super) fn inline_image(part: &Value) -> Option<Value> {
    let data = &part["inlineData"];
    Some(image(data["mimeType"].as_str()?, data["data"].as_str()?))
}

/// An image of which only the data is known.
pub(super) fn image_of(base64: &str) -> Option<Value> {
    let kinds = [
        ("iVBOR", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lG", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    let kind = kinds.iter().find(|(start, _)| base64.starts_with(start));
    kind.map(|(_, mime_type)| image(mime_type, base64))
}

/// A block as the content of a tool call.
pub(super) fn of_call(block: Value) -> Value {
    // `json!` would copy the block, which may be long.
    let mut content = json!({"type": "content"});
    content["content"] = block;
    content
}

/// The result of a tool call, as members of its update; none if it is empty.
pub(super) fn outcome(content: Vec<Value>) -> Value {
    let mut members = json!({});
    if !content.is_empty() {
        members["content"] = content.into();
    }
    members
}

/// Adds blocks to what is known of a tool call.
pub(super) fn attach(update: &mut Value, blocks: impl Iterator<Item = Value>) {
    let blocks: Vec<Value> = blocks.map(of_call).collect();
    if !blocks.is_empty() {
        let mut content = update["content"].as_array().cloned().unwrap_or_default();
        content.extend(blocks);
        update["content"] = content.into();
    }
}

/// The change of a file. Without an old text, the file is new.
pub(super) fn diff(path: &str, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

/// The path in the address of a file, here or afar.
pub(super) fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://").or_else(|| {
        let afar = uri.strip_prefix("vscode-remote://")?;
        Some(&afar[afar.find('/')?..])
    })?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let drive = path
        .strip_prefix('/')
        .filter(|path| path.get(1..2) == Some(":"));
    let plain = drive.map(|path| path.replace('/', "\\"));
    Some(plain.unwrap_or_else(|| path.into_owned()))
}

/// Output of a program, as a block that Markdown leaves as it is.
pub(super) fn console(output: &str) -> Option<Value> {
    let output = output.trim_end();
    if output.is_empty() {
        return None;
    }
    let longest = output.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    Some(of_call(text(&format!("{fence}console\n{output}\n{fence}"))))
}

/// Both sides of the hunks of a unified diff: the old lines and the new lines with their context.
pub(super) fn sides_of_hunks<'a>(lines: impl Iterator<Item = &'a str>) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    let mut add = |sides: [bool; 2], line: &str| {
        for (side, wanted) in [&mut old, &mut new].into_iter().zip(sides) {
            if wanted {
                side.push_str(line);
                side.push('\n');
            }
        }
    };
    for line in lines {
        match line.as_bytes().first() {
            Some(b'-') => add([true, false], &line[1..]),
            Some(b'+') => add([false, true], &line[1..]),
            Some(b' ') => add([true, true], &line[1..]),
            None => add([true, true], ""),
            // A header, or the note that a file has no line feed at its end.
            Some(_) => {}
        }
    }
    (old, new)
}

/// A plan from what has the text of each step in one member and its status in another.
pub(super) fn plan(steps: &Value, text: &str) -> Option<Value> {
    let steps = steps.as_array()?;
    let entries: Vec<Value> = steps
        .iter()
        .filter_map(|step| {
            let status = match step["status"].as_str() {
                Some(status @ ("in_progress" | "completed")) => status,
                Some("cancelled" | "done") => "completed",
                _ => "pending",
            };
            let priority = step["priority"].as_str();
            let priority = priority.filter(|priority| matches!(*priority, "high" | "low"));
            let priority = priority.unwrap_or("medium");
            let content = step[text].as_str()?;
            Some(json!({"content": content, "priority": priority, "status": status}))
        })
        .collect();
    Some(json!({"sessionUpdate": "plan", "entries": entries}))
}

/// A value as text: a string as it is, anything else as JSON.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_those_in_the_output() {
        let block = console("a\n```\nb\n\n").unwrap();
        assert_eq!(block["content"]["text"], "````console\na\n```\nb\n````");
        assert_eq!(console(" \n"), None);
    }

    #[test]
    fn hunks_have_two_sides() {
        let lines = [
            "@@ -1,2 +1,2 @@",
            " a",
            "-b",
            "+c",
            "",
            "\\ No newline at end of file",
        ];
        let (old, new) = sides_of_hunks(lines.into_iter());
        assert_eq!((old.as_str(), new.as_str()), ("a\nb\n\n", "a\nc\n\n"));
    }
}
