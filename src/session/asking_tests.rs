//! Requests that go through a session, in both directions.

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::super::machine::tests::{config, effects, end_turn, failed, opened, prompt, update};
use super::*;
use crate::engine::outlet::{Cancel, Canceller};
use crate::engine::{Attached, Block};
use crate::session::Request;
use crate::transport::Outcome;

/// A question, and the engine's end of it.
struct Asked {
    asking: ClientRequest,
    canceller: Canceller,
    outcome: oneshot::Receiver<Outcome>,
}

fn asking(id: &str, logged: bool) -> Asked {
    let (reply, outcome) = oneshot::channel();
    let (canceller, cancel) = Cancel::new();
    let asking = ClientRequest {
        id: id.to_owned(),
        method: "m\"".to_owned(),
        params: r#"{"n":1e400}"#.to_owned(),
        logged,
        cancel,
        reply,
    };
    Asked {
        asking,
        canceller,
        outcome,
    }
}

fn yes() -> String {
    "yes".to_owned()
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
        info: info.map(str::to_owned),
        ..Called::default()
    }
}

/// What a batch appends.
fn appended<'a>(batch: &'a Batch<&'static str>) -> Vec<(Kind, Option<&'a str>, &'a str)> {
    let appended = batch.iter().filter_map(|effect| match effect {
        Effect::Append {
            kind, id, payload, ..
        } => Some((*kind, id.as_deref(), payload.as_str())),
        _ => None,
    });
    appended.collect()
}

#[test]
fn a_question_and_its_answer_are_in_the_log_before_anybody_acts_on_them() {
    for (outcome, payload) in [
        (Ok("{\"a\":1}".to_owned()), r#"{"result":{"a":1}}"#),
        (Err("{\"code\":1}".to_owned()), r#"{"error":{"code":1}}"#),
    ] {
        let mut machine = opened();
        let asked = asking("q", true);
        let batch = machine.ask(asked.asking);
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
        let asked = asking("q", true);
        let batch = machine.answered(asked.asking.answered(outcome));
        assert_eq!(appended(&batch), [(Kind::Answer, Some("q"), payload)]);
        let [_, Effect::Deliver(_)] = &batch[..] else {
            panic!("{batch:?}");
        };
    }
}

#[test]
fn what_is_no_part_of_the_conversation_is_not_logged() {
    let mut machine = opened();
    let asked = asking("q", false);
    assert_eq!(effects!(machine, ask(asked.asking)), "ask q");
    let answered = asking("q", false).asking.answered(Ok(yes()));
    assert_eq!(effects!(machine, answered(answered)), "deliver Ok(\"yes\")");
}

#[test]
fn a_question_waits_for_the_replay_that_shows_what_it_is_about() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(Request::Load("l", config())));
    let mut kept = Vec::new();
    for (id, logged) in [("s", true), ("t", false), ("u", true)] {
        let asked = asking(id, logged);
        assert_eq!(effects!(machine, ask(asked.asking)), "");
        kept.push((asked.canceller, asked.outcome));
    }
    // The engine thinks better of the last one, and has gone from one more.
    kept[2].0.cancel();
    assert_eq!(effects!(machine, ask(asking("v", true).asking)), "");
    effects!(machine, replayed(Ok(()), true));
    assert_eq!(
        effects!(machine, attached(Ok(Attached::default()))),
        "catch up [], announce, answer l: Loaded(None), append ask, ask s, ask t"
    );
    assert_eq!(kept[2].1.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn questions_of_an_engine_that_was_let_go_of_are_dropped() {
    let mut machine = Machine::default();
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    let mut asked = asking("q", true);
    assert_eq!(effects!(machine, ask(asked.asking)), "");
    let refused = effects!(machine, attached(Err(failed())));
    assert_eq!(refused, "release Closed, refuse l: no space");
    assert_eq!(asked.outcome.try_recv(), Err(TryRecvError::Closed));
    // An answer that comes late is still delivered, to whoever may want it.
    let late = asking("r", true).asking.answered(Ok(yes()));
    assert_eq!(effects!(machine, answered(late)), "deliver Ok(\"yes\")");
}

#[test]
fn what_cannot_be_logged_is_not_asked_and_ends_the_turn() {
    for is_answer in [false, true] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        let asked = asking("q", true);
        if is_answer {
            machine.answered(asked.asking.answered(Ok(yes())));
        } else {
            machine.ask(asked.asking);
        }
        assert_eq!(effects!(machine, failed(failed())), "cancel");
        // Nothing more is done in this turn.
        for logged in [true, false] {
            let mut asked = asking("r", logged);
            assert_eq!(effects!(machine, ask(asked.asking)), "");
            assert_eq!(asked.outcome.try_recv(), Err(TryRecvError::Closed));
        }
        let more = asking("r", true).asking.answered(Ok(yes()));
        assert_eq!(effects!(machine, answered(more)), "");
        assert_eq!(effects!(machine, said(update("{}"))), "");
        let ended = effects!(machine, finished("m", Ok(end_turn())));
        assert_eq!(ended, "mend, refuse p: no space");
        let kept = asking("s", true);
        assert_eq!(effects!(machine, ask(kept.asking)), "append ask, ask s");
    }
}

#[test]
fn what_cannot_be_logged_between_two_turns_is_mended_at_once() {
    let mut machine = opened();
    machine.said(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "mend");
    assert_eq!(effects!(machine, said(update("{}"))), "append update, send");
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
    // A replay that is under way comes to it by itself.
    effects!(machine, request(call("d")));
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(
        effects!(machine, called("d", Ok(changed()))),
        "append info, append info, answer d: Served(\"{}\")"
    );
}

#[test]
fn a_call_that_changed_what_cannot_be_logged_has_failed() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(call("c")));
    machine.called("c", Ok(served(Some("{}"))));
    // The actor refuses the call by itself, since its answer was in the batch.
    assert_eq!(effects!(machine, failed(failed())), "cancel");
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
fn what_is_not_open_serves_nobody() {
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
    let asked = asking("q", false);
    assert_eq!(effects!(machine, ask(asked.asking)), "");
    assert_eq!(effects!(machine, said(update("{}"))), "");
    assert!(machine.is_over());
}

