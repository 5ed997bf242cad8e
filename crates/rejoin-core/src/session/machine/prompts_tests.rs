//! Prompts that are answered at the end of their turns: those that wait, those that overlap.

use super::*;
use crate::engine::{AttachOutcome, EngineError};
use crate::session::machine::tests::{config, effects, end_turn, failed, opened, update};

/// A prompt with an id of its own.
fn named(reply: &'static str) -> Request<&'static str> {
    Request::Prompt {
        reply,
        due: AnswerDue::TurnEnds,
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
    let mut machine = opened();
    effects!(machine, request(named("a")));
    let refused = "refuse early: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(named("early"))), refused);
    assert_eq!(effects!(machine, request(cancel())), "cancel turns");
    assert_eq!(effects!(machine, request(named("b"))), "");
    assert!(!machine.is_over());
    // The held prompt is the active one from now on.
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
    let mut machine = opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    effects!(machine, request(named("b")));
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, request(Request::Load("m", config())));
    effects!(machine, finished("a", Ok(end_turn())));
    effects!(machine, replayed(Ok(()), true));
    let loaded = effects!(machine, attached(Ok(AttachOutcome::default())));
    let answered = "answer l: Loaded(None)";
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
        let mut machine = opened();
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
    let mut machine = opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    effects!(machine, request(named("b")));
    let withdrawn = effects!(machine, request(Request::WithdrawPrompt("b".to_owned())));
    assert_eq!(withdrawn, "refuse b: the request was cancelled");
    assert_eq!(effects!(machine, request(named("c"))), "");
    let large = Request::Prompt {
        reply: "d",
        due: AnswerDue::TurnEnds,
        message_id: "d".to_owned(),
        params: "x".repeat(HELD),
    };
    effects!(machine, request(cancel()));
    let refused = "refuse d: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(large)), refused);
}

/// A session that is open, of an engine that takes prompts while it answers others.
fn overlapping() -> Machine<&'static str> {
    let mut machine = Machine::new(true);
    effects!(machine, request(Request::New("new", config())));
    effects!(machine, attached(Ok(AttachOutcome::default())));
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
        due: AnswerDue::TurnEnds,
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
            assert_eq!(stopped, "refuse c: no space, end failed turns");
        } else {
            machine.update(update("{}"));
            assert_eq!(effects!(machine, failed(failed())), "end failed turns");
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

#[test]
fn a_turn_that_ends_with_its_process_is_interrupted_unless_its_own_client_has_left() {
    let cancelled = "append end and sync, answer a: Stopped(Cancelled)";
    let interrupted = "append end and sync, refuse a: the turn was interrupted: the process that ran \
                       it was asked to end";
    let others = |others: &[&str]| Leaving::Client {
        others: others.iter().map(|id| (*id).to_owned()).collect(),
    };
    for (leaving, end) in [
        (others(&[]), cancelled),
        (others(&["b"]), cancelled),
        (others(&["a"]), interrupted),
        (Leaving::Process, interrupted),
    ] {
        let mut machine = opened();
        effects!(machine, request(named("a")));
        let left = effects!(machine, request(Request::Leave(leaving)));
        assert_eq!(left, "cancel turns, withdraw");
        let stopped = PromptEnd::Because(StopReason::Cancelled);
        assert_eq!(effects!(machine, finished("a", Ok(stopped))), end);
    }
    // A turn that has come to its end by itself has ended so.
    let mut machine = opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(Request::Leave(Leaving::Process)));
    assert_eq!(
        effects!(machine, finished("a", Ok(end_turn()))),
        "append end and sync, answer a: Stopped(EndTurn)"
    );
}

#[test]
fn a_prompt_that_waits_when_its_process_ends_is_left_to_the_next_one() {
    let mut machine = opened();
    effects!(machine, request(named("a")));
    effects!(machine, request(cancel()));
    effects!(machine, request(named("b")));
    assert_eq!(
        effects!(machine, request(Request::Leave(Leaving::Process))),
        "refuse b: the turn was interrupted: the process that ran it was asked to end, \
         withdraw"
    );
}

#[test]
fn a_prompt_that_was_cancelled_in_another_process_is_logged_and_never_begins() {
    let mut machine = opened();
    machine.prompt_cancelled("a", "a".to_owned(), "{}".to_owned());
    assert_eq!(
        crate::session::machine::tests::done(&mut machine, Vec::new()),
        "claim, workspace, append prompt, skip a, append end and sync, answer a: Stopped(Cancelled)"
    );
}
