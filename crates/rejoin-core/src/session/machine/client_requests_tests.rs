//! Requests that pass through a session, in both directions.

use super::*;
use crate::engine::Block;
use crate::session::Request;
use crate::session::machine::tests::{config, effects, end_turn, failed, opened, prompt, update};

fn asking(id: &str, logged: bool) -> ClientRequest {
    ClientRequest {
        of_subagent: false,
        id: id.to_owned(),
        method: "m\"".to_owned(),
        params: r#"{"n":1e400}"#.to_owned(),
        logged,
        is_native: false,
    }
}

fn answer(id: &str, logged: bool) -> ClientResponse {
    asking(id, logged).response(Ok("yes".to_owned()))
}

fn call(reply: &'static str) -> Request<&'static str> {
    Request::Call {
        reply,
        method: "m".to_owned(),
        params: "{}".to_owned(),
    }
}

fn served(info: Option<&str>) -> Called {
    Called {
        result: "{}".to_owned(),
        info: Block::of_all(Kind::Info, info.map(str::to_owned)),
        ..Called::default()
    }
}

/// The records that a batch appends.
fn appended<'a>(batch: &'a Batch<&'static str>) -> Vec<(Kind, Option<&'a str>, &'a str)> {
    let blocks = batch.iter().filter_map(|effect| match effect {
        Effect::Append(block, _) => Some(block.iter()),
        _ => None,
    });
    let entries = blocks.flatten();
    entries
        .map(|entry| (entry.kind, entry.id, entry.payload))
        .collect()
}

#[test]
fn a_request_and_its_response_are_logged_before_they_are_passed_on() {
    for (outcome, payload) in [
        (Ok("{\"a\":1}".to_owned()), r#"{"result":{"a":1}}"#),
        (Err("{\"code\":1}".to_owned()), r#"{"error":{"code":1}}"#),
    ] {
        let mut machine = opened();
        let batch = machine.ask(asking("q", true));
        assert_eq!(
            appended(&batch),
            [(
                Kind::Ask,
                Some("q"),
                r#"{"method":"m\"","params":{"n":1e400}}"#
            )]
        );
        let [_, Effect::Ask(_)] = &batch[..] else {
            panic!("{batch:?}");
        };
        machine.advance();
        let batch = machine.answered(asking("q", true).response(outcome));
        assert_eq!(appended(&batch), [(Kind::Answer, Some("q"), payload)]);
        let [_, Effect::Respond(..)] = &batch[..] else {
            panic!("{batch:?}");
        };
    }
}

#[test]
fn requests_outside_of_the_conversation_are_not_logged() {
    let mut machine = opened();
    assert_eq!(effects!(machine, ask(asking("q", false))), "ask q");
    assert_eq!(
        effects!(machine, answered(answer("q", false))),
        "respond q Ok(\"yes\")"
    );
}

#[test]
fn a_request_of_a_session_that_could_not_be_opened_is_not_sent() {
    let mut machine = Machine::default();
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    let refused = effects!(machine, attached(Err(failed())));
    assert_eq!(refused, "release Closed, refuse l: no space");
    assert_eq!(effects!(machine, ask(asking("q", true))), "drop q");
    // A late response is passed on in any case.
    assert_eq!(
        effects!(machine, answered(answer("r", true))),
        "respond r Ok(\"yes\")"
    );
}

#[test]
fn what_cannot_be_logged_is_not_asked_and_ends_the_turn() {
    for is_answer in [false, true] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        if is_answer {
            machine.answered(answer("q", true));
        } else {
            machine.ask(asking("q", true));
        }
        assert_eq!(effects!(machine, failed(failed())), "end failed turns");
        // Nothing more is done in this turn.
        for logged in [true, false] {
            assert_eq!(effects!(machine, ask(asking("r", logged))), "drop r");
        }
        assert_eq!(effects!(machine, answered(answer("s", true))), "drop s");
        assert_eq!(effects!(machine, update(update("{}"))), "");
        let ended = effects!(machine, finished("m", Ok(end_turn())));
        assert_eq!(ended, "recover, refuse p: no space");
        assert_eq!(
            effects!(machine, ask(asking("s", true))),
            "append ask, ask s"
        );
    }
}

#[test]
fn a_failed_write_between_two_turns_is_recovered_at_once() {
    let mut machine = opened();
    machine.update(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "recover");
    assert_eq!(
        effects!(machine, update(update("{}"))),
        "append update, send"
    );
}

#[test]
fn a_call_is_served_and_what_it_changed_is_logged_first() {
    let mut machine = opened();
    for (result, expected) in [
        (Ok(served(None)), "answer c: Served(\"{}\")"),
        (
            Ok(served(Some("{}"))),
            "append info, answer c: Served(\"{}\")",
        ),
        (Err(EngineError::internal("no")), "refuse c: no"),
    ] {
        assert_eq!(effects!(machine, request(call("c"))), "call m for c");
        assert_eq!(effects!(machine, called("c", result)), expected);
    }
}

#[test]
fn what_a_call_changed_is_logged_and_then_sent_before_its_answer() {
    let changed = || Called {
        updates: Block::of(Kind::Info, "u".to_owned()),
        ..served(Some("{}"))
    };
    let mut machine = opened();
    effects!(machine, request(call("c")));
    assert_eq!(
        effects!(machine, called("c", Ok(changed()))),
        "append info, append info, send, answer c: Served(\"{}\")"
    );
    // The front leaves it to a replay that is under way.
    effects!(machine, request(call("d")));
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(
        effects!(machine, called("d", Ok(changed()))),
        "append info, append info, send, answer d: Served(\"{}\")"
    );
}

#[test]
fn a_call_that_changed_what_cannot_be_logged_has_failed() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(call("c")));
    machine.called("c", Ok(served(Some("{}"))));
    // The task refuses the call by itself, since its answer was in the batch.
    assert_eq!(effects!(machine, failed(failed())), "end failed turns");
    effects!(machine, request(call("d")));
    let refused = effects!(machine, called("d", Ok(served(Some("{}")))));
    assert_eq!(refused, "refuse d: no space");
    effects!(machine, request(call("e")));
    let answered = effects!(machine, called("e", Ok(served(None))));
    assert_eq!(answered, "answer e: Served(\"{}\")");
}

