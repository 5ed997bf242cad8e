//! Tests of what is not replayed in its place: snapshots, what only replays send, what is never
//! sent again, and calls that began late or never.

use serde_json::{Value, json};

use super::tests::{Item, chunk, exact, replay, update};
use super::*;

fn info(payload: &str) -> Item {
    (Kind::Info, None, payload.to_owned())
}

fn prompt() -> Item {
    let params = r#"{"prompt":[{"type":"text","text":"p"}]}"#;
    (Kind::Prompt, Some("u"), params.to_owned())
}

/// The updates of a replay in short: the name, and what distinguishes it from others of this name.
fn summary(lines: &str) -> Vec<String> {
    let summary = lines.lines().map(|line| {
        let message: Value = serde_json::from_str(line).unwrap();
        let update = &message["params"]["update"];
        let mut words = vec![update["sessionUpdate"].as_str().unwrap().to_owned()];
        let own = ["n", "toolCallId", "title"].iter();
        words.extend(own.filter_map(|key| {
            let value = &update[*key];
            (!value.is_null()).then(|| value.to_string().replace('"', ""))
        }));
        words.join(" ")
    });
    summary.collect()
}

#[test]
fn the_last_snapshot_of_each_kind_follows_the_history() {
    let snapshot = |name: &str, n: u32| format!(r#"{{"sessionUpdate":"{name}","n":{n}}}"#);
    let params = |name: &str, n: u32| format!(r#"{{"update":{},"_meta":{{}}}}"#, snapshot(name, n));
    let items = [
        info(&snapshot("moon_update", 0)),
        info(&snapshot("usage_update", 1)),
        update(&snapshot("current_mode_update", 2)),
        info(r#"{"mode":"ours"}"#),
        prompt(),
        info(&snapshot("star_update", 3)),
        info(&params("usage_update", 4)),
        info(&snapshot("available_commands_update", 5)),
        chunk("m", "a"),
        (Kind::UpdateParams, None, params("config_option_update", 6)),
        update(&snapshot("current_mode_update", 7)),
        info(&snapshot("moon_update", 8)),
        chunk("m", "b"),
        // What belongs to the history is not a snapshot.
        info(&snapshot("plan", 9)),
        info(&snapshot("notice", 9)),
    ];
    for options in [Options::default(), exact()] {
        let lines = replay(&items, options);
        let summary = summary(&lines);
        let held: Vec<_> = summary.iter().map(String::as_str).skip(3).collect();
        assert_eq!(
            held,
            [
                "available_commands_update 5",
                "current_mode_update 7",
                "config_option_update 6",
                "usage_update 4",
                "moon_update 8",
                "star_update 3",
            ]
        );
        assert_eq!(summary[1], "agent_message_chunk");
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let note = json!({"rejoin": {"at": "2026-11-21T08:30:00.005Z", "turn": 1}});
        assert_eq!(last["params"]["_meta"], note, "its own time and turn");
        let tail = replay(
            &items,
            Options {
                skip_turns: 1,
                ..options
            },
        );
        assert!(lines.ends_with(&tail), "they are state, not history");
        assert_eq!(tail.lines().count(), 6);
    }
}

#[test]
fn what_a_title_update_leaves_out_stays_as_it_was() {
    let items = [
        info(r#"{"sessionUpdate":"session_info_update","title":"T","a":1e400}"#),
        info(
            r#"{"_meta":{"k":1},"update":{"sessionUpdate":"session_info_update","updatedAt":"x"}}"#,
        ),
        update(r#"{"sessionUpdate":"session_info_update","a":null, "b":1.0 }"#),
    ];
    let merged = |n: usize| {
        let lines = replay(&items[..n], Options::default());
        let (_, update) = lines.trim_end().split_once(r#""update":"#).unwrap();
        update.strip_suffix("}}").unwrap().to_owned()
    };
    assert_eq!(merged(1), items[0].2);
    assert_eq!(
        merged(2),
        r#"{"sessionUpdate":"session_info_update","updatedAt":"x","title":"T","a":1e400}"#
    );
    assert_eq!(
        merged(3),
        r#"{"sessionUpdate":"session_info_update","a":null, "b":1.0 ,"updatedAt":"x","title":"T"}"#
    );
}

#[test]
fn a_snapshot_beyond_a_line_is_cut_and_counted_once() {
    let long = |n: u32| {
        let words = "x".repeat(10_000);
        info(&format!(
            r#"{{"sessionUpdate":"usage_update","n":{n},"words":"{words}"}}"#
        ))
    };
    let options = Options {
        message_limit: 4096,
        ..Options::default()
    };
    let lines = replay(&[long(1), long(2)], options);
    assert_eq!(summary(&lines), ["usage_update 2"]);
    assert!(lines.len() <= 4096 && lines.contains("bytes cut in the replay"));

    let (mut replay, mut out) = (Replay::new("s", options), Vec::new());
    for n in [1, 2] {
        replay.snapshot("2026-11-21T08:30:00.000Z", &long(n).2);
    }
    replay.finish(&mut out);
    assert_eq!(
        (
            String::from_utf8(out).unwrap().lines().count(),
            replay.cut()
        ),
        (1, 1)
    );
}

#[test]
fn snapshots_from_elsewhere_count_as_the_last() {
    let at = "2026-11-21T08:30:00.000Z";
    let mut replay = Replay::new("s", Options::default());
    let mut out = Vec::new();
    let logged = Record {
        seq: 0,
        at,
        kind: Kind::Info,
        id: None,
        payload: r#"{"sessionUpdate":"usage_update","n":1}"#,
        parts: None,
    };
    replay.record(&logged, &mut out);
    for update in [
        r#"{"sessionUpdate":"usage_update","n":2}"#,
        r#"{"sessionUpdate":"agent_message_chunk","n":3}"#,
        "{}",
        "",
    ] {
        replay.snapshot(at, update);
    }
    replay.finish(&mut out);
    replay.finish(&mut out);
    assert_eq!(
        summary(std::str::from_utf8(&out).unwrap()),
        ["usage_update 2"]
    );
}

#[test]
fn kinds_without_a_rule_are_not_held_without_end() {
    let mut items = Vec::new();
    for n in 0..1000 {
        items.push(info(&format!(r#"{{"sessionUpdate":"moon_{n}"}}"#)));
    }
    items.push(info(r#"{"sessionUpdate":"moon_3","n":1}"#));
    items.push(info(r#"{"sessionUpdate":"usage_update"}"#));
    let summary = summary(&replay(&items, Options::default()));
    assert_eq!(summary.len(), 17);
    assert_eq!((&*summary[0], &*summary[4]), ("usage_update", "moon_3 1"));
}

#[test]
fn what_has_passed_is_not_replayed() {
    let notice = r#"{"sessionUpdate":"notice","severity":"info","title":"t"}"#;
    let echo = r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"p"}}"#;
    let items = [
        prompt(),
        (Kind::Transient, None, echo.to_owned()),
        update(notice),
        (
            Kind::UpdateParams,
            None,
            format!(r#"{{"update":{notice},"_meta":{{}}}}"#),
        ),
        (Kind::Transient, None, notice.to_owned()),
        (Kind::Ask, Some("1"), r#"{"options":[]}"#.to_owned()),
        (
            Kind::Answer,
            Some("1"),
            r#"{"outcome":{"outcome":"cancelled"}}"#.to_owned(),
        ),
        (Kind::AgentSessionId, None, r#"{"id":"x"}"#.to_owned()),
        (
            Kind::Output,
            None,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#.to_owned(),
        ),
    ];
    let summary = summary(&replay(&items, Options::default()));
    assert_eq!(
        summary,
        [
            "user_message_chunk",
            "tool_call t T",
            "tool_call_update t T"
        ]
    );
}

#[test]
fn no_update_comes_before_its_call() {
    let call = |kind: &str, id: &str, title: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}","title":"{title}"}}"#
        ))
    };
    let items = [
        prompt(),
        call("tool_call_update", "early", "1"),
        call("tool_call_update", r"\u006fld", "2"),
        prompt(),
        call("tool_call_update", "late", "3"),
        call("tool_call", r"l\u0061te", "4"),
        call("tool_call_update", "late", "5"),
        call("tool_call_update", "old", "6"),
        call("tool_call", "early", "7"),
        call("tool_call_update", "early", "8"),
    ];
    let all = summary(&replay(&items, Options::default()));
    assert_eq!(
        all,
        [
            "user_message_chunk",
            "tool_call early 1",
            "tool_call_update early 1",
            "tool_call old 2",
            "tool_call_update old 2",
            "user_message_chunk",
            "tool_call late 3",
            "tool_call_update late 3",
            "tool_call late 4",
            "tool_call_update late 5",
            "tool_call_update old 6",
            "tool_call early 7",
            "tool_call_update early 8",
        ]
    );
    let options = Options {
        skip_turns: 1,
        ..Options::default()
    };
    let mut tail = all[5..].to_vec();
    tail.retain(|summary| summary != "tool_call_update old 6");
    assert_eq!(summary(&replay(&items, options)), tail);
}
