//! Sessions of an engine that is an agent of its own: it makes ready, refuses, speaks between two
//! turns, asks the client, serves what only it knows.

mod clients;
mod engine;
mod questions_v2;
mod rig;
mod storage;

use std::io::ErrorKind;

use rejoin::engine::{
    AttachOutcome, AttachReason, Block, Called, CloseReason, EngineEvent, PromptEnd, Question,
};
use rejoin::record::Kind;
use rejoin::sys::sim::Fault;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use engine::Event;
use rig::{Rig, logs, refusal};

use crate::support::systems::FOLDER;

fn said(payload: &str) -> EngineEvent {
    EngineEvent::Block(Block::of(Kind::Update, payload.to_owned()))
}

#[test]
fn failed_creation_leaves_no_session() {
    // More operations than it takes, so that the last ones fail nothing.
    let mut refused = 0;
    for operation in 0..80 {
        let mut rig = Rig::start();
        let request = if operation % 2 == 0 {
            rig.ask("session/new", json!({ "cwd": FOLDER, "mcpServers": [] }))
        } else {
            rig.ask_for("session/resume", "theirs")
        };
        let Event::Attach(how, _, responder) = rig.event() else {
            panic!("it is attached first");
        };
        let update = r#"{"sessionUpdate":"user_message_chunk"}"#;
        let imported = vec![Block::of(Kind::Update, update.to_owned()); 2];
        let attached = AttachOutcome {
            agent_session_id: Some("{}".to_owned()),
            imported: if how == AttachReason::Import {
                imported
            } else {
                Vec::new()
            },
            ..AttachOutcome::default()
        };
        let fault = Fault::Error(ErrorKind::StorageFull);
        rig.disk
            .fail_at(rig.disk.operations() + operation / 2, fault);
        responder.send(Ok(attached)).expect("it waits");
        let answer = loop {
            let message = rig.next();
            if message["id"] == request {
                break message;
            }
            assert_eq!(message["method"], "session/update", "{message}");
        };
        rig.disk.heal();
        let is_refused = answer.get("error").is_some();
        if is_refused {
            refused += 1;
            rig.parted(CloseReason::Refused);
        }
        let disk = rig.disk.clone();
        rig.end();
        let expected = usize::from(!is_refused);
        assert_eq!(logs(&disk), expected, "operation {operation}: {answer}");
    }
    assert!((4..80).contains(&refused), "{refused}");
}

#[test]
fn refusal_of_engine_leaves_no_session() {
    let mut rig = Rig::start();
    let new = rig.ask("session/new", json!({ "cwd": FOLDER, "mcpServers": [] }));
    let (_, responder) = rig.attach(AttachReason::New);
    responder.send(Err(refusal())).expect("it waits");
    assert_eq!(rig.answer(new)["error"]["code"], -31999);
    rig.parted(CloseReason::Refused);

    let new = rig.ask("session/new", json!({ "cwd": FOLDER, "mcpServers": [] }));
    let (_, responder) = rig.attach(AttachReason::New);
    let cancel = json!({
        "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": new },
    });
    rig.send(&cancel);
    assert_eq!(rig.answer(new)["error"]["code"], -32800);
    rig.parted(CloseReason::Refused);
    assert!(responder.is_closed());
    let disk = rig.disk.clone();
    rig.end();
    assert_eq!(logs(&disk), 0);
}

#[test]
fn refusal_of_engine_ends_replay() {
    let mut rig = Rig::start();
    let (id, out) = rig.session();
    let count = 3000;
    for n in 0..count {
        let update = json!({ "sessionUpdate": "plan", "entries": [], "n": n });
        out.send_blocking(said(&update.to_string()))
            .expect("it listens");
        assert_eq!(rig.next()["params"]["update"]["n"], n);
    }
    let close = rig.ask("session/close", json!({ "sessionId": id }));
    rig.answer(close);
    rig.parted(CloseReason::Closed);

    for expected in [None, Some(count)] {
        let load = rig.ask_for("session/load", &id);
        let (_, responder) = rig.attach(AttachReason::Again);
        let refuses = expected.is_none();
        let result = if refuses {
            Err(refusal())
        } else {
            Ok(AttachOutcome::default())
        };
        responder.send(result).expect("it waits");
        let mut replayed = 0;
        let answer = loop {
            let message = rig.next();
            if message.get("method").is_none() {
                break message;
            }
            replayed += 1;
        };
        assert_eq!(answer["id"], load);
        assert_eq!(answer.get("error").is_some(), refuses);
        match expected {
            None => rig.parted(CloseReason::Closed),
            Some(expected) => assert_eq!(replayed, expected),
        }
        rig.is_quiet();
    }
    rig.end();
}

