//! Tests of the view, line by line.

use serde_json::{Value, json};

use super::*;
use crate::record::Kind;
use crate::replay::{live_line, live_record_line};

/// The conversions of updates, one after the other.
fn shown(updates: &[&str]) -> Vec<String> {
    let mut view = V2View::new();
    updates.iter().map(|update| of(&mut view, update)).collect()
}

fn of(view: &mut V2View, update: &str) -> String {
    let (mut line, mut out) = (Vec::new(), Vec::new());
    live_line("s", update, &mut line);
    view.lines(&line, &mut out);
    let out = String::from_utf8(out).unwrap();
    let head = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":"#;
    let updates = out.lines().map(|line| {
        let update = line
            .strip_prefix(head)
            .and_then(|update| update.strip_suffix("}}"));
        update.unwrap_or_else(|| panic!("{line}"))
    });
    updates.collect::<Vec<_>>().join("\n")
}

fn chunk(role: &str, id: &str) -> String {
    let id = match id {
        "" => String::new(),
        id => format!(r#","messageId":{id}"#),
    };
    format!(r#"{{"sessionUpdate":"{role}_chunk","content":{{"type":"text","text":"x"}}{id}}}"#)
}

/// The ids that chunks are shown with, each given as its role and the JSON of its own id.
fn ids(chunks: &[(&str, &str)]) -> Vec<String> {
    let mut view = V2View::new();
    let ids = chunks.iter().map(|(role, id)| match *role {
        "" => {
            of(&mut view, id);
            "-".to_owned()
        }
        role => {
            let update: Value = serde_json::from_str(&of(&mut view, &chunk(role, id))).unwrap();
            update["messageId"].as_str().unwrap().to_owned()
        }
    });
    ids.collect()
}

#[test]
fn what_both_versions_write_alike_is_copied() {
    let odd = r#"{ "sessionUpdate" : "agent_message_chunk" ,"content":{"type":"text","text":"\ud83d","n":1e400},"a":1,"a":2,"messageId":"m\u0062"}"#;
    for update in [
        odd,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":null,"rawOutput":1e400,"content":[],"x":[1,{}]}"#,
        r#"{"sessionUpdate":"usage_update","used":1.0,"size":2}"#,
        r#"{"sessionUpdate":"session_info_update","title":null}"#,
        r#"{"sessionUpdate":"notice","severity":"info","title":"t"}"#,
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}"#,
        r#"{"sessionUpdate":"moon","messageId":null}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{},"messageId":7}"#,
        r#"{"sessionUpdate":"agent_message_chunk"}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":7}"#,
        r#"{"sessionUpdate":"plan"}"#,
        r#"{"sessionUpdate":7}"#,
        "{}",
    ] {
        assert_eq!(shown(&[update]), [update]);
    }
    let others = b"{\"id\":1,\"result\":{}}\n\n{\"method\":\"x\"}\nhalf a line";
    let mut out = b"before".to_vec();
    V2View::new().lines(others, &mut out);
    assert_eq!(out, [&b"before"[..], others].concat());
}

#[test]
fn every_message_has_an_id_of_its_own() {
    let (user, agent, thought) = ("user_message", "agent_message", "agent_thought");
    assert_eq!(
        ids(&[(agent, ""), (agent, "null"), (thought, ""), (agent, "")]),
        ["rejoin_0_1", "rejoin_0_1", "rejoin_0_2", "rejoin_0_3"]
    );
    // If an id is missing, adjacent chunks belong together.
    assert_eq!(
        ids(&[
            (agent, "\"m\""),
            (agent, ""),
            (agent, "\"m\""),
            (agent, "\"n\""),
            (user, "\"u\"")
        ]),
        ["m", "m", "m", "n", "u"]
    );
    assert_eq!(
        ids(&[
            (agent, ""),
            (agent, "\"m\""),
            (agent, "\"n\""),
            (agent, "\"m\"")
        ]),
        ["rejoin_0_1", "rejoin_0_1", "n", "m"]
    );
    // A chunk after something else is another message.
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}"#;
    let changed = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#;
    let usage = r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#;
    let m = (agent, "\"m\"");
    assert_eq!(
        ids(&[
            m,
            ("", usage),
            m,
            ("", call),
            m,
            ("", changed),
            m,
            (thought, "\"m\""),
            m
        ]),
        ["m", "-", "m", "-", "m.2", "-", "m.2", "m.3", "m.4"]
    );
    // However the name is spelled, and whatever else has that name.
    assert_eq!(
        ids(&[
            (agent, r#""m""#),
            (agent, r#""\u006d""#),
            (user, "\"m.2\""),
            m
        ]),
        ["m", "m", "m.2", "m.3"]
    );
    assert_eq!(
        ids(&[(agent, "\"rejoin_0_1\""), (user, "")]),
        ["rejoin_0_1", "rejoin_0_2"]
    );
}

#[test]
fn messages_without_ids_are_counted_in_their_turn() {
    let line = |turn: u8, role: &str| {
        let update = chunk(role, "");
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","_meta":{{"rejoin":{{"at":"","turn":{turn}}}}},"update":{update}}}}}"#
        ) + "\n"
    };
    let lines = [
        line(3, "user_message"),
        line(3, "agent_message"),
        line(4, "user_message"),
    ];
    let mut out = Vec::new();
    V2View::new().lines(lines.concat().as_bytes(), &mut out);
    let out = String::from_utf8(out).unwrap();
    let ids = out.lines().map(|line| {
        let (_, behind) = line.split_once(r#""update":{"messageId":""#).unwrap();
        behind.split('"').next().unwrap()
    });
    assert_eq!(
        ids.collect::<Vec<_>>(),
        ["rejoin_3_1", "rejoin_3_2", "rejoin_4_1"]
    );
}

#[test]
fn modes_that_are_known_are_an_option() {
    let modes = r#"{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code"}]}"#;
    let mut view = V2View::new();
    view.settings(
        Some(r#"[{"id":"b","type":"boolean","name":"B","currentValue":true}]"#),
        Some(modes),
    );
    let changed =
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"code","_meta":{"a":1}}"#;
    let b = r#"{"configId":"b","type":"boolean","name":"B","currentValue":true}"#;
    let mode = r#"{"configId":"mode","name":"Mode","category":"mode","type":"select","currentValue":"code","options":[{"value":"ask","name":"Ask"},{"value":"code","name":"Code"}]}"#;
    assert_eq!(
        of(&mut view, changed),
        format!(
            r#"{{"sessionUpdate":"config_option_update","configOptions":[{b},{mode}],"_meta":{{"rejoin":{{"currentModeId":"code"}},"a":1}}}}"#
        )
    );
    // From now on it is listed with any other options.
    let update = r#"{"sessionUpdate":"config_option_update","configOptions":[]}"#;
    assert_eq!(
        of(&mut view, update),
        format!(r#"{{"sessionUpdate":"config_option_update","configOptions":[{mode}]}}"#)
    );
    // An option of the agent's own replaces it.
    let own = r#"{"id":"m","category":"mode","currentValue":"code","options":[{"group":"g","name":"G","options":[{"value":"ask"},{"value":"code"}]}]}"#;
    let update = format!(r#"{{"sessionUpdate":"config_option_update","configOptions":[{own}]}}"#);
    let shown_own = own
        .replace("\"id\"", "\"configId\"")
        .replace("\"group\"", "\"groupId\"");
    assert_eq!(
        of(&mut view, &update),
        format!(r#"{{"sessionUpdate":"config_option_update","configOptions":[{shown_own}]}}"#)
    );
    let back = r#"{"currentModeId":"ask","sessionUpdate":"current_mode_update"}"#;
    let set = shown_own.replace(r#""currentValue":"code""#, r#""currentValue":"ask""#);
    assert_eq!(
        of(&mut view, back),
        format!(
            r#"{{"_meta":{{"rejoin":{{"currentModeId":"ask"}}}},"configOptions":[{set}],"sessionUpdate":"config_option_update"}}"#
        )
    );
}

#[test]
fn a_replay_ends_with_all_options_once() {
    let modes =
        r#"{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":"b","name":"B"}]}"#;
    let lines: String = [
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#,
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"b"}"#,
        r#"{"sessionUpdate":"config_option_update","configOptions":[]}"#,
        r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#,
    ]
    .iter()
    .map(|update| {
        let mut line = Vec::new();
        live_line("s", update, &mut line);
        String::from_utf8(line).unwrap()
    })
    .collect();
    let shown = |modes: Option<&str>| {
        let (mut view, mut out) = (V2View::new(), b"before\n".to_vec());
        view.settings(None, modes);
        view.last_lines(lines.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let kinds = out.lines().skip(1).map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["params"]["update"].clone()
        });
        assert!(out.starts_with("before\n"));
        kinds.collect::<Vec<_>>()
    };
    let known = shown(Some(modes));
    assert_eq!(known.len(), 3);
    assert_eq!(known[1]["configOptions"][0]["currentValue"], "b");
    // Anything but an option of version 2 is unchanged.
    let unknown = shown(None);
    assert_eq!(unknown.len(), 4);
    assert_eq!(unknown[1]["sessionUpdate"], "_rejoin/current_mode_update");
}

#[test]
fn terminals_for_display_are_shown_as_such() {
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","content":[{"type":"terminal","terminalId":"d"},{"type":"terminal","terminalId":"e"}],"_meta":{"terminal_info":{"terminal_id":"d","cwd":"/w"}}}"#;
    let output = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"d","data":"é\n"},"terminal_exit":{"terminal_id":"d","exit_code":1,"signal":null}}}"#;
    let note = r#"{"type":"content","content":{"type":"text","text":"[a terminal was shown here]"},"_meta":{"rejoin":{"terminal":{"type":"terminal","terminalId":"e"}}}}"#;
    let begun = call
        .replace("\"tool_call\"", "\"tool_call_update\"")
        .replace(r#"{"type":"terminal","terminalId":"e"}"#, note);
    assert_eq!(
        shown(&[call, output]),
        [
            format!(
                "{}\n{begun}",
                r#"{"sessionUpdate":"terminal_update","terminalId":"d","cwd":"/w"}"#
            ),
            format!(
                "{}\n{}\n{output}",
                r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"d","data":"w6kK"}"#,
                r#"{"sessionUpdate":"terminal_update","terminalId":"d","exitStatus":{"exitCode":1,"signal":null}}"#
            ),
        ]
    );
}

#[test]
fn large_diffs_have_no_patch() {
    let text = "x\n".repeat(diff::PATCHES / 4);
    let diff = |old: &str, new: &str| json!({"type": "diff", "path": "/a", "oldText": old, "newText": new});
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "content": [diff(&text, "y"), diff(&text, "y"), diff("a\n", "b\n")]});
    let shown = shown(&[&call.to_string()]);
    let shown: Value = serde_json::from_str(&shown[0]).unwrap();
    let content = shown["content"].as_array().unwrap();
    let patched: Vec<_> = content
        .iter()
        .map(|item| item["patch"].is_object())
        .collect();
    assert_eq!(patched, [true, false, true]);
    assert_eq!(content[1]["_meta"]["rejoin"]["oldText"], text);
}

