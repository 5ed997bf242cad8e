//! Long output of other tools' calls is clipped in replays, and read whole by `session/get`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::client::Client;
use super::home;
use super::listed::{ROLLOUT, append};
use super::opened::said;
use crate::support::systems::FOLDER;

/// The update of a replay that ends this tool call.
fn end_of<'a>(client: &'a Client, call: &str) -> &'a Value {
    let params = client.notified.iter().map(|message| &message["params"]);
    let ended = |params: &&Value| {
        let update = &params["update"];
        update["toolCallId"] == call && update["status"] == "completed"
    };
    params.rev().find(ended).expect("the call has ended")
}

/// The conversation in the file of the early version.
fn early(client: &mut Client) -> Value {
    let listed = client.list();
    let is_it = |session: &&Value| session["title"].to_string().contains("early version");
    listed.iter().find(is_it).unwrap()["sessionId"].clone()
}

fn open(client: &mut Client, id: &Value) {
    let params = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
    client.call("session/load", params);
}

#[test]
fn long_output_is_clipped_and_read_whole() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let file = home.path().join(ROLLOUT);
    let lines: Vec<_> = (0..1000).map(|line| format!("line {line} é")).collect();
    let output = lines.join("\n");
    let call = json!({
        "type": "function_call", "name": "shell", "call_id": "long-1",
        "arguments": json!({ "command": ["make"] }).to_string(),
    });
    let result = json!({ "type": "function_call_output", "call_id": "long-1", "output": output });
    append(&file, &said("user", "Make it."));
    append(&file, &call.to_string());
    append(&file, &result.to_string());
    let mut client = Client::new(store.path(), home.path(), &["codex", "clip"]);
    let id = early(&mut client);

    open(&mut client, &id);
    let shown = end_of(&client, "long-1");
    let note = &shown["_meta"]["rejoin"]["clipped"];
    let bytes = note["bytes"].as_u64().unwrap();
    assert!(bytes > 9000, "{shown}");
    let update = shown["update"].to_string();
    assert!(
        update.len() < 3000 && update.contains("bytes cut"),
        "{update}"
    );
    assert!(
        update.contains("line 0 é") && update.contains("line 999 é"),
        "{update}"
    );

    let whole = client.call("session/get", note["get"].clone());
    assert!(whole["toolCall"].to_string().contains("line 500 é"));
    assert_eq!(whole["toolCall"]["kind"], "execute");
    let turns = client.call("session/get", json!({ "sessionId": id, "offset": -1 }));
    assert_eq!(turns["turns"][0]["toolCalls"][0], whole["toolCall"]);

    let places = whole["raw"].as_array().unwrap();
    let records = places.iter().map(|place| {
        let params = json!({ "sessionId": id, "raw": place });
        let read = client.call("session/get", params);
        assert_eq!(Path::new(read["raw"]["path"].as_str().unwrap()), file);
        serde_json::from_str::<Value>(read["raw"]["text"].as_str().unwrap()).unwrap()
    });
    assert_eq!(records.collect::<Vec<_>>(), [call, result]);

    client.call("session/close", json!({ "sessionId": id }));
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    open(&mut client, &id);
    let shown = end_of(&client, "long-1").to_string();
    assert!(
        shown.contains("line 500 é") && !shown.contains("clipped"),
        "{shown}"
    );
}

#[test]
fn a_file_is_read_in_parts() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let file = home.path().join(ROLLOUT);
    append(&file, &said("user", "Größe: 5 €."));
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let id = early(&mut client);
    let (mut text, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let raw = json!({ "offset": offset, "length": 5 });
        let params = json!({ "sessionId": id, "raw": raw });
        let read = client.call("session/get", params)["raw"].take();
        assert_eq!(read["offset"], offset);
        assert_eq!(read["size"], fs::metadata(&file).unwrap().len());
        text += read["text"].as_str().unwrap();
        offset = read["nextOffset"].clone();
    }
    assert_eq!(text, fs::read_to_string(&file).unwrap());
    for raw in [json!({ "offset": -1 }), json!({ "offset": 1e18 }), json!(7)] {
        let params = json!({ "sessionId": id, "raw": raw });
        let answer = client.ask("session/get", params);
        assert_eq!(answer["error"]["data"]["error"], "invalid_params", "{raw}");
    }
    for params in [
        json!({ "sessionId": id, "raw": {}, "limit": 1 }),
        json!({ "sessionId": id, "raw": {}, "toolCallId": "a" }),
        json!({ "sessionId": id, "toolCallId": "no-such-call" }),
    ] {
        let answer = client.ask("session/get", params);
        assert_eq!(answer["error"]["data"]["error"], "invalid_params");
    }
}
