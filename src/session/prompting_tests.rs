//! Turns of a client that is told of them by updates.

use super::*;
use crate::engine::{Attached, Cancel};
use crate::session::machine::tests::{effects, end_turn, failed, prompt, update, wanted};
use crate::session::request::Asking;
use tokio::sync::oneshot;

/// A session of such a client that is open, with nothing going on.
fn opened() -> Machine<&'static str> {
    let mut machine = Machine::new(Dialect::Told);
    effects!(machine, request(Request::New("new", wanted())));
    let made = effects!(machine, attached(Ok(Attached::default())));
    assert_eq!(
        made,
        "create, answer new: Created(None), snapshots [], announce"
    );
    machine
}

const TAKEN: &str =
    r#"claim, reopened, append prompt, answer p: Taken("m"), echo m, tell Running, begin"#;
const ENDED: &str = r#"append end and sync, tell Idle(Some("{\"stopReason\":\"end_turn\"}"))"#;
const CANCELLED: &str = r#"append end and sync, tell Idle(Some("{\"stopReason\":\"cancelled\"}"))"#;

/// What becomes of the prompt of another reply.
fn taken(reply: &str) -> String {
    TAKEN.replace("answer p", &format!("answer {reply}"))
}

fn withdrawing() -> Request<&'static str> {
    Request::Cancel { withdraw: true }
}

#[test]
fn a_prompt_is_answered_when_it_is_logged_and_its_end_is_told() {
    let mut machine = opened();
    assert_eq!(effects!(machine, request(prompt("p"))), TAKEN);
    assert_eq!(effects!(machine, said(update("{}"))), "append update, send");
    assert_eq!(effects!(machine, finished(Ok(end_turn()))), ENDED);
    effects!(machine, request(prompt("p")));
    let error = EngineError::internal("no luck");
    let end = r#"append end and sync, tell Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no luck\"}}"))"#;
    assert_eq!(effects!(machine, finished(Err(error))), end);
}

#[test]
fn prompts_that_come_in_a_turn_are_held_and_served_in_order() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    for reply in ["q", "r"] {
        assert_eq!(effects!(machine, request(prompt(reply))), "");
    }
    assert!(!machine.waits(), "nobody else has to wait for them");
    for reply in ["q", "r"] {
        let next = effects!(machine, finished(Ok(end_turn())));
        assert_eq!(next, format!("{ENDED}, {}", taken(reply)));
    }
    assert_eq!(effects!(machine, finished(Ok(end_turn()))), ENDED);
}

#[test]
fn no_more_is_held_than_memory_is_for() {
    let mut machine = opened();
    effects!(machine, request(prompt("a")));
    let large = |reply: &'static str| Request::Prompt {
        reply,
        message_id: reply.to_owned(),
        params: "x".repeat(40 * 1024 * 1024),
    };
    assert_eq!(effects!(machine, request(large("b"))), "");
    let told = effects!(machine, request(large("c")));
    assert!(told.starts_with("refuse c"), "{told}");
    assert_eq!(effects!(machine, request(prompt("d"))), "");
}

#[test]
fn a_prompt_that_cannot_be_logged_is_refused_and_the_next_one_is_tried() {
    let mut machine = opened();
    let batch = machine.request(prompt("p"));
    // Which is answered with the failure by whoever performs the batch.
    assert!(matches!(batch[3], Effect::Answer("p", Ok(Done::Taken(_)))));
    assert_eq!(effects!(machine, failed(failed())), "");
    assert_eq!(effects!(machine, request(prompt("q"))), taken("q"));
}

#[test]
fn a_cancel_takes_back_what_is_not_in_the_log() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(prompt("q")));
    let cancelled = effects!(machine, request(withdrawing()));
    assert_eq!(
        cancelled,
        "refuse q: the request was cancelled, cancel, withdraw"
    );
    assert_eq!(effects!(machine, request(withdrawing())), "");
    assert_eq!(effects!(machine, finished(Ok(end_turn()))), CANCELLED);
    // What waits for a replay, too.
    effects!(machine, request(Request::Load("l", wanted())));
    effects!(machine, request(prompt("r")));
    let cancelled = effects!(machine, request(withdrawing()));
    assert_eq!(cancelled, "refuse r: the request was cancelled");
}

#[test]
fn one_prompt_can_be_taken_back_while_it_is_held() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    let take_back = || Request::TakeBack("m".to_owned());
    assert_eq!(
        effects!(machine, request(take_back())),
        "",
        "it is in the log"
    );
    effects!(machine, request(prompt("q")));
    let other = Request::TakeBack("x".to_owned());
    assert_eq!(effects!(machine, request(other)), "");
    let taken = effects!(machine, request(take_back()));
    assert_eq!(taken, "refuse q: the request was cancelled");
    assert_eq!(effects!(machine, finished(Ok(end_turn()))), ENDED);
}