#[test]
fn nothing_is_shown_before_the_message_that_was_asked_for() {
    let lines: String = [
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}"#,
        &chunk("agent_message", "\"m\""),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#,
        &chunk("agent_message", "\"m\""),
        &chunk("agent_thought", "\"m\""),
    ]
    .iter()
    .map(|update| {
        let mut line = Vec::new();
        live_line("s", update, &mut line);
        String::from_utf8(line).unwrap()
    })
    .collect();
    let other = "{\"id\":1,\"result\":{}}\n";
    let from = |id: &str| {
        let mut out = Vec::new();
        let mut view = V2View::new().from_message(id);
        view.lines(other.as_bytes(), &mut out);
        view.lines(lines.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let rest = out.strip_prefix(other).unwrap().to_owned();
        rest.lines().count()
    };
    assert_eq!(from("m"), 4);
    assert_eq!(from("m.2"), 1);
    assert_eq!(from("n"), 0);
}

#[test]
fn what_has_the_form_of_version_2_passes_and_keeps_its_ids() {
    let mut view = V2View::new().from_message("m");
    let mut native = |kind, params: &str| {
        let (mut line, mut out) = (Vec::new(), Vec::new());
        live_record_line("s", kind, params, &mut line);
        view.lines(&line, &mut out);
        assert!(out.is_empty() || out == line);
        !out.is_empty()
    };
    let chunk = |id: &str| format!(r#"{{"update":{}}}"#, chunk("agent_message", id));
    assert!(!native(Kind::UpdateV2, &chunk("\"a\"")));
    let whole = r#"{"update":{"messageId":"\u006d","sessionUpdate":"user_message"},"_meta":{}}"#;
    assert!(native(Kind::UpdateV2, whole));
    for _ in 0..3 {
        assert!(native(Kind::UpdateV2, &chunk("\"a\"")));
    }
    let call = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":null}"#;
    assert!(native(Kind::UpdateV2, &format!(r#"{{"update":{call}}}"#)));
    let about = r#"{"sessionUpdate":"subagent_update","sessionId":"t"}"#;
    assert!(native(Kind::UpdateV2, &format!(r#"{{"update":{about}}}"#)));
    let inside = format!(r#"{{"sessionId":"t",{}"#, &chunk("\"a\"")[1..]);
    assert!(native(Kind::SubagentV2, &inside));
    let own = self::chunk("agent_message", "\"a\"");
    let expected = self::chunk("agent_message", "\"a.2\"");
    assert_eq!(of(&mut view, &own), expected);
}

#[test]
fn the_state_of_a_subagent_is_also_reported_by_itself() {
    let mut view = V2View::new();
    let mut shown = |session: &str, update: &str| {
        let (mut line, mut out) = (Vec::new(), Vec::new());
        live_line(session, update, &mut line);
        view.lines(&line, &mut out);
        let behind = String::from_utf8(out.split_off(line.len())).unwrap();
        assert_eq!(out, line);
        behind
    };
    let about = |session: &str, members: &str| {
        format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{session}"{members}}}"#)
    };
    let report = |session: &str, state: &str| {
        let mut line = Vec::new();
        let update = format!(r#"{{"sessionUpdate":"state_update",{state}}}"#);
        live_line(session, &update, &mut line);
        String::from_utf8(line).unwrap()
    };
    let idle = r#""state":"idle","stopReason":"end_turn","usage":{"totalTokens":1e400}"#;
    let state = format!(r#","state":{{{idle}}}"#);
    assert_eq!(shown("s", &about("c", &state)), report("c", idle));
    let running = r#","state":{"state":"running"}"#;
    let reported = report("d", r#""state":"running""#);
    assert_eq!(shown("c", &about("d", running)), reported);
    for none in [
        "",
        r#","state":null"#,
        r#","state":{}"#,
        r#","state":{"state":7}"#,
    ] {
        assert_eq!(shown("s", &about("c", none)), "");
    }
    let draft = r#"{"sessionUpdate":"subagent_update","subagentSessionId":"e","state":"running"}"#;
    assert_eq!(shown("s", draft), "");
}

#[test]
fn the_state_of_a_subagent_that_is_not_shown_is_not_reported() {
    let about = r#"{"sessionUpdate":"subagent_update","sessionId":"c","state":{"state":"idle"}}"#;
    let mut view = V2View::new().from_message("m");
    let mut shown = |update: &str| {
        let (mut line, mut out) = (Vec::new(), Vec::new());
        live_line("s", update, &mut line);
        view.lines(&line, &mut out);
        String::from_utf8(out).unwrap().lines().count()
    };
    assert_eq!(shown(about), 0);
    assert_eq!(shown(&chunk("agent_message", "\"m\"")), 1);
    assert_eq!(shown(about), 1);
    assert_eq!(shown(&about.replace("\"c\"", "\"d\"")), 2);
}
