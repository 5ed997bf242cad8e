//! Disks that fail while sessions are open: what can be read is shown, what cannot be kept is
//! refused, and only a session that is known to be absent is not found.

use rejoin::engine::PromptEnd;
use serde_json::{Value, json};

use super::engine::Event;
use super::rig::Rig;
use super::said;

use crate::support::systems::FOLDER;

/// Prompts a session whose engine answers at once; the answer.
fn prompt(rig: &mut Rig, session: &str) -> Value {
    let prompt = rig.ask("session/prompt", prompt_params(session));
    let Event::Prompt(responder) = rig.event() else {
        panic!("the engine is prompted");
    };
    responder
        .send(Ok(PromptEnd::With(
            r#"{"stopReason":"end_turn"}"#.to_owned(),
        )))
        .expect("it waits");
    rig.answer(prompt)
}

fn prompt_params(session: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hello" }] })
}

fn close(rig: &mut Rig, session: &str) {
    let close = rig.ask("session/close", json!({ "sessionId": session }));
    assert!(rig.answer(close).get("result").is_some());
    assert!(matches!(rig.event(), Event::Part(_)));
}

/// The name and the message of an error.
fn error(answer: &Value) -> (&str, &str) {
    let error = &answer["error"];
    let name = error["data"]["error"].as_str();
    (
        name.unwrap_or_default(),
        error["message"].as_str().unwrap_or_default(),
    )
}

#[test]
fn read_only_disk_loads_and_resumes_when_writable() {
    let mut rig = Rig::start();
    let (session, _out) = rig.session();
    assert!(prompt(&mut rig, &session).get("result").is_some());
    close(&mut rig, &session);

    rig.disk.set_read_only(true);
    let load = rig.ask_for("session/load", &session);
    let update = rig.next();
    assert_eq!(update["params"]["update"]["content"]["text"], "hello");
    let answer = rig.answer(load);
    let reason = &answer["result"]["_meta"]["rejoin"]["readOnly"];
    let reason = reason.as_str().expect("it says why");
    assert!(reason.contains("read-only filesystem"), "{reason}");

    let refused = rig.ask("session/prompt", prompt_params(&session));
    assert_eq!(error(&rig.answer(refused)), ("storage_failed", reason));
    let delete = rig.ask("session/delete", json!({ "sessionId": session }));
    assert_eq!(error(&rig.answer(delete)).0, "storage_failed");

    rig.disk.set_read_only(false);
    assert!(prompt(&mut rig, &session).get("result").is_some());
    rig.end();
}

/// Loads or resumes a session; the texts that are shown, and why it can only be read.
fn open(rig: &mut Rig, method: &str, session: &str) -> (Vec<String>, String) {
    let open = rig.ask_for(method, session);
    let mut shown = Vec::new();
    loop {
        let message = rig.next();
        if message["id"] == open {
            let reason = &message["result"]["_meta"]["rejoin"]["readOnly"];
            let reason = reason.as_str().unwrap_or_else(|| panic!("{message}"));
            return (shown, reason.to_owned());
        }
        let text = &message["params"]["update"]["content"]["text"];
        shown.extend(text.as_str().map(str::to_owned));
    }
}

#[test]
fn a_session_whose_turn_broke_on_a_full_disk_is_read_there_and_goes_on_when_there_is_space() {
    let mut rig = Rig::start();
    let (session, out) = rig.session();
    let broken = rig.ask("session/prompt", prompt_params(&session));
    let Event::Prompt(responder) = rig.event() else {
        panic!("the engine is prompted");
    };
    let update = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": "begun" },
    });
    out.send_blocking(said(&update.to_string()))
        .expect("it listens");
    assert_eq!(rig.next()["method"], "session/update");
    rig.disk.set_full(true);
    responder
        .send(Ok(PromptEnd::With(
            r#"{"stopReason":"end_turn"}"#.to_owned(),
        )))
        .expect("it waits");
    let answer = rig.answer(broken);
    assert_eq!(error(&answer).0, "storage_failed", "{answer}");

    // In the same process.
    for method in ["session/load", "session/resume", "session/load"] {
        let (shown, reason) = open(&mut rig, method, &session);
        assert!(reason.contains("no storage space"), "{reason}");
        if method == "session/load" {
            assert_eq!(shown, ["hello", "begun"]);
        }
    }
    let refused = rig.ask("session/prompt", prompt_params(&session));
    assert_eq!(error(&rig.answer(refused)).0, "storage_failed");

    // In others.
    for method in ["session/load", "session/resume"] {
        let disk = rig.disk.crash();
        disk.set_full(true);
        let mut other = Rig::start_on(disk);
        let (shown, reason) = open(&mut other, method, &session);
        assert!(reason.contains("no storage space"), "{reason}");
        if method == "session/load" {
            assert_eq!(shown, ["hello", "begun"], "each record once");
        }
        other.disk.set_full(false);
        let answer = prompt(&mut other, &session);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        other.end();
    }

    rig.disk.set_full(false);
    let go_on = rig.ask("session/prompt", prompt_params(&session));
    let Event::Prompt(responder) = rig.event() else {
        panic!("the engine is prompted");
    };
    responder
        .send(Ok(PromptEnd::With(
            r#"{"stopReason":"end_turn"}"#.to_owned(),
        )))
        .expect("it waits");
    loop {
        let message = rig.next();
        if message["id"] == go_on {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            break;
        }
    }
    rig.end();
}

#[test]
fn read_only_disk_in_version_2() {
    let mut rig = Rig::start_v2();
    let (session, _out) = rig.session();
    close(&mut rig, &session);
    rig.disk.set_read_only(true);
    let resume = rig.ask_for("session/resume", &session);
    // What the session does now.
    assert_eq!(rig.next()["method"], "session/update");
    let answer = rig.answer(resume);
    let reason = &answer["result"]["_meta"]["rejoin"]["readOnly"];
    assert!(reason.is_string(), "{answer}");
    rig.end();
}

#[test]
fn unreachable_store_reports_no_session_as_absent() {
    for version in [1, 2] {
        let mut rig = match version {
            1 => Rig::start(),
            _ => Rig::start_v2(),
        };
        let (session, _out) = rig.session();
        close(&mut rig, &session);
        let open = match version {
            1 => "session/load",
            _ => "session/resume",
        };
        let asked = [
            (open, json!({ "cwd": FOLDER, "mcpServers": [] })),
            ("session/resume", json!({ "cwd": FOLDER, "mcpServers": [] })),
            (
                "session/prompt",
                json!({ "prompt": [{ "type": "text", "text": "a" }] }),
            ),
            ("session/get", json!({})),
            ("session/delete", json!({})),
        ];
        rig.disk.hide(true);
        // Ours, and one in the form of another agent's.
        for (method, params) in &asked {
            for name in [session.as_str(), "theirs"] {
                let mut params = params.clone();
                params["sessionId"] = name.into();
                let ask = rig.ask(method, params);
                let answer = rig.answer(ask);
                assert_eq!(
                    error(&answer).0,
                    "storage_failed",
                    "{method} {name} {answer}"
                );
            }
        }
        let list = rig.ask("session/list", json!({}));
        assert_eq!(error(&rig.answer(list)).0, "storage_failed");

        rig.disk.hide(false);
        let absent = "sess_01902f3c-7b1e-7c3a-8f00-000000000001";
        let get = rig.ask("session/get", json!({ "sessionId": absent }));
        assert_eq!(error(&rig.answer(get)).0, "session_not_found");
        let get = rig.ask("session/get", json!({ "sessionId": session }));
        assert!(rig.answer(get).get("result").is_some());
        rig.end();
    }
}
