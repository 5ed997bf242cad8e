//! Tests of the transitions when an engine has attached, or has failed to.

use super::*;
use crate::engine::EngineError;
use crate::session::Request;
use crate::session::machine::tests::{config, effects, end_turn, failed, opened, prompt, update};

/// An engine that has attached, with a result of each kind.
fn attached() -> AttachOutcome {
    AttachOutcome {
        way: None,
        answer: Some("{}".to_owned()),
        agent_session_id: Some("i".to_owned()),
        snapshots: Block::of(Kind::Info, "s".to_owned()),
        info: Block::of(Kind::Info, "n".to_owned()),
        gone: Vec::new(),
        imported: Vec::new(),
        listed: None,
        agent_error: None,
    }
}

fn imported() -> AttachOutcome {
    let mut first = Block::of(Kind::Prompt, "{}".to_owned());
    first.push(Kind::Update, "{}");
    AttachOutcome {
        imported: vec![first, update("{}")],
        ..attached()
    }
}

fn refused() -> Refusal {
    Refusal::Engine(EngineError::internal("no"))
}

fn fork() -> Request<&'static str> {
    Request::Fork {
        reply: "f",
        config: config(),
        at: None,
    }
}

fn import(reply: &'static str, replay: bool) -> Request<&'static str> {
    Request::Import {
        reply,
        config: config(),
        replay,
    }
}

#[test]
fn a_fork_is_answered_when_the_engine_is_ready_and_its_id_is_kept() {
    for (result, expected, over) in [
        (
            Ok(attached()),
            "append inner and sync, append info, answer f: Forked(Some(\"{}\")), snapshots [\"s\"], commands",
            false,
        ),
        (Err(refused()), "release Refused, refuse f: no", true),
    ] {
        let mut machine = Machine::default();
        let begun = effects!(machine, request(fork()));
        assert_eq!(begun, "fork, attach Fork");
        assert!(machine.is_being_created());
        let lent = effects!(machine, request(Request::ReadForFork));
        assert_eq!(
            lent, "",
            "a session that does not exist yet cannot be forked"
        );
        let attached = effects!(machine, attached(result));
        assert_eq!(attached, format!("{expected}, read for fork"));
        assert_eq!(machine.is_over(), over);
    }
}

#[test]
fn a_fork_whose_log_cannot_be_made_is_released() {
    let mut machine = Machine::default();
    let begun = machine.request(fork());
    assert_eq!(begun.len(), 2);
    let refused = effects!(machine, failed(failed()));
    assert_eq!(refused, "release Refused, refuse f: no space");
    assert!(machine.is_over());
}

#[test]
fn a_session_can_be_forked_while_a_turn_or_a_replay_runs() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    assert_eq!(
        effects!(machine, request(Request::ReadForFork)),
        "read for fork"
    );
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(
        effects!(machine, request(Request::ReadForFork)),
        "read for fork"
    );
}

#[test]
fn a_new_session_is_made_when_the_engine_is_ready_and_never_if_it_cannot_be() {
    for (result, expected, over) in [
        (
            Ok(attached()),
            "create agent id, append info, answer n: Created(Some(\"{}\")), snapshots [\"s\"], commands",
            false,
        ),
        (Err(refused()), "release Refused, refuse n: no", true),
    ] {
        let mut machine = Machine::default();
        let begun = effects!(machine, request(Request::New("n", config())));
        assert_eq!(begun, "prepare, attach New");
        assert!(machine.is_being_created() && !machine.is_over());
        assert_eq!(machine.attaching(), Some(&"n"));
        assert_eq!(effects!(machine, attached(result)), expected);
        assert!(!machine.is_being_created());
        assert_eq!(machine.is_over(), over);
    }
}

#[test]
fn what_cannot_be_made_whole_is_not_kept() {
    for request in [
        Request::New("x", config()),
        import("x", false),
        import("x", true),
    ] {
        let replays = matches!(request, Request::Import { replay: true, .. });
        let mut machine = Machine::default();
        effects!(machine, request(request));
        let batch = machine.attached(Ok(imported()));
        let answered = batch
            .iter()
            .any(|e| matches!(e, Effect::Answer("x", Ok(_))));
        assert_eq!(answered, !replays, "the task refuses what is in the batch");
        let expected = if replays {
            "release Refused, refuse x: no space"
        } else {
            "release Refused"
        };
        assert_eq!(effects!(machine, failed(failed())), expected);
        assert!(machine.is_over());
        // Nothing of the import remains for the next load.
        effects!(machine, request(Request::Load("l", config())));
        assert_eq!(effects!(machine, replayed(Ok(()), true)), "attach Again");
    }
}

