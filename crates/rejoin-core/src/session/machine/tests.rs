//! The effects of requests and events, in their order.

use super::*;
use crate::engine::outlet::BlockEntry;
use crate::engine::{AttachOutcome, EngineError, PromptEnd, Secret, StopReason};
use crate::record::header::Workspace;
use crate::session::request::AnswerDue;

const CALL: &str = r#"{"sessionUpdate":"tool_call","toolCallId":"c","status":"pending"}"#;

/// Calls the machine, and returns the effects of that call and of what follows.
macro_rules! effects {
    ($machine:expr, $call:ident($($argument:expr),*)) => {{
        let batch = $machine.$call($($argument),*);
        $crate::session::machine::tests::done(&mut $machine, batch)
    }};
}
pub(in crate::session) use effects;

/// Calls the machine, and returns the effects of that call and of what follows, including the
/// updates about what the session is doing.
macro_rules! effects_and_states {
    ($machine:expr, $call:ident($($argument:expr),*)) => {{
        let batch = $machine.$call($($argument),*);
        $crate::session::machine::tests::words($crate::session::machine::tests::all(&mut $machine, batch))
    }};
}
pub(in crate::session) use effects_and_states;

/// A session that is open, with nothing going on.
pub(in crate::session) fn opened() -> Machine<&'static str> {
    let mut machine = Machine::default();
    let effects = effects!(machine, request(Request::New("new", config())));
    assert_eq!(effects, "prepare, attach New");
    let made = effects!(machine, attached(Ok(AttachOutcome::default())));
    assert_eq!(
        made,
        "create, answer new: Created(None), snapshots [], commands"
    );
    machine
}

pub(in crate::session) fn config() -> SessionConfig {
    SessionConfig {
        name: "sess".to_owned(),
        workspace: Workspace::at("/w"),
        params: Secret::new("{}"),
    }
}

pub(in crate::session) fn update(payload: &str) -> Block {
    Block::of(Kind::Update, payload.to_owned())
}

pub(in crate::session) fn end_turn() -> PromptEnd {
    PromptEnd::Because(StopReason::EndTurn)
}

pub(in crate::session) fn prompt(reply: &'static str) -> Request<&'static str> {
    Request::Prompt {
        reply,
        due: AnswerDue::TurnEnds,
        message_id: "m".to_owned(),
        params: "{}".to_owned(),
    }
}

pub(in crate::session) fn failed() -> Refusal {
    Refusal::Storage("no space".to_owned())
}

/// Returns the effects of a batch, and of those that follow, in words.
pub(in crate::session) fn done(
    machine: &mut Machine<&'static str>,
    batch: Batch<&'static str>,
) -> String {
    let mut all = all(machine, batch);
    all.retain(|effect| !matches!(effect, Effect::Notify(Notification::State(_))));
    words(all)
}

/// Returns the effects of a batch, and of those that follow.
pub(in crate::session) fn all(
    machine: &mut Machine<&'static str>,
    batch: Batch<&'static str>,
) -> Batch<&'static str> {
    let mut all = batch;
    let mut catches_up = is_catch_up(&all);
    loop {
        while let Some(next) = machine.advance() {
            catches_up |= is_catch_up(&next);
            all.extend(next);
        }
        if !std::mem::take(&mut catches_up) {
            return all;
        }
        // The front catches up in no time.
        all.extend(machine.caught_up(Ok(())));
    }
}

fn is_catch_up(batch: &Batch<&'static str>) -> bool {
    let mut effects = batch.iter();
    effects.any(|effect| matches!(effect, Effect::CatchUp(..)))
}

