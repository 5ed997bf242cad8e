//! Prompts: those of clients that are notified by updates, those that wait, those that overlap.

use super::*;
use crate::engine::Attached;
use crate::session::machine::tests::{config, effects, end_turn, failed, prompt, update};
use crate::session::request::ClientRequest;

/// A session of such a client that is open, with nothing going on.
fn opened() -> Machine<&'static str> {
    let mut machine = Machine::new(ProtocolVersion::V2, false);
    effects!(machine, request(Request::New("new", config())));
    let made = effects!(machine, attached(Ok(Attached::default())));
    assert_eq!(
        made,
        "create, answer new: Created(None), snapshots [], commands"
    );
    machine
}

const TAKEN: &str = r#"claim, workspace, append prompt, answer p: Accepted("m"), user message m, state Running, begin"#;
const ENDED: &str = r#"append end and sync, state Idle(Some("{\"stopReason\":\"end_turn\"}"))"#;
const CANCELLED: &str =
    r#"append end and sync, state Idle(Some("{\"stopReason\":\"cancelled\"}"))"#;

/// What becomes of the prompt of another reply.
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
    let end = r#"append end and sync, state Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no luck\",\"data\":{\"error\":\"internal_error\",\"details\":\"no luck\"}}}"))"#;
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
    // The actor answers it with the failure.
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
    let ready = || Ok(Attached::default());
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
        let ended = effects!(machine, finished("m", Ok(end_turn())));
        assert_eq!(ended, "append end and sync");
        let idle = &ENDED["append end and sync, ".len()..];
        let next = taken("q");
        if well {
            effects!(machine, replayed(Ok(()), true));
            assert_eq!(
                effects!(machine, attached(Ok(Attached::default()))),
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
    let reported = r#"state Idle(Some("{\"error\":{\"code\":-32603,\"message\":\"no space\",\"data\":{\"error\":\"internal_error\",\"details\":\"no space\"}}}"))"#;
    assert_eq!(effects!(machine, failed(failed())), reported);
    effects!(machine, request(prompt("p")));
    machine.update(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "cancel turns");
    assert_eq!(
        effects!(machine, finished("m", Ok(end_turn()))),
        format!("recover, {reported}")
    );
}

#[test]
fn a_replay_begins_with_a_message_that_must_be_there() {
    let mut machine = Machine::new(ProtocolVersion::V2, false);
    let from = || Request::LoadFrom {
        reply: "l",
        config: config(),
        message: "x".to_owned(),
    };
    let begun = effects!(machine, request(from()));
    assert_eq!(begun, "open, replay from x");
    effects!(machine, replayed(Ok(()), true));
    effects!(machine, attached(Ok(Attached::default())));
    effects!(machine, request(from()));
    assert_eq!(
        effects!(machine, replayed(Err(Refusal::ReplayStartNotFound), true)),
        "refuse l: the session has no message with that id, abandon replay, state Idle(None)"
    );
    assert!(!machine.is_over(), "it stays open");
    let mut machine = Machine::new(ProtocolVersion::V2, false);
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
        id: id.to_owned(),
        method: "m".to_owned(),
        params: "{}".to_owned(),
        logged: true,
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

/// A prompt with an id of its own.
fn named(reply: &'static str) -> Request<&'static str> {
    Request::Prompt {
        reply,
        message_id: reply.to_owned(),
        params: "{}".to_owned(),
    }
}

fn cancel() -> Request<&'static str> {
    Request::Cancel { withdraw: false }
}

const BEGUN: &str = "claim, workspace, append prompt, begin";

#[test]
fn a_prompt_after_a_cancellation_is_held_until_the_cancelled_turn_has_ended() {
    let mut machine = crate::session::machine::tests::opened();
    effects!(machine, request(named("a")));
    let refused = "refuse early: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(named("early"))), refused);
    assert_eq!(effects!(machine, request(cancel())), "cancel turns");
    assert_eq!(effects!(machine, request(named("b"))), "");
    assert!(!machine.is_over());
    // It is the active one from now on.
    let second = "refuse c: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(named("c"))), second);
    let ended = "append end and sync, answer a: Stopped(Cancelled)";
    assert_eq!(
        effects!(machine, finished("a", Ok(end_turn()))),
        format!("{ended}, {BEGUN}")
    );
    assert_eq!(
        effects!(machine, finished("b", Ok(end_turn()))),
        "append end and sync, answer b: Stopped(EndTurn)"
    );
}

#[test]
fn a_held_prompt_begins_before_later_requests() {
    let mut machine = crate::session::machine::tests::opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    effects!(machine, request(named("b")));
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, request(Request::Load("m", config())));
    effects!(machine, finished("a", Ok(end_turn())));
    effects!(machine, replayed(Ok(()), true));
    let loaded = effects!(machine, attached(Ok(Attached::default())));
    let answered = "answer l: Loaded(None), answer a: Stopped(Cancelled)";
    assert_eq!(
        loaded,
        format!("catch up [], commands, {answered}, {BEGUN}, open, replay")
    );
}

#[test]
fn a_held_prompt_that_is_cancelled_is_logged_and_never_begins() {
    let skipped = "claim, workspace, append prompt, skip b, append end and sync, \
                   answer b: Stopped(Cancelled)";
    for (request, then) in [
        (named("c"), format!("{skipped}, {BEGUN}")),
        (
            Request::Close("c"),
            format!("{skipped}, release Closed, answer c: Closed"),
        ),
    ] {
        let mut machine = crate::session::machine::tests::opened();
        effects!(machine, request(named("a")));
        effects!(machine, request(cancel()));
        assert_eq!(effects!(machine, request(named("b"))), "");
        assert_eq!(effects!(machine, request(cancel())), "");
        effects!(machine, request(request));
        let ended = "append end and sync, answer a: Stopped(Cancelled)";
        assert_eq!(
            effects!(machine, finished("a", Ok(end_turn()))),
            format!("{ended}, {then}")
        );
    }
}

#[test]
fn a_held_prompt_whose_request_is_cancelled_is_withdrawn() {
    let mut machine = crate::session::machine::tests::opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    effects!(machine, request(named("b")));
    let withdrawn = effects!(machine, request(Request::WithdrawPrompt("b".to_owned())));
    assert_eq!(withdrawn, "refuse b: the request was cancelled");
    assert_eq!(effects!(machine, request(named("c"))), "");
    let large = Request::Prompt {
        reply: "d",
        message_id: "d".to_owned(),
        params: "x".repeat(HELD),
    };
    effects!(machine, request(cancel()));
    let refused = "refuse d: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(large)), refused);
}

/// A session that is open, of an engine that takes prompts while it answers others.
fn overlapping() -> Machine<&'static str> {
    let mut machine = Machine::new(ProtocolVersion::V1, true);
    effects!(machine, request(Request::New("new", config())));
    effects!(machine, attached(Ok(Attached::default())));
    machine
}