#[test]
fn an_imported_session_is_written_whole_before_anything_is_shown() {
    let mut machine = Machine::default();
    let begun = effects!(machine, request(import("i", false)));
    assert_eq!(begun, "prepare, attach Import");
    assert!(machine.is_being_created());
    assert_eq!(
        effects!(machine, attached(Ok(imported()))),
        "create agent id prompt update update, append info, commands, snapshots [\"s\"], \
         answer i: Resumed(Some(\"{}\"))"
    );

    let mut machine = Machine::default();
    effects!(machine, request(import("i", true)));
    assert_eq!(machine.attaching(), Some(&"i"));
    assert_eq!(
        effects!(machine, attached(Ok(imported()))),
        "create agent id prompt update update, append info, replay"
    );
    assert_eq!(
        (machine.load_under_way(), machine.is_being_created()),
        (Some(&"i"), false)
    );
    assert_eq!(
        effects!(machine, replayed(Ok(()), true)),
        "catch up [\"s\"], commands, answer i: Loaded(Some(\"{}\"))",
        "the engine was ready once"
    );
}

#[test]
fn an_import_whose_replay_fails_is_a_session_in_any_case() {
    let mut machine = Machine::default();
    effects!(machine, request(import("i", true)));
    effects!(machine, attached(Ok(imported())));
    let broken = effects!(machine, replayed(Err(Refusal::Cancelled), true));
    assert_eq!(
        broken,
        "release Closed, refuse i: the request was cancelled"
    );
    assert!(machine.is_over());
    effects!(machine, request(Request::Load("l", config())));
    let replayed = effects!(machine, replayed(Ok(()), true));
    assert_eq!(replayed, "attach Again", "how things are may have changed");
}

#[test]
fn an_engine_that_may_want_a_sign_in_is_attached_before_the_replay() {
    let mut machine = Machine::default();
    machine.attach_first(true);
    let refused_load = effects!(machine, request(Request::Load("l", config())));
    assert_eq!(refused_load, "open, attach Again");
    assert_eq!(machine.attaching(), Some(&"l"));
    let refusal = effects!(machine, attached(Err(refused())));
    assert_eq!(refusal, "release Closed, refuse l: no");
    assert!(machine.is_over());

    effects!(machine, request(Request::Load("m", config())));
    let said = effects!(machine, update(update("{}")));
    assert_eq!(
        said, "append update, send",
        "the front leaves it to the replay"
    );
    let begun = effects!(machine, attached(Ok(attached())));
    assert_eq!(begun, "keep agent id, append info, replay");
    assert_eq!(
        effects!(machine, replayed(Ok(()), true)),
        "catch up [\"s\"], commands, answer m: Loaded(Some(\"{}\"))",
        "the engine was ready once"
    );
    let again = effects!(machine, request(Request::Load("n", config())));
    assert_eq!(again, "open, replay", "the engine is there already");
}

#[test]
fn a_replay_that_does_not_begin_behind_its_engine_leaves_nothing_over() {
    let mut machine = Machine::default();
    machine.attach_first(true);
    effects!(machine, request(Request::Load("l", config())));
    drop(machine.attached(Ok(attached())));
    let broken = effects!(machine, failed(failed()));
    assert_eq!(broken, "release Closed, refuse l: no space");
    assert!(machine.is_over());
    machine.attach_first(false);
    let load = effects!(machine, request(Request::Load("m", config())));
    assert_eq!(load, "open and replay");
    assert_eq!(effects!(machine, replayed(Ok(()), true)), "attach Again");
}

#[test]
fn a_session_is_only_opened_if_the_engine_takes_it() {
    let mut machine = Machine::default();
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(effects!(machine, replayed(Ok(()), true)), "attach Again");
    assert_eq!(machine.attaching(), Some(&"l"));
    let refusal = effects!(machine, attached(Err(refused())));
    assert_eq!(refusal, "release Closed, refuse l: no");
    assert!(machine.is_over());

    effects!(machine, request(Request::Resume("r", config())));
    assert_eq!(machine.attaching(), Some(&"r"));
    let refusal = effects!(machine, attached(Err(refused())));
    assert_eq!(refusal, "release Closed, refuse r: no");
    assert!(machine.is_over());
}

#[test]
fn a_session_that_was_open_stays_so_and_sends_what_was_held_back() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    let said = effects!(machine, update(update("{}")));
    assert_eq!(said, "append update, send");
    let ended = effects!(machine, finished("m", Ok(end_turn())));
    assert_eq!(ended, "append end and sync, answer p: Stopped(EndTurn)");
    let refusal = effects!(machine, attached(Err(refused())));
    assert_eq!(refusal, "abandon replay, refuse l: no");
    effects!(machine, request(Request::Resume("r", config())));
    assert_eq!(effects!(machine, attached(Err(refused()))), "refuse r: no");
    assert!(!machine.is_over());
}