/// Effects in words.
pub(in crate::session) fn words(batch: Batch<&'static str>) -> String {
    let words = batch.into_iter().map(|effect| match effect {
        Effect::Prepare(_) => "prepare".to_owned(),
        Effect::Create {
            agent_session_id,
            imported,
            ..
        } => {
            let inner = agent_session_id.map(|_| " agent id".to_owned());
            let imported = imported.iter().flat_map(Block::iter);
            let imported = imported.map(|entry| format!(" {}", entry.kind.as_str()));
            let all: Vec<_> = inner.into_iter().chain(imported).collect();
            format!("create{}", all.concat())
        }
        Effect::Fork(..) => "fork".to_owned(),
        Effect::ReadForFork => "read for fork".to_owned(),
        Effect::MetadataChange(change) => format!("change {change:?}"),
        Effect::Open(_) => "open".to_owned(),
        Effect::Pass(route) => format!("pass {route:?}"),
        Effect::Check => "check".to_owned(),
        Effect::Claim => "claim".to_owned(),
        Effect::FindKey { key, .. } => format!("find {key}"),
        Effect::Rewind { target, .. } => format!("rewind {target:?}"),
        Effect::RetryRecovery => "recover".to_owned(),
        Effect::RecordWorkspaceChange => "workspace".to_owned(),
        Effect::Append(block, sync) => {
            let record = |entry: BlockEntry<'_>| {
                let id = entry.id.filter(|_| entry.kind == Kind::End);
                let id = id.map(|id| format!(" {id}")).unwrap_or_default();
                format!("{}{id}", entry.kind.as_str())
            };
            let records: Vec<_> = block.iter().map(record).collect();
            let sync = match sync {
                Sync::Buffered => "",
                Sync::Turn => " and sync",
            };
            format!("append {}{sync}", records.join("+"))
        }
        Effect::Send(_) => "send".to_owned(),
        Effect::Notify(Notification::Snapshots(snapshots)) => {
            format!("snapshots {:?}", payloads(&snapshots))
        }
        Effect::Notify(Notification::Commands) => "commands".to_owned(),
        Effect::Notify(Notification::UserMessage(prompt)) => {
            format!("user message {}", prompt.message_id)
        }
        Effect::Notify(Notification::State(phase)) => format!("state {phase:?}"),
        Effect::Attach(how) => format!("attach {how:?}"),
        Effect::KeepAgentSessionId(_) => "keep agent id".to_owned(),
        Effect::Begin(_) => "begin".to_owned(),
        Effect::Skip(prompt) => format!("skip {}", prompt.message_id),
        Effect::Cancel(Work::Attach) => "abort".to_owned(),
        Effect::Cancel(Work::Turns) => "cancel turns".to_owned(),
        Effect::Cancel(Work::FailedTurns) => "end failed turns".to_owned(),
        Effect::Cancel(Work::Turn(id)) => format!("cancel turn {id}"),
        Effect::Cancel(Work::OwnWork) => "cancel own work".to_owned(),
        Effect::Cancel(Work::ClientRequests) => "withdraw".to_owned(),
        Effect::Ask(request) => format!("ask {}", request.id),
        Effect::Respond(id, None) => format!("drop {id}"),
        Effect::Respond(id, Some(outcome)) => format!("respond {id} {outcome:?}"),
        Effect::Call { reply, method, .. } => format!("call {method} for {reply}"),
        Effect::Forward { method, .. } => format!("notify {method}"),
        Effect::Replay { open, from } => {
            let open = if open.is_some() { "open and " } else { "" };
            let from = from.map(|id| format!(" from {id}")).unwrap_or_default();
            format!("{open}replay{from}")
        }
        Effect::CatchUp(snapshots, _) => format!("catch up {:?}", payloads(&snapshots)),
        Effect::AbandonReplay => "abandon replay".to_owned(),
        Effect::Answer(reply, Ok(Done::Stopped(PromptEnd::Because(reason)))) => {
            format!("answer {reply}: Stopped({reason:?})")
        }
        Effect::Answer(reply, Ok(done)) => format!("answer {reply}: {done:?}"),
        Effect::Answer(reply, Err(refusal)) => format!("refuse {reply}: {refusal}"),
        Effect::Release(how) => format!("release {how:?}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn payloads(block: &Block) -> Vec<&str> {
    block.iter().map(|entry| entry.payload).collect()
}

#[test]
fn a_prompt_is_logged_before_the_engine_sees_it_and_an_update_before_the_client_does() {
    let mut machine = opened();
    let begun = effects!(machine, request(prompt("p")));
    assert_eq!(begun, "claim, workspace, append prompt, begin");
    assert_eq!(
        effects!(machine, update(update("{}"))),
        "append update, send"
    );
    let ended = effects!(machine, finished("m", Ok(end_turn())));
    assert_eq!(ended, "append end and sync, answer p: Stopped(EndTurn)");
    assert_eq!(
        effects!(machine, update(update("{}"))),
        "append update, send",
        "between two turns, too"
    );
    assert_eq!(effects!(machine, finished("m", Ok(end_turn()))), "");
}

#[test]
fn a_second_prompt_is_refused_and_leaves_the_first_alone() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    let second = effects!(machine, request(prompt("q")));
    assert_eq!(
        second,
        "refuse q: there is already an active prompt execution"
    );
    assert_eq!(
        effects!(machine, update(update("{}"))),
        "append update, send"
    );
}

#[test]
fn open_tool_calls_are_closed_if_the_turn_does_not_end_well() {
    let failure = EngineError::internal("broken");
    for (cancelled, result, expected) in [
        (
            false,
            Ok(end_turn()),
            "append end and sync, answer p: Stopped(EndTurn)",
        ),
        (
            true,
            Ok(end_turn()),
            "append update, send, append end and sync, answer p: Stopped(Cancelled)",
        ),
        (
            true,
            Err(failure.clone()),
            "append update, send, append end and sync, answer p: Stopped(Cancelled)",
        ),
        (
            false,
            Err(failure),
            "append update, send, append end and sync, refuse p: broken",
        ),
    ] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, update(update(CALL)));
        if cancelled {
            assert_eq!(
                effects!(machine, request(Request::Cancel { withdraw: false })),
                "cancel turns"
            );
            assert_eq!(
                effects!(machine, request(Request::Cancel { withdraw: false })),
                "",
                "once is enough"
            );
        }
        assert_eq!(effects!(machine, finished("m", result)), expected);
    }
}