#[test]
fn an_engine_that_takes_them_gets_prompts_at_once_and_each_has_its_own_end() {
    let mut machine = overlapping();
    assert_eq!(effects!(machine, request(named("a"))), BEGUN);
    for reply in ["b", "c"] {
        // The log is claimed, and recovery would close the turn that runs.
        let begun = effects!(machine, request(named(reply)));
        assert_eq!(begun, "workspace, append prompt, begin");
    }
    let ended = effects!(machine, finished("b", Ok(end_turn())));
    assert_eq!(ended, "append end b and sync, answer b: Stopped(EndTurn)");
    let ended = effects!(
        machine,
        finished("a", Err(EngineError::internal("no luck")))
    );
    assert_eq!(ended, "append end a and sync, refuse a: no luck");
    let ended = effects!(machine, finished("c", Ok(end_turn())));
    assert_eq!(ended, "append end c and sync, answer c: Stopped(EndTurn)");
    effects!(machine, request(named("d")));
    let ended = effects!(machine, finished("d", Ok(end_turn())));
    assert_eq!(ended, "append end and sync, answer d: Stopped(EndTurn)");
}

#[test]
fn tool_calls_stay_open_until_the_last_turn_that_may_have_them_ends() {
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","status":"pending"}"#;
    for well in [true, false] {
        let mut machine = overlapping();
        effects!(machine, request(named("a")));
        effects!(machine, request(named("b")));
        effects!(machine, update(update(call)));
        let result = if well {
            Ok(end_turn())
        } else {
            Err(EngineError::internal("no luck"))
        };
        let ended = effects!(machine, finished("a", result));
        assert!(ended.starts_with("append end a and sync"), "{ended}");
        let closed = if well { "" } else { "append update, send, " };
        assert_eq!(
            effects!(machine, finished("b", Ok(end_turn()))),
            format!("{closed}append end b and sync, answer b: Stopped(EndTurn)")
        );
    }
}

