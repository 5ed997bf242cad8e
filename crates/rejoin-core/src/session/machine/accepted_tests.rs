//! Prompts that are answered when they are logged, and the updates about their turns.

use super::*;
use crate::engine::AttachOutcome;
use crate::engine::EngineError;
use crate::session::machine::tests::{
    config, effects_and_states as effects, end_turn, failed, opened, update,
};
use crate::session::request::ClientRequest;

/// Such a prompt.
fn prompt(reply: &'static str) -> Request<&'static str> {
    Request::Prompt {
        reply,
        due: AnswerDue::Logged,
        message_id: "m".to_owned(),
        params: "{}".to_owned(),
    }
}

const TAKEN: &str = r#"claim, workspace, append prompt, answer p: Accepted("m"), user message m, state Running, begin"#;
const ENDED: &str = r#"append end and sync, state Idle(Some("{\"stopReason\":\"end_turn\"}"))"#;
const CANCELLED: &str =
    r#"append end and sync, state Idle(Some("{\"stopReason\":\"cancelled\"}"))"#;

/// The effects for the prompt of another reply.
fn taken(reply: &str) -> String {
    TAKEN.replace("answer p", &format!("answer {reply}"))
}

fn withdrawing() -> Request<&'static str> {
    Request::Cancel { withdraw: true }
}

#[test]
fn a_prompt_is_answered_when_it_is_logged_and_its_end_is_an_update() {
    let mut machine = opened();
    assert_eq!(effects!(machine, request(prompt("p"))), TAKEN);
    let sent = effects!(machine, update(update("{}")));
    assert_eq!(sent, "append update, send");
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), ENDED);
    effects!(machine, request(prompt("p")));
    let error = EngineError::internal("no luck");
    let end = r#"append end and sync, state Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no luck\",\"data\":{\"error\":\"internal_error\",\"code\":\"internal_error\",\"details\":\"no luck\"}}}"))"#;
    assert_eq!(effects!(machine, finished("m", Err(error))), end);
}

#[test]
fn prompts_that_come_in_a_turn_are_held_and_served_in_order() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    for reply in ["q", "r"] {
        assert_eq!(effects!(machine, request(prompt(reply))), "");
    }
    assert!(
        !machine.has_waiting_requests(),
        "no other request waits for them"
    );
    for reply in ["q", "r"] {
        let next = effects!(machine, finished("m", Ok(end_turn())));
        assert_eq!(next, format!("{ENDED}, {}", taken(reply)));
    }
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), ENDED);
}

#[test]
fn the_bytes_of_held_prompts_are_bounded() {
    let mut machine = opened();
    effects!(machine, request(prompt("a")));
    let large = |reply: &'static str| Request::Prompt {
        reply,
        due: AnswerDue::Logged,
        message_id: reply.to_owned(),
        params: "x".repeat(40 * 1024 * 1024),
    };
    assert_eq!(effects!(machine, request(large("b"))), "");
    let refused = effects!(machine, request(large("c")));
    assert!(refused.starts_with("refuse c"), "{refused}");
    assert_eq!(effects!(machine, request(prompt("d"))), "");
}

#[test]
fn a_prompt_that_cannot_be_logged_is_refused_and_the_next_one_is_tried() {
    let mut machine = opened();
    let batch = machine.request(prompt("p"));
    // The task answers it with the failure.
    assert!(matches!(
        batch[3],
        Effect::Answer("p", Ok(Done::Accepted(_)))
    ));
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
        "refuse q: the request was cancelled, cancel turns, withdraw"
    );
    assert_eq!(effects!(machine, request(withdrawing())), "");
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), CANCELLED);
    // What waits for a replay, too.
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, request(prompt("r")));
    let cancelled = effects!(machine, request(withdrawing()));
    assert_eq!(cancelled, "refuse r: the request was cancelled");
}

#[test]
fn one_prompt_can_be_withdrawn_while_it_is_held() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    let withdraw_prompts = || Request::WithdrawPrompt("m".to_owned());
    assert_eq!(
        effects!(machine, request(withdraw_prompts())),
        "",
        "it is in the log"
    );
    effects!(machine, request(prompt("q")));
    let other = Request::WithdrawPrompt("x".to_owned());
    assert_eq!(effects!(machine, request(other)), "");
    let taken = effects!(machine, request(withdraw_prompts()));
    assert_eq!(taken, "refuse q: the request was cancelled");
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), ENDED);
}

#[test]
fn closing_the_session_withdraws_held_prompts() {
    for (request, end) in [
        (Request::Close("x"), "release Closed, answer x: Closed"),
        (Request::Delete("x"), "release Deleted, answer x: Deleted"),
    ] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, request(prompt("q")));
        let ending = effects!(machine, request(request));
        assert_eq!(
            ending,
            "refuse q: the request was cancelled, cancel turns, withdraw"
        );
        let late = effects!(machine, request(prompt("late")));
        assert_eq!(late, "refuse late: the request was cancelled");
        let ended = effects!(machine, finished("m", Ok(end_turn())));
        assert_eq!(ended, format!("{CANCELLED}, {end}"));
        assert!(machine.is_over());
    }
}