#[test]
fn a_turn_goes_on_during_a_load_and_the_next_prompt_waits_for_the_load() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    let load = effects!(machine, request(Request::Load("l", config())));
    assert_eq!(load, "open, replay");
    assert_eq!(machine.load_under_way(), Some(&"l"));
    // The front keeps what is for the client until the load is answered.
    let said = effects!(machine, update(update("{}")));
    assert_eq!(said, "append update, send");
    let ended = effects!(machine, finished("m", Ok(end_turn())));
    assert_eq!(ended, "append end and sync, answer p: Stopped(EndTurn)");
    assert_eq!(effects!(machine, request(prompt("q"))), "");
    assert_eq!(effects!(machine, replayed(Ok(()), true)), "attach Again");
    let replayed = effects!(machine, attached(Ok(AttachOutcome::default())));
    assert_eq!(
        replayed,
        "catch up [], commands, answer l: Loaded(None), claim, workspace, append prompt, begin"
    );
}

#[test]
fn a_replay_that_fails_sends_what_it_has_held_back() {
    for early in [true, false] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        effects!(machine, request(Request::Load("l", config())));
        effects!(machine, update(update("{}")));
        effects!(machine, finished("m", Ok(end_turn())));
        if early {
            let broken = effects!(machine, replayed(Err(Refusal::Cancelled), true));
            assert_eq!(
                broken,
                "refuse l: the request was cancelled, abandon replay"
            );
        } else {
            effects!(machine, replayed(Ok(()), true));
            machine.attached(Ok(AttachOutcome::default()));
            let broken = effects!(machine, caught_up(Err(failed())));
            assert_eq!(broken, "refuse l: no space, abandon replay");
        }
    }
}

#[test]
fn a_prompt_that_cannot_be_logged_is_refused_and_the_next_one_is_served() {
    let mut machine = opened();
    machine.request(prompt("p"));
    assert_eq!(effects!(machine, failed(failed())), "refuse p: no space");
    let next = effects!(machine, request(prompt("q")));
    assert_eq!(next, "claim, workspace, append prompt, begin");
}

#[test]
fn an_update_that_cannot_be_logged_ends_the_turn_and_is_recovered_before_the_answer() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    machine.update(update("{}"));
    assert_eq!(effects!(machine, failed(failed())), "end failed turns");
    assert_eq!(effects!(machine, update(update("{}"))), "", "no more of it");
    let ended = effects!(
        machine,
        finished("m", Ok(PromptEnd::Because(StopReason::Cancelled)))
    );
    assert_eq!(ended, "recover, refuse p: no space");
}

#[test]
fn a_load_of_one_client_does_not_hold_up_the_others() {
    let mut machine = opened();
    effects!(machine, request(Request::Load("l", config())));
    let begun = effects!(machine, request_of_other(prompt("p")));
    assert_eq!(begun, "claim, workspace, append prompt, begin");
    let cancelled = effects!(
        machine,
        request_of_other(Request::Cancel { withdraw: true })
    );
    assert_eq!(cancelled, "cancel turns, withdraw");
    assert_eq!(effects!(machine, request_of_other(prompt("q"))), "");
    let ended = effects!(machine, finished("m", Ok(end_turn())));
    assert_eq!(
        ended,
        "append end and sync, answer p: Stopped(Cancelled), claim, workspace, append prompt, begin"
    );
    // While the session is being opened, there is nothing that could serve them.
    let mut machine = Machine::default();
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    assert_eq!(effects!(machine, request_of_other(prompt("p"))), "");
}