#[test]
fn a_session_that_is_being_read_takes_no_records() {
    let mut machine = opened();
    effects!(machine, request(call("c")));
    effects!(machine, request(Request::Close("x")));
    effects!(machine, request(Request::Load("l", config())));
    let late = asking("q", true).asking.answered(Ok(yes()));
    assert_eq!(effects!(machine, answered(late)), "deliver Ok(\"yes\")");
    let called = effects!(machine, called("c", Ok(served(Some("{}")))));
    assert_eq!(called, "answer c: Served(\"{}\")");
}

#[test]
fn who_ends_a_turn_without_answering_is_answered_for() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, ask(asking("q", true).asking));
    // By the protocol, the client answers by itself after that.
    let cancel = |withdraw| Request::Cancel { withdraw };
    assert_eq!(effects!(machine, request(cancel(false))), "cancel");
    assert_eq!(effects!(machine, request(cancel(true))), "withdraw");
    assert_eq!(effects!(machine, request(cancel(true))), "");
    // Nor is it asked any more.
    let mut late = asking("r", true);
    late.asking.method = "session/request_permission".to_owned();
    let deliver =
        r#"append ask, append answer, deliver Ok("{\"outcome\":{\"outcome\":\"cancelled\"}}")"#;
    assert_eq!(effects!(machine, ask(late.asking)), deliver);
    assert_eq!(
        effects!(machine, finished("m", Ok(end_turn()))),
        "append end and sync, answer p: Stopped(Cancelled)"
    );
    effects!(machine, request(prompt("next")));
    assert_eq!(effects!(machine, ask(asking("s", false).asking)), "ask s");
    assert_eq!(
        effects!(machine, request(Request::Close("close"))),
        "cancel, withdraw"
    );
}
