//! Prompts with idempotency keys: new ones, and those that were sent before.

use super::*;
use crate::engine::{PromptEnd, StopReason};
use crate::session::machine::tests::{all, done, effects, end_turn, failed, opened, prompt, words};
use crate::session::request::Request;

const END: &str = r#"{"stopReason":"end_turn"}"#;
const FIND: &str = "claim, find k";
const BEGUN: &str = "claim, workspace, append prompt, append begin and sync, begin";

/// A prompt with the key `k`.
fn keyed(reply: &'static str, due: AnswerDue) -> Request<&'static str> {
    Request::Prompt {
        reply,
        due,
        message_id: reply.to_owned(),
        params: r#"{"idempotencyKey":"k","prompt":[]}"#.to_owned(),
    }
}

/// What a prompt with the key `k` leads to if the log has this under it.
fn found(
    machine: &mut Machine<&'static str>,
    request: Request<&'static str>,
    state: RecordedState,
) -> String {
    let batch = machine.request(request);
    machine.key_found(RecordedPrompt {
        message_id: "first".to_owned(),
        state,
    });
    done(machine, batch)
}

#[test]
fn the_log_says_that_the_engine_may_have_a_prompt_before_it_does() {
    let mut machine = opened();
    let first = keyed("first", AnswerDue::TurnEnds);
    assert_eq!(
        effects!(machine, request(first)),
        format!("{FIND}, {BEGUN}")
    );
    assert_eq!(
        effects!(machine, finished("first", Ok(end_turn()))),
        "append end and sync, answer first: Stopped(EndTurn)"
    );
    let mut machine = opened();
    let first = keyed("first", AnswerDue::Logged);
    let begun = "claim, workspace, append prompt, answer first: Accepted(\"first\"), \
                 user message first, append begin and sync, begin";
    assert_eq!(
        effects!(machine, request(first)),
        format!("{FIND}, {begun}")
    );
}

#[test]
fn a_repetition_joins_the_turn_that_runs() {
    let mut machine = opened();
    effects!(machine, request(keyed("first", AnswerDue::TurnEnds)));
    for reply in ["b", "c"] {
        let again = keyed(reply, AnswerDue::TurnEnds);
        assert_eq!(found(&mut machine, again, RecordedState::Open), "find k");
    }
    let now = keyed("d", AnswerDue::Logged);
    assert_eq!(
        found(&mut machine, now, RecordedState::Open),
        "find k, answer d: Repeated { message_id: \"first\", phase: Running }"
    );
    // Its client no longer wants it; the turn is of others, too.
    let withdraw = Request::WithdrawPrompt("b".to_owned());
    assert_eq!(
        effects!(machine, request(withdraw)),
        "refuse b: the request was cancelled"
    );
    let other = "refuse e: there is already an active prompt execution";
    assert_eq!(effects!(machine, request(prompt("e"))), other);
    let ended = effects!(machine, finished("first", Ok(end_turn())));
    let (first, repeat) = ended.split_once(", answer c: ").unwrap();
    assert_eq!(first, "append end and sync, answer first: Stopped(EndTurn)");
    assert!(
        repeat.starts_with("Repeated { message_id: \"first\", phase: Idle("),
        "{repeat}"
    );
    assert!(repeat.contains("end_turn"), "{repeat}");
}

#[test]
fn a_repetition_is_answered_as_the_turn_has_ended() {
    let ended = |due, end: &str| {
        let state = RecordedState::Ended(end.to_owned());
        found(&mut opened(), keyed("b", due), state)
    };
    let answer = ended(AnswerDue::TurnEnds, END);
    let same = format!("{FIND}, answer b: Repeated {{ message_id: \"first\", phase: Idle(");
    assert!(answer.starts_with(&same), "{answer}");
    for end in [TURN_INTERRUPTED, r#"{"error":{"code":-5,"message":"no"}}"#] {
        let answer = ended(AnswerDue::Logged, end);
        assert!(answer.starts_with(&same), "{answer}");
    }
    let refused = ended(AnswerDue::TurnEnds, TURN_INTERRUPTED);
    assert!(
        refused.contains("refuse b: the turn of this prompt was interrupted"),
        "{refused}"
    );
    let refused = ended(
        AnswerDue::TurnEnds,
        r#"{"error":{"code":-5,"message":"no"}}"#,
    );
    assert_eq!(refused, format!("{FIND}, refuse b: no"));
    // Nothing runs, so nothing can be waited for.
    let refused = found(
        &mut opened(),
        keyed("b", AnswerDue::TurnEnds),
        RecordedState::Open,
    );
    assert!(
        refused.contains("refuse b: the turn of this prompt was interrupted"),
        "{refused}"
    );
}

#[test]
fn a_prompt_that_no_engine_got_is_run_by_its_repetition() {
    let recorded = || RecordedState::NotBegun("{}".to_owned());
    let mut machine = opened();
    let again = keyed("b", AnswerDue::TurnEnds);
    assert_eq!(
        found(&mut machine, again, recorded()),
        format!("{FIND}, claim, workspace, append begin and sync, begin")
    );
    assert_eq!(
        effects!(machine, finished("first", Ok(end_turn()))),
        "append end and sync, answer b: Stopped(EndTurn)"
    );
    let again = keyed("b", AnswerDue::Logged);
    assert_eq!(
        found(&mut machine, again, recorded()),
        format!(
            "{FIND}, claim, workspace, \
             answer b: Repeated {{ message_id: \"first\", phase: Running }}, \
             append begin and sync, begin"
        )
    );
}

#[test]
fn repetitions_of_a_prompt_that_waits_begin_with_it() {
    let mut machine = opened();
    let first = Request::Prompt {
        reply: "a",
        due: AnswerDue::Logged,
        message_id: "a".to_owned(),
        params: "{}".to_owned(),
    };
    effects!(machine, request(first));
    for reply in ["first", "b", "c"] {
        let due = if reply == "c" {
            AnswerDue::TurnEnds
        } else {
            AnswerDue::Logged
        };
        assert_eq!(effects!(machine, request(keyed(reply, due))), "find k");
    }
    assert_eq!(
        effects!(machine, finished("a", Ok(end_turn()))),
        format!(
            "append end and sync, {FIND}, claim, workspace, append prompt, \
             answer first: Accepted(\"first\"), user message first, \
             answer b: Repeated {{ message_id: \"first\", phase: Running }}, \
             append begin and sync, begin"
        )
    );
    let ended = effects!(machine, finished("first", Ok(end_turn())));
    assert!(
        ended.starts_with("append end and sync, answer c: Repeated"),
        "{ended}"
    );
    assert!(machine.is_settled());
}

#[test]
fn a_log_that_cannot_be_searched_begins_nothing() {
    let mut machine = opened();
    let batch = machine.request(keyed("b", AnswerDue::TurnEnds));
    assert_eq!(words(batch), FIND);
    let batch = machine.failed(failed());
    assert_eq!(words(all(&mut machine, batch)), "refuse b: no space");
    // The next one is looked for again.
    let again = keyed("c", AnswerDue::TurnEnds);
    assert_eq!(
        effects!(machine, request(again)),
        format!("{FIND}, {BEGUN}")
    );
    let cancelled = Ok(PromptEnd::Because(StopReason::Cancelled));
    assert_eq!(
        effects!(machine, finished("c", cancelled)),
        "append end and sync, answer c: Stopped(Cancelled)"
    );
}