#[test]
fn a_resume_reports_what_the_session_is_doing() {
    let ready = || Ok(AttachOutcome::default());
    let mut machine = opened();
    effects!(machine, request(Request::Resume("r", config())));
    let resumed = |phase| format!("commands, snapshots [], state {phase}, answer r: Resumed(None)");
    assert_eq!(effects!(machine, attached(ready())), resumed("Idle(None)"));
    effects!(machine, request(prompt("p")));
    effects!(machine, request(Request::Resume("r", config())));
    assert_eq!(effects!(machine, attached(ready())), resumed("Running"));
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    assert_eq!(
        effects!(machine, attached(ready())),
        "catch up [], commands, state Running, answer l: Loaded(None)"
    );
}

#[test]
fn a_turn_that_ends_during_a_replay_is_reported_after_it_and_then_the_next_one_begins() {
    for well in [true, false] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, request(prompt("q")));
        effects!(machine, request(Request::Load("l", config())));
        // The front keeps the state in which the turn has ended until the load is over.
        assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), ENDED);
        let idle = "state Idle(None)";
        let next = taken("q");
        if well {
            effects!(machine, replayed(Ok(()), true));
            assert_eq!(
                effects!(machine, attached(Ok(AttachOutcome::default()))),
                format!("catch up [], commands, {idle}, answer l: Loaded(None), {next}")
            );
        } else {
            assert_eq!(
                effects!(machine, replayed(Err(Refusal::Cancelled), true)),
                format!("refuse l: the request was cancelled, abandon replay, {idle}, {next}")
            );
        }
    }
}

#[test]
fn an_end_that_cannot_be_logged_is_reported_as_a_failure() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    machine.finished("m", Ok(end_turn()));
    let reported = r#"state Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no space\",\"data\":{\"error\":\"storage_failed\",\"code\":\"storage_failed\",\"details\":\"no space\"}}}"))"#;
    assert_eq!(effects!(machine, failed(failed())), reported);
    effects!(machine, request(prompt("p")));
    machine.update(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "end failed turns");
    assert_eq!(
        effects!(machine, finished("m", Ok(end_turn()))),
        format!("recover, {reported}")
    );
}

#[test]
fn a_turn_that_was_cancelled_is_reported_as_that_if_the_store_does_not_answer() {
    let gone = || Refusal::Unreachable("gone".to_owned());
    let cancelled = r#"state Idle(Some("{\"stopReason\":\"cancelled\"}"))"#;
    let begun = || {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        machine
    };
    let cancel = || Request::Cancel { withdraw: false };
    // Its end is not logged.
    let mut machine = begun();
    effects!(machine, request(cancel()));
    machine.finished("m", Ok(end_turn()));
    assert_eq!(effects!(machine, failed(gone())), cancelled);
    // Meanwhile it is cancelled.
    let mut machine = begun();
    machine.finished("m", Ok(end_turn()));
    machine.end_meanwhile();
    assert_eq!(effects!(machine, failed(gone())), cancelled);
    // An update was not logged.
    let mut machine = begun();
    machine.update(update(r#"{"sessionUpdate":"plan"}"#));
    assert_eq!(effects!(machine, failed(gone())), "end failed turns");
    effects!(machine, request(cancel()));
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), cancelled);
}

#[test]
fn a_replay_begins_with_a_message_that_must_be_there() {
    let mut machine = Machine::new(false);
    let from = || Request::LoadFrom {
        reply: "l",
        config: config(),
        message: "x".to_owned(),
    };
    let begun = effects!(machine, request(from()));
    assert_eq!(begun, "open, replay from x");
    effects!(machine, replayed(Ok(()), true));
    effects!(machine, attached(Ok(AttachOutcome::default())));
    effects!(machine, request(from()));
    assert_eq!(
        effects!(machine, replayed(Err(Refusal::ReplayStartNotFound), true)),
        "refuse l: the session has no message with that id, abandon replay, state Idle(None)"
    );
    assert!(!machine.is_over(), "it stays open");
    let mut machine = Machine::new(false);
    effects!(machine, request(from()));
    assert_eq!(
        effects!(machine, replayed(Err(Refusal::ReplayStartNotFound), true)),
        "release Closed, refuse l: the session has no message with that id"
    );
    assert!(machine.is_over());
}

#[test]
fn the_client_is_notified_while_a_request_to_its_user_is_open() {
    let request = |id: &str| ClientRequest {
        of_subagent: false,
        id: id.to_owned(),
        method: "m".to_owned(),
        params: "{}".to_owned(),
        logged: true,
        is_native: false,
    };
    let answered = |id| request(id).response(Ok("yes".to_owned()));
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    assert_eq!(
        effects!(machine, ask(request("a"))),
        "append ask, ask a, state RequiresAction"
    );
    assert_eq!(effects!(machine, ask(request("b"))), "append ask, ask b");
    assert_eq!(
        effects!(machine, answered(answered("a"))),
        "append answer, respond a Ok(\"yes\")"
    );
    assert_eq!(
        effects!(machine, answered(answered("b"))),
        "append answer, state Running, respond b Ok(\"yes\")"
    );
}