#[test]
fn updates_between_turns_are_logged_and_sent() {
    let mut rig = Rig::start();
    let (id, out) = rig.session();
    let update = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"1e400"},"n":1e400}"#;
    out.send_blocking(said(update)).expect("it listens");
    let line = rig.next_line();
    assert!(line.contains(update), "{line}");
    assert!(rig.records(&id).contains(&("update", update.to_owned())));

    // A question goes by the id that the client knows, and its answer comes back to the byte.
    let (reply, outcome) = oneshot::channel();
    let question = Question {
        method: "session/request_permission".to_owned(),
        params: r#"{"sessionId":"inner","n":1e400}"#.to_owned(),
        session: Some(13..20),
        logged: true,
        is_native: false,
        cancel: CancellationToken::new(),
        reply,
    };
    out.send_blocking(EngineEvent::Ask(question))
        .expect("it listens");
    let line = rig.next_line();
    assert!(line.contains(&format!(r#""params":{{"sessionId":"{id}","n":1e400}}"#)));
    let asked: serde_json::Value = serde_json::from_str(&line.replace("1e400", "1")).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "o": "yes" } });
    rig.send(&answer);
    assert_eq!(outcome.blocking_recv(), Ok(Ok(r#"{"o":"yes"}"#.to_owned())));
    let kinds: Vec<_> = rig.records(&id).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["session", "update", "ask", "answer"]);

    // Both replay as they were: the words, and nothing of the question.
    let load = rig.ask_for("session/load", &id);
    let (_, responder) = rig.attach(AttachReason::Again);
    responder
        .send(Ok(AttachOutcome::default()))
        .expect("it waits");
    let line = rig.next_line();
    assert!(line.contains(r#""text":"1e400"}"#), "{line}");
    assert!(rig.answer(load).get("result").is_some());
    rig.end();
}

#[test]
fn close_answers_running_calls() {
    let mut rig = Rig::start();
    let (id, _out) = rig.session();
    let call = rig.ask(
        "session/set_mode",
        json!({ "sessionId": id, "modeId": "m" }),
    );
    let Event::Call(method, responder) = rig.event() else {
        panic!("it is called");
    };
    assert_eq!(method, "session/set_mode");
    let close = rig.ask("session/close", json!({ "sessionId": id }));
    assert!(rig.answer(close).get("result").is_some());
    rig.parted(CloseReason::Closed);
    let called = Called {
        result: r#"{"n":2}"#.to_owned(),
        info: Block::of(Kind::Info, "{}".to_owned()),
        ..Called::default()
    };
    responder.send(Ok(called)).expect("it waits");
    assert_eq!(rig.answer(call)["result"]["n"], 2);
    rig.end();
}

#[test]
fn a_call_that_panics_is_answered() {
    let mut rig = Rig::start();
    let (id, _out) = rig.session();
    let params = json!({ "sessionId": id, "modeId": "m" });
    let call = rig.ask("session/set_mode", params.clone());
    // The engine panics without a responder.
    assert!(matches!(rig.event(), Event::Call(..)));
    let error = &rig.answer(call)["error"];
    assert_eq!(error["code"], -32603, "{error}");
    let again = rig.ask("session/set_mode", params);
    let Event::Call(_, responder) = rig.event() else {
        panic!("it is called");
    };
    let called = Called {
        result: "{}".to_owned(),
        ..Called::default()
    };
    responder.send(Ok(called)).expect("it waits");
    assert!(rig.answer(again).get("result").is_some());
    rig.end();
}

#[test]
fn close_during_attach() {
    let mut rig = Rig::start();
    let (id, _out) = rig.session();
    let prompt = rig.ask("session/prompt", json!({ "sessionId": id, "prompt": [] }));
    let Event::Prompt(ended) = rig.event() else {
        panic!("it is prompted");
    };
    let load = rig.ask_for("session/load", &id);
    let (_, responder) = rig.attach(AttachReason::Again);
    let close = rig.ask("session/close", json!({ "sessionId": id }));
    let refused = loop {
        let message = rig.next();
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(load), &json!(-32800))
    );
    assert!(responder.is_closed());
    let result = PromptEnd::With(r#"{"stopReason":"cancelled","x":1}"#.to_owned());
    ended.send(Ok(result)).expect("it waits");
    let answer = rig.answer(prompt);
    assert_eq!(
        answer["result"],
        json!({ "stopReason": "cancelled", "x": 1 })
    );
    assert!(rig.answer(close).get("result").is_some());
    rig.parted(CloseReason::Closed);
    rig.end();
}
