//! The output of a command as Codex gives it to its model: with a head about how it ended.

use serde_json::Value;

use super::super::content::as_text;

/// The outcome of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandOutput {
    pub(super) text: String,
    /// The exit code, if the command has ended and the head has one.
    pub(super) exit: Option<i64>,
    /// The number by which its input is written to while it goes on.
    pub(super) running: Option<String>,
    /// Whether the tool itself says that it failed.
    pub(super) failed: bool,
}

/// Reads the output of a tool call: a text, an object with the text, or a list of blocks.
pub(super) fn output(value: &Value) -> CommandOutput {
    match value {
        Value::String(text) => of_text(text),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            of_text(&texts.collect::<Vec<_>>().join("\n"))
        }
        Value::Object(members) => {
            let names = ["content", "text", "output"];
            let text = names.into_iter().find_map(|name| members.get(name));
            let mut read = text.map_or_else(CommandOutput::default, |text| match text {
                Value::Array(_) | Value::String(_) => output(text),
                other => of_text(&as_text(other)),
            });
            read.failed |= value["success"] == false;
            read
        }
        _ => CommandOutput::default(),
    }
}

fn of_text(text: &str) -> CommandOutput {
    // Earlier versions wrote an object as text.
    if text.starts_with('{')
        && let Ok(object) = serde_json::from_str::<Value>(text)
        && let Some(inner) = object["output"].as_str()
    {
        let exit = object["metadata"]["exit_code"].as_i64();
        return CommandOutput {
            text: inner.to_owned(),
            exit,
            ..CommandOutput::default()
        };
    }
    let Some((head, body)) = split_head(text) else {
        return CommandOutput {
            text: text.to_owned(),
            ..CommandOutput::default()
        };
    };
    let said = |start: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(start).map(str::trim))
    };
    // A tool that is run as a command has a head of its own.
    if split_head(body).is_some() {
        return of_text(body);
    }
    let exit = said("Process exited with code").or_else(|| said("Exit code:"));
    CommandOutput {
        text: body.to_owned(),
        exit: exit.and_then(|code| code.parse().ok()),
        running: said("Process running with session ID").map(str::to_owned),
        failed: false,
    }
}

/// The head of an output, which ends with a line `Output:`. It may begin with the command.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let starts = ["Chunk ID:", "Wall time:", "Exit code:", "Process "];
    let begins = |text: &str| starts.iter().any(|start| text.starts_with(start));
    let end = text.find("\nOutput:")?;
    let has_command = text.starts_with("Command:");
    let mut behind = text[..end].match_indices('\n').filter(|_| has_command);
    if !begins(text) && !behind.any(|(at, _)| begins(&text[at + 1..])) {
        return None;
    }
    let body = &text[end + "\nOutput:".len()..];
    Some((&text[..end], body.strip_prefix('\n').unwrap_or(body)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_head_of_an_output_says_how_it_ended() {
        let text =
            "Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 2\nOutput:\nno\nOutput:\n";
        let read = output(&json!(text));
        assert_eq!(read.exit, Some(2));
        assert_eq!(read.text, "no\nOutput:\n");
        let running = "Wall time: 1 seconds\nProcess running with session ID 77\nOutput:\n";
        assert_eq!(output(&json!(running)).running.as_deref(), Some("77"));
        assert_eq!(output(&json!("Output:\nx")).text, "Output:\nx");
        let named = "Command: sh -c 'a\nb'\nChunk ID: 5\nProcess exited with code 101\nOutput:\nno";
        let read = output(&json!(named));
        assert_eq!((read.text.as_str(), read.exit), ("no", Some(101)));
        let other = "Command: a\nOutput:\nb";
        assert_eq!(output(&json!(other)).text, other);
        let nested = "Wall time: 0 seconds\nOutput:\nExit code: 1\nOutput:\nno";
        let read = output(&json!(nested));
        assert_eq!((read.text.as_str(), read.exit), ("no", Some(1)));
    }

    #[test]
    fn other_shapes_are_read() {
        let old = r#"{"output":"a","metadata":{"exit_code":1}}"#;
        let read = output(&json!(old));
        assert_eq!((read.text.as_str(), read.exit), ("a", Some(1)));
        let refused = json!({"content": "no", "success": false});
        assert!(output(&refused).failed);
        assert_eq!(output(&json!([{"text": "a"}, {"text": "b"}])).text, "a\nb");
        assert_eq!(
            output(&json!({"type": "input_text", "text": "c"})).text,
            "c"
        );
    }
}
