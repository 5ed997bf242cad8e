//! Replays of logs with updates of version 2 of the protocol, to clients of both versions.

use proptest::prelude::*;

use super::properties::any_item;
use super::tests::{Item, chunk, exact, folded, replay, text};
use super::*;
use crate::conversation::Transcript;
use crate::protocol::v1::properties::any_update;
use crate::protocol::v2::V2View;

fn native(update: &str) -> Item {
    (Kind::UpdateV2, None, format!(r#"{{"update":{update}}}"#))
}

fn for_version_2(options: Options) -> Options {
    Options {
        version_2: true,
        ..options
    }
}

/// The lines that a client of version 2 gets.
fn shown(items: &[Item], options: Options) -> String {
    let mut out = Vec::new();
    let lines = replay(items, for_version_2(options));
    V2View::new().lines(lines.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

/// The updates in lines, as they are spelled.
fn updates(lines: &str) -> Vec<&str> {
    let params = lines.lines().map(|line| json::text_member(line, "params"));
    params
        .map(|params| json::text_member(params.unwrap(), "update").unwrap())
        .collect()
}

fn transcript(items: &[Item]) -> Transcript {
    let (mut converted, mut log) = (InVersion1::with_originals(), Transcript::default());
    for (kind, id, payload) in items {
        let record = Record::sample(*kind, *id, payload);
        converted.record(&record, &mut |record| log.record(record));
    }
    converted.finish(&mut |record| log.record(record));
    log
}

#[test]
fn each_client_gets_its_form_and_snapshots_at_the_end() {
    let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"a"}"#;
    let options = r#"{"sessionUpdate":"config_option_update","configOptions":[{"configId":"o","name":"O","type":"boolean","currentValue":true}]}"#;
    let whole = r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"w"}],"n":1e400}"#;
    let call = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"T","content":[{"type":"terminal","terminalId":"t"}]}"#;
    let state = r#"{"sessionUpdate":"state_update","state":"running"}"#;
    let items = [
        (Kind::Info, None, mode.to_owned()),
        native(options),
        native(state),
        native(&text("m", "a")),
        native(&text("m", "b")),
        chunk("m", "c"),
        native(call),
        native(whole),
        (Kind::TransientV2, None, format!(r#"{{"update":{whole}}}"#)),
    ];
    let lines = shown(&items, Options::default());
    let joined = text("m", "ab");
    let later = text("m", "c");
    assert_eq!(updates(&lines), [&*joined, &*later, call, whole, options]);
    assert!(lines.contains(r#""_meta":{"rejoin":{"at":"2026-11-21T08:30:00.003Z","turn":0}}"#));
    let lines = replay(&items, Options::default());
    let joined = text("m", "abc");
    let own = &options.replace("configId", "id");
    let found = updates(&lines);
    assert_eq!(found[0], joined);
    assert!(found[1].contains(r#""sessionUpdate":"tool_call","toolCallId":"c","title":"T""#));
    assert!(found[1].contains(&format!(r#""updates":[{call}]"#)));
    assert!(found[2].contains(r#""messageId":"m.2","content":{"type":"text","text":"w"}"#));
    assert!(found[2].contains(&format!(r#""updates":[{whole}]"#)));
    assert_eq!(found[3..], [mode, own]);
}

#[test]
fn subagents_keep_their_ids_and_their_form() {
    let about = r#"{"sessionUpdate":"subagent_update","sessionId":"t","title":"T"}"#;
    let whole = r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"w"}]}"#;
    let inside = |session: &str| {
        let params = format!(r#"{{"sessionId":"{session}","update":{whole}}}"#);
        (Kind::SubagentV2, None, params)
    };
    let items = [native(about), inside("t"), inside("unknown")];
    let lines = shown(&items, Options::default());
    assert_eq!(updates(&lines), [about, whole]);
    assert!(
        lines
            .lines()
            .nth(1)
            .unwrap()
            .contains(r#"{"sessionId":"t","#)
    );
    let lines = replay(&items, Options::default());
    assert!(lines.contains(r#""sessionUpdate":"agent_message_chunk","messageId":"m""#));
    let hidden = Options {
        hide_subagents: true,
        ..Options::default()
    };
    assert_eq!(replay(&items, hidden), "");
}

#[test]
fn what_is_too_long_is_cut_in_its_form() {
    let long = "x".repeat(4096);
    let whole = format!(
        r#"{{"sessionUpdate":"agent_message","messageId":"m","content":[{{"type":"text","text":"{long}"}}]}}"#
    );
    let options = Options {
        message_limit: 0,
        ..Options::default()
    };
    let lines = shown(&[native(&whole)], options);
    assert!(lines.len() <= SHORTEST_LINE, "{lines}");
    assert!(lines.contains("cut in the replay"), "{lines}");
    let long = native(&text("m", &long));
    let lines = shown(&[long], options);
    assert!(lines.lines().count() > 1);
    assert!(
        lines
            .lines()
            .all(|line| line.contains(r#""messageId":"m""#))
    );
}

/// Any record of a log with updates in both forms.
fn mixed() -> impl Strategy<Value = Item> {
    let more = prop::sample::select(&["", "", r#","_meta":{"a":1}"#][..]);
    // A replay of version 1 says that a client's terminal has ended.
    let any_update = || any_update().prop_filter("", |update| !update.contains(r#""terminal":{"#));
    let update = (any_update(), more).prop_map(|(update, more)| {
        let params = format!(r#"{{"update":{update}{more}}}"#);
        (Kind::UpdateV2, None, params)
    });
    let subagent = any_update().prop_map(|update| {
        let params = format!(r#"{{"sessionId":"c1","update":{update}}}"#);
        (Kind::SubagentV2, None, params)
    });
    prop_oneof![3 => any_item(), 3 => update, 1 => subagent]
}

/// Whether a replay shows an update in its place.
fn is_history(update: &str) -> bool {
    let kind = UpdateKind::of(update.as_bytes());
    !kind.is_snapshot()
        && kind.class() != UpdateClass::Event
        && json::string_member(update, "sessionUpdate").as_deref() != Some("state_update")
}

/// Whether a subagent has a display terminal before it is announced. A replay shows neither that
/// update nor, therefore, the terminal; a transcript does not say which terminals have ended.
fn has_an_early_terminal(items: &[Item]) -> bool {
    let is_announced = |item: &Item| item.2.contains(r#""sessionUpdate":"subagent_update""#);
    items
        .iter()
        .take_while(|item| !is_announced(item))
        .any(|(kind, _, payload)| *kind == Kind::SubagentV2 && payload.contains("terminal_info"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_client_of_version_1_gets_what_the_log_folds_to(items in prop::collection::vec(mixed(), 0..24)) {
        prop_assume!(!has_an_early_terminal(&items));
        let log = transcript(&items);
        for options in [Options::default(), exact()] {
            let lines = replay(&items, options);
            prop_assert_eq!(&folded(&lines), &log);
        }
    }

    #[test]
    fn a_client_of_version_2_gets_the_bytes_of_the_log(items in prop::collection::vec(mixed(), 0..24)) {
        let lines = shown(&items, exact());
        let mut found = updates(&lines).into_iter();
        for (kind, _, payload) in &items {
            let update = json::text_member(payload, "update").unwrap_or_default();
            if *kind == Kind::UpdateV2 && is_history(update) {
                prop_assert!(found.any(|found| found == update), "{} is missing", update);
            }
        }
        // Nothing but the spelling of joined texts depends on how chunks are joined.
        let joined = shown(&items, Options::default());
        prop_assert_eq!(joined.matches("\"agent_message\"").count(), lines.matches("\"agent_message\"").count());
    }
}

#[test]
fn changes_of_the_metadata_of_a_session_are_folded() {
    let info = |members: &str| {
        native(&format!(
            r#"{{"sessionUpdate":"session_info_update",{members}}}"#
        ))
    };
    let items = [
        info(r#""title":"t","_meta":{"a":1e400,"x":1}"#),
        info(r#""_meta":{"b":2,"x":null}"#),
    ];
    let lines = shown(&items, Options::default());
    let merged = r#"{"sessionUpdate":"session_info_update","_meta":{"a":1e400,"b":2},"title":"t"}"#;
    assert_eq!(updates(&lines), [merged]);
    let cleared = [items[0].clone(), info(r#""_meta":null"#)];
    let lines = shown(&cleared, Options::default());
    assert_eq!(
        updates(&lines),
        [r#"{"sessionUpdate":"session_info_update","_meta":null,"title":"t"}"#]
    );
}