#[test]
fn the_answer_of_a_load_comes_from_the_engine() {
    let mut machine = opened();
    effects!(machine, request(Request::Load("l", config())));
    effects!(machine, replayed(Ok(()), true));
    assert_eq!(
        effects!(machine, attached(Ok(attached()))),
        "keep agent id, append info, catch up [\"s\"], commands, answer l: Loaded(Some(\"{}\"))"
    );
    effects!(machine, request(Request::Resume("r", config())));
    assert_eq!(
        effects!(machine, attached(Ok(attached()))),
        "keep agent id, append info, commands, snapshots [\"s\"], answer r: Resumed(Some(\"{}\"))"
    );
    assert_eq!(
        effects!(machine, attached(Ok(attached()))),
        "",
        "no request waits"
    );
}

#[test]
fn closing_a_session_does_not_wait_for_its_engine() {
    for (request, opening, expected) in [
        (
            import("o", true),
            "prepare, attach Import",
            "release Refused, refuse o: the request was cancelled, check, answer c: Closed",
        ),
        (
            Request::Resume("o", config()),
            "open, attach Again",
            "release Closed, refuse o: the request was cancelled, check, answer c: Closed",
        ),
    ] {
        let mut machine = Machine::default();
        assert_eq!(effects!(machine, request(request)), opening);
        assert_eq!(effects!(machine, request(Request::Close("c"))), "abort");
        assert_eq!(
            effects!(machine, request(Request::Delete("d"))),
            "",
            "once is enough"
        );
        assert!(machine.has_waiting_requests());
        let ended = effects!(machine, attached(Err(Refusal::Cancelled)));
        assert_eq!(
            ended,
            format!("{expected}, release Deleted, answer d: Deleted")
        );
        assert!(machine.is_over());
    }
}

#[test]
fn an_engine_that_attached_before_it_was_asked_to_stop_has_attached() {
    let mut machine = opened();
    effects!(machine, request(prompt("p")));
    effects!(machine, request(Request::Load("l", config())));
    assert_eq!(effects!(machine, request(Request::Delete("d"))), "");
    assert_eq!(
        effects!(machine, replayed(Ok(()), true)),
        "attach Again, abort"
    );
    assert_eq!(
        effects!(machine, attached(Ok(attached()))),
        "keep agent id, append info, catch up [\"s\"], commands, answer l: Loaded(Some(\"{}\")), cancel turns, withdraw"
    );
    assert_eq!(
        effects!(machine, finished("m", Ok(end_turn()))),
        "append end and sync, answer p: Stopped(Cancelled), release Deleted, answer d: Deleted"
    );
}

#[test]
fn requests_wait_for_the_engine() {
    let mut machine = opened();
    effects!(machine, request(Request::Resume("r", config())));
    for request in [
        prompt("p"),
        Request::Call {
            reply: "c",
            method: "m".to_owned(),
            params: "{}".to_owned(),
        },
        Request::Notify {
            method: "n".to_owned(),
            params: "{}".to_owned(),
        },
    ] {
        assert_eq!(effects!(machine, request(request)), "");
    }
    assert_eq!(
        effects!(machine, attached(Err(refused()))),
        "refuse r: no, claim, workspace, append prompt, begin, call m for c, notify n"
    );
}

#[test]
fn another_import_of_the_same_session_waits_for_the_first() {
    for replay in [true, false] {
        let mut machine = Machine::default();
        effects!(machine, request(import("a", false)));
        assert_eq!(effects!(machine, request(import("b", replay))), "");
        let expected = if replay {
            "open, replay"
        } else {
            "open, attach Again"
        };
        let served = effects!(machine, attached(Ok(imported())));
        assert!(served.ends_with(&format!("answer a: Resumed(Some(\"{{}}\")), {expected}")));
    }
    // A session is not imported again when it is closed, but it is when it could not be imported
    // before, or is deleted.
    let mut machine = Machine::default();
    effects!(machine, request(import("a", false)));
    effects!(machine, request(Request::Close("c")));
    effects!(machine, request(import("b", true)));
    let served = effects!(machine, attached(Ok(imported())));
    assert!(
        served.ends_with("answer c: Closed, open and replay"),
        "{served}"
    );

    let mut machine = Machine::default();
    effects!(machine, request(import("a", false)));
    effects!(machine, request(import("b", true)));
    let unknown = Refusal::Engine(EngineError::unknown_session());
    assert_eq!(
        effects!(machine, attached(Err(unknown))),
        "release Refused, refuse a: session not found, prepare, attach Import"
    );
    effects!(machine, request(Request::Delete("d")));
    effects!(machine, request(import("e", true)));
    let served = effects!(machine, attached(Ok(imported())));
    assert_eq!(
        served,
        "create agent id prompt update update, append info, replay"
    );
    let served = effects!(machine, replayed(Ok(()), true));
    assert!(
        served.ends_with("release Deleted, answer d: Deleted, prepare, attach Import"),
        "{served}"
    );
}