#[test]
fn a_session_that_is_closed_is_not_over_before_its_calls_are_answered() {
    let mut machine = opened();
    effects!(machine, request(call("c")));
    let closed = effects!(machine, request(Request::Close("x")));
    assert_eq!(closed, "release Closed, answer x: Closed");
    assert!(!machine.is_over());
    // What it changed is for the log of a session that is open.
    let answered = effects!(machine, called("c", Ok(served(Some("{}")))));
    assert_eq!(answered, "answer c: Served(\"{}\")");
    assert!(machine.is_over());
}

#[test]
fn a_session_that_is_not_open_serves_no_requests() {
    let mut machine = opened();
    effects!(machine, request(Request::Close("x")));
    assert_eq!(
        effects!(machine, request(call("c"))),
        "check, refuse c: the session is not open: load or resume it first"
    );
    let notify = Request::Notify {
        method: "n".to_owned(),
        params: "{}".to_owned(),
    };
    assert_eq!(effects!(machine, request(notify)), "");
    assert_eq!(effects!(machine, ask(asking("q", false))), "drop q");
    assert_eq!(effects!(machine, update(update("{}"))), "");
    assert!(machine.is_over());
}

#[test]
fn a_session_that_is_being_read_takes_no_records() {
    let mut machine = opened();
    effects!(machine, request(call("c")));
    effects!(machine, request(Request::Close("x")));
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(
        effects!(machine, answered(answer("q", true))),
        "respond q Ok(\"yes\")"
    );
    let called = effects!(machine, called("c", Ok(served(Some("{}")))));
    assert_eq!(called, "answer c: Served(\"{}\")");
}

#[test]
fn open_requests_are_answered_for_a_client_that_ends_the_turn() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, ask(asking("q", true)));
    // By the protocol, the client answers itself after that.
    let cancel = |withdraw| Request::Cancel { withdraw };
    assert_eq!(effects!(machine, request(cancel(false))), "cancel turns");
    assert_eq!(effects!(machine, request(cancel(true))), "withdraw");
    assert_eq!(effects!(machine, request(cancel(true))), "");
    // Nor does it get later requests.
    let mut late = asking("r", true);
    late.method = "session/request_permission".to_owned();
    let responded =
        r#"append ask, append answer, respond r Ok("{\"outcome\":{\"outcome\":\"cancelled\"}}")"#;
    assert_eq!(effects!(machine, ask(late)), responded);
    assert_eq!(
        effects!(machine, finished("m", Ok(end_turn()))),
        "append end and sync, answer p: Stopped(Cancelled)"
    );
    effects!(machine, request(prompt("next")));
    assert_eq!(effects!(machine, ask(asking("s", false))), "ask s");
    assert_eq!(
        effects!(machine, request(Request::Close("close"))),
        "cancel turns, withdraw"
    );
}

#[test]
fn a_tool_call_is_made_from_the_request_for_permission() {
    let params = r#"{ "toolCall" :{"toolCallId":"a","status":"pending","kind":null,"rawInput":null,"n":1e400},"options":[]}"#;
    let update = r#"{"sessionUpdate":"tool_call","toolCallId":"a","status":"pending","rawInput":null,"n":1e400,"title":"Tool call"}"#;
    assert_eq!(
        requested_call(params),
        Some(("a".to_owned(), update.to_owned()))
    );
    let titled = r#"{"toolCall":{"toolCallId":"b","title":"t"}}"#;
    let update = r#"{"sessionUpdate":"tool_call","toolCallId":"b","title":"t"}"#;
    assert_eq!(
        requested_call(titled),
        Some(("b".to_owned(), update.to_owned()))
    );
    for odd in ["{}", "[]", r#"{"toolCall":{}}"#, r#"{"toolCall":7}"#] {
        assert_eq!(requested_call(odd), None, "{odd}");
    }
}

#[test]
fn a_withdrawn_request_is_answered_for_the_client() {
    let permission = r#"{"outcome":{"outcome":"cancelled"}}"#;
    assert_eq!(
        withdrawn_outcome("session/request_permission"),
        Ok(permission.to_owned())
    );
    let form = r#"{"action":"cancel"}"#;
    assert_eq!(withdrawn_outcome("elicitation/create"), Ok(form.to_owned()));
    let error = r#"{"code":-32800,"message":"the turn was cancelled"}"#;
    assert_eq!(
        withdrawn_outcome("terminal/wait_for_exit"),
        Err(error.to_owned())
    );
}