#[test]
fn a_session_that_could_not_be_opened_is_released() {
    let mut machine = Machine::default();
    machine.request(Request::Load("l", config()));
    assert_eq!(
        effects!(machine, failed(Refusal::NotFound)),
        "release Closed, refuse l: session not found"
    );
    assert!(machine.is_over());
    // A session that was open stays open.
    let mut machine = opened();
    machine.request(Request::Load("l", config()));
    assert_eq!(effects!(machine, failed(failed())), "refuse l: no space");
    assert!(!machine.is_over());
}

#[test]
fn a_session_that_is_opened_with_its_replay_is_open_if_that_succeeds() {
    for (result, open, expected) in [
        (
            Ok(()),
            true,
            "catch up [], commands, answer l: Loaded(None)",
        ),
        (
            Err(Refusal::Cancelled),
            true,
            "release Closed, refuse l: the request was cancelled",
        ),
        (
            Err(Refusal::NotFound),
            false,
            "refuse l: session not found, abandon replay",
        ),
    ] {
        let mut machine = Machine::default();
        let load = effects!(machine, request(Request::Load("l", config())));
        assert_eq!(load, "open and replay");
        assert!(!machine.is_over());
        let attaches = result.is_ok();
        let mut replayed = effects!(machine, replayed(result, open));
        if attaches {
            assert_eq!(replayed, "attach Again");
            replayed = effects!(machine, attached(Ok(AttachOutcome::default())));
        }
        assert_eq!(replayed, expected);
        assert_eq!(machine.is_over(), !attaches);
    }
}

#[test]
fn closing_and_deleting_end_a_turn_first() {
    for (request, expected) in [
        (Request::Close("x"), "release Closed, answer x: Closed"),
        (Request::Delete("x"), "release Deleted, answer x: Deleted"),
    ] {
        let mut machine = opened();
        effects!(machine, request(prompt("p")));
        assert_eq!(
            effects!(machine, request(request)),
            "cancel turns, withdraw"
        );
        assert!(machine.has_waiting_requests());
        let ended = effects!(
            machine,
            finished("m", Ok(PromptEnd::Because(StopReason::Cancelled)))
        );
        let answered = "append end and sync, answer p: Stopped(Cancelled)";
        assert_eq!(ended, format!("{answered}, {expected}"));
        assert!(machine.is_over());
    }
}

#[test]
fn a_cancellation_after_a_prompt_that_waits_is_for_that_prompt() {
    let mut machine = opened();
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(
        effects!(machine, request(Request::Cancel { withdraw: false })),
        "",
        "nothing runs"
    );
    effects!(machine, request(prompt("p")));
    assert_eq!(
        effects!(machine, request(Request::Cancel { withdraw: false })),
        ""
    );
    assert_eq!(effects!(machine, replayed(Ok(()), true)), "attach Again");
    let replayed = effects!(machine, attached(Ok(AttachOutcome::default())));
    assert_eq!(
        replayed,
        "catch up [], commands, answer l: Loaded(None), claim, workspace, append prompt, begin, cancel turns"
    );
}

#[test]
fn a_session_that_is_not_open_accepts_no_prompt() {
    let mut machine = opened();
    effects!(machine, request(Request::Close("c")));
    let refused = effects!(machine, request(prompt("p")));
    assert_eq!(
        refused,
        "check, refuse p: the session is not open: load or resume it first"
    );
    assert_eq!(
        effects!(machine, request(Request::Close("d"))),
        "check, answer d: Closed"
    );
    let resumed = effects!(machine, request(Request::Resume("r", config())));
    assert_eq!(resumed, "open, attach Again");
    let resumed = effects!(machine, attached(Ok(AttachOutcome::default())));
    assert_eq!(resumed, "commands, snapshots [], answer r: Resumed(None)");
}

#[test]
fn a_deletion_that_fails_leaves_the_session_open() {
    let mut machine = opened();
    machine.request(Request::Delete("x"));
    assert_eq!(effects!(machine, failed(failed())), "");
    assert!(!machine.is_over());
}