#[test]
fn a_cancellation_is_about_all_turns_and_later_prompts_wait_for_them() {
    let mut machine = overlapping();
    effects!(machine, request(named("a")));
    effects!(machine, request(named("b")));
    assert_eq!(effects!(machine, request(cancel())), "cancel turns");
    for reply in ["c", "d"] {
        assert_eq!(effects!(machine, request(named(reply))), "");
    }
    let ended = effects!(machine, finished("b", Ok(end_turn())));
    assert_eq!(ended, "append end b and sync, answer b: Stopped(Cancelled)");
    let ended = effects!(machine, finished("a", Ok(end_turn())));
    let both = format!("{BEGUN}, workspace, append prompt, begin");
    assert_eq!(
        ended,
        format!("append end a and sync, answer a: Stopped(Cancelled), {both}")
    );
    // The request of one of them is cancelled: the engine decides what becomes of it.
    let one = effects!(machine, request(Request::WithdrawPrompt("c".to_owned())));
    assert_eq!(one, "cancel turn c");
    let ended = effects!(machine, finished("c", Ok(end_turn())));
    assert_eq!(ended, "append end c and sync, answer c: Stopped(EndTurn)");
    let last = effects!(machine, request(Request::WithdrawPrompt("d".to_owned())));
    assert_eq!(last, "cancel turns, withdraw");
}

fn numbered(number: usize) -> Request<&'static str> {
    Request::Prompt {
        reply: "p",
        message_id: number.to_string(),
        params: "{}".to_owned(),
    }
}

#[test]
fn held_prompts_beyond_the_bound_of_overlapping_turns_wait() {
    let mut machine = overlapping();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    for number in 0..=OVERLAPPING {
        assert_eq!(effects!(machine, request(numbered(number))), "");
    }
    let begun = effects!(machine, finished("a", Ok(end_turn())));
    assert_eq!(begun.matches("append prompt").count(), OVERLAPPING);
    let begun = effects!(machine, finished("0", Ok(end_turn())));
    assert!(begun.ends_with("append prompt, begin"), "{begun}");
}

#[test]
fn a_log_that_cannot_be_written_ends_all_turns_and_is_recovered_after_the_last() {
    for overlapped in [true, false] {
        let mut machine = overlapping();
        effects!(machine, request(named("a")));
        effects!(machine, request(named("b")));
        if overlapped {
            machine.request(named("c"));
            let stopped = effects!(machine, failed(failed()));
            assert_eq!(stopped, "refuse c: no space, cancel turns");
        } else {
            machine.update(update("{}"));
            assert_eq!(effects!(machine, failed(failed())), "cancel turns");
        }
        assert_eq!(effects!(machine, request(named("d"))), "", "it waits");
        let ended = effects!(machine, finished("a", Ok(end_turn())));
        assert_eq!(ended, "refuse a: no space");
        let ended = effects!(machine, finished("b", Ok(end_turn())));
        assert_eq!(ended, format!("recover, refuse b: no space, {BEGUN}"));
    }
}

#[test]
fn there_is_a_bound_to_prompts_that_overlap() {
    let mut machine = overlapping();
    for number in 0..OVERLAPPING {
        let begun = effects!(machine, request(numbered(number)));
        assert!(begun.ends_with("begin"), "{begun}");
    }
    let refused = effects!(machine, request(numbered(OVERLAPPING)));
    let reason = "there is already an active prompt execution";
    assert_eq!(refused, format!("refuse p: {reason}"));
}