#[test]
fn whoever_ends_the_session_takes_held_prompts_back() {
    for (request, end) in [
        (Request::Close("x"), "release Closed, answer x: Closed"),
        (Request::Delete("x"), "trash, answer x: Deleted"),
    ] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, request(prompt("q")));
        let ending = effects!(machine, request(request));
        assert_eq!(
            ending,
            "refuse q: the request was cancelled, cancel, withdraw"
        );
        let late = effects!(machine, request(prompt("late")));
        assert_eq!(late, "refuse late: the request was cancelled");
        let ended = effects!(machine, finished(Ok(end_turn())));
        assert_eq!(ended, format!("{CANCELLED}, {end}"));
        assert!(machine.is_over());
    }
}

#[test]
fn whoever_resumes_is_told_what_the_session_is_doing() {
    let ready = || Ok(Attached::default());
    let mut machine = opened();
    effects!(machine, request(Request::Resume("r", wanted())));
    let resumed = |phase| format!("announce, snapshots [], tell {phase}, answer r: Resumed(None)");
    assert_eq!(effects!(machine, attached(ready())), resumed("Idle(None)"));
    effects!(machine, request(prompt("p")));
    effects!(machine, request(Request::Resume("r", wanted())));
    assert_eq!(effects!(machine, attached(ready())), resumed("Running"));
    effects!(machine, request(Request::Load("l", wanted())));
    effects!(machine, replayed(Ok(()), true));
    assert_eq!(
        effects!(machine, attached(ready())),
        "catch up [], announce, tell Running, answer l: Loaded(None)"
    );
}

#[test]
fn a_turn_that_ends_during_a_replay_is_told_of_behind_it_and_then_the_next_one_begins() {
    for well in [true, false] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, request(prompt("q")));
        effects!(machine, request(Request::Load("l", wanted())));
        let ended = effects!(machine, finished(Ok(end_turn())));
        assert_eq!(ended, "append end and sync");
        let idle = &ENDED["append end and sync, ".len()..];
        let next = taken("q");
        if well {
            effects!(machine, replayed(Ok(()), true));
            assert_eq!(
                effects!(machine, attached(Ok(Attached::default()))),
                format!("catch up [], announce, {idle}, answer l: Loaded(None), {next}")
            );
        } else {
            assert_eq!(
                effects!(machine, replayed(Err(Refusal::Cancelled), true)),
                format!("refuse l: the request was cancelled, send held, {idle}, {next}")
            );
        }
    }
}

#[test]
fn an_end_that_cannot_be_logged_is_told_of_as_a_failure() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    machine.finished(Ok(end_turn()));
    let told = r#"tell Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no space\"}}"))"#;
    assert_eq!(effects!(machine, failed(failed())), told);
    effects!(machine, request(prompt("p")));
    machine.said(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "cancel");
    assert_eq!(
        effects!(machine, finished(Ok(end_turn()))),
        format!("mend, {told}")
    );
}

#[test]
fn a_replay_begins_with_a_message_that_must_be_there() {
    let mut machine = Machine::new(Dialect::Told);
    let from = || Request::LoadFrom {
        reply: "l",
        wanted: wanted(),
        message: "x".to_owned(),
    };
    let begun = effects!(machine, request(from()));
    assert_eq!(begun, "open, mend, seek x, replay");
    effects!(machine, replayed(Ok(()), true));
    effects!(machine, attached(Ok(Attached::default())));
    effects!(machine, request(from()));
    assert_eq!(
        effects!(machine, replayed(Err(Refusal::NoSuchMessage), true)),
        "refuse l: there is no such message in the session, send held, tell Idle(None)"
    );
    assert!(!machine.is_over(), "it stays open");
    let mut machine = Machine::new(Dialect::Told);
    effects!(machine, request(from()));
    assert_eq!(
        effects!(machine, replayed(Err(Refusal::NoSuchMessage), true)),
        "release Closed, refuse l: there is no such message in the session"
    );
    assert!(machine.is_over());
}

#[test]
fn a_question_to_the_user_is_told_of_while_it_is_open() {
    let asking = |id: &str, logged| Asking {
        id: id.to_owned(),
        method: "m".to_owned(),
        params: "{}".to_owned(),
        logged,
        cancel: Cancel::new().1,
        reply: oneshot::channel().0,
    };
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    // Nobody waits for the answer of the second, so that one is kept.
    let (reply, _kept) = oneshot::channel();
    let first = Asking {
        reply,
        ..asking("a", true)
    };
    assert_eq!(
        effects!(machine, ask(first)),
        "append ask, ask a, tell RequiresAction"
    );
    let (reply, _kept_too) = oneshot::channel();
    let second = Asking {
        reply,
        ..asking("b", true)
    };
    assert_eq!(effects!(machine, ask(second)), "append ask, ask b");
    let answered = |id| asking(id, true).answered(Ok("yes".to_owned()));
    assert_eq!(
        effects!(machine, answered(answered("a"))),
        "append answer, deliver Ok(\"yes\")"
    );
    assert_eq!(
        effects!(machine, answered(answered("b"))),
        "append answer, tell Running, deliver Ok(\"yes\")"
    );
}
