//! `rejoin show`: what a conversation looks like, in colour and without, in terminals of
//! different widths, through pagers, and how much memory a long one takes.
//! `UPDATE_FIXTURES=1` writes `fixtures/show`.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use rejoin::record::{Kind, line};
use rejoin::sys::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{command, runs};
use crate::support::systems;

const ID: &str = "sess_01a1fd7e-723f-7441-b725-49b4fb5b0ded";
/// When it began: 2026-11-23T14:05:00Z.
const BEGAN: i64 = 1_795_442_700_000;

/// A log whose records are a minute apart.
fn write(store: &Path, records: &[(Kind, Option<&str>, Value)]) {
    let header = json!({ "format": 1, "sessionId": ID, "cwd": "/home/ada/cache",
        "engine": { "name": "claude-agent-acp" }, "protocolVersion": 1 });
    let header = (Kind::Session, None, header);
    let mut log = Vec::new();
    for (seq, (kind, id, payload)) in (0..).zip([&header].into_iter().chain(records)) {
        let at = Timestamp::from_millis(BEGAN + 60_000 * i64::try_from(seq).unwrap());
        line::encode(&mut log, seq, at, *kind, *id, &payload.to_string());
    }
    fs::create_dir_all(store.join("sessions")).unwrap();
    fs::write(store.join("sessions").join(format!("{ID}.jsonl")), log).unwrap();
}

fn prompt(id: &'static str, text: &str) -> (Kind, Option<&'static str>, Value) {
    let payload = json!({ "prompt": [{ "type": "text", "text": text }] });
    (Kind::Prompt, Some(id), payload)
}

fn update(name: &str, mut members: Value) -> (Kind, Option<&'static str>, Value) {
    members["sessionUpdate"] = name.into();
    (Kind::Update, None, members)
}

fn says(text: &str) -> (Kind, Option<&'static str>, Value) {
    let content = json!({ "content": { "type": "text", "text": text } });
    update("agent_message_chunk", content)
}

fn text(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

fn end(payload: Value) -> (Kind, Option<&'static str>, Value) {
    (Kind::End, None, payload)
}

const ANSWER: &str = "\
## What happens

The cache **expires** too early: `ttl` is read in *milliseconds* and compared with seconds, see \
[the manual](https://redis.io/commands/ttl), and 修复缓存是一个很长的句子没有空格所以它必须在某个地方换行否则就会超出终端的宽度 at the end.

1. Read the value
2. Compare it
   - with care
   - and with `--verbose`

> Quoted, as someone once said about caches and names of things, which are both hard.

```rust
fn ttl(&self) -> Duration {
\tDuration::from_millis(self.ttl)
}
```

| file | lines |
|---|---|
| src/cache.rs | 12 |
| README.md | 3 |

- [x] done
- [ ] not yet
";

/// A conversation with everything in it.
fn story() -> Vec<(Kind, Option<&'static str>, Value)> {
    let output: String = (1..=40)
        .map(|n| ["test ", &n.to_string(), " ... ok\n"].concat())
        .collect();
    let about =
        json!({ "sessionId": "kid", "title": "Look for callers", "state": { "state": "idle" } });
    let inner = |mut members: Value, name: &str| {
        members["sessionUpdate"] = name.into();
        (
            Kind::Subagent,
            None,
            json!({ "sessionId": "kid", "update": members }),
        )
    };
    let block = |text: &str| json!({ "content": { "type": "text", "text": text } });
    let step = |content: &str, status: &str| json!({ "content": content, "status": status, "priority": "low" });
    vec![
        prompt(
            "msg_1",
            "Fix the Redis timeout\n\n    in src/cache.rs, line 12",
        ),
        update(
            "agent_thought_chunk",
            block(
                "The user wants the timeout fixed. I should look at the cache first, and at who calls it.",
            ),
        ),
        update(
            "plan",
            json!({ "entries": [step("Read the cache", "in_progress"), step("Fix it", "pending")] }),
        ),
        says(&ANSWER[..40]),
        says(&ANSWER[40..]),
        update(
            "tool_call",
            json!({ "toolCallId": "a", "title": "Read src/cache.rs", "kind": "read", "status": "completed" }),
        ),
        update(
            "tool_call",
            json!({ "toolCallId": "b", "title": "Edit src/cache.rs", "kind": "edit", "status": "pending" }),
        ),
        update(
            "plan",
            json!({ "entries": [step("Read the cache", "completed"), step("Fix it", "pending")] }),
        ),
        update(
            "tool_call_update",
            json!({ "toolCallId": "b", "status": "completed", "content": [
            { "type": "diff", "path": "src/cache.rs", "oldText": "a\nb\nttl / 1000\nc\n", "newText": "a\nb\nttl\nc\n" }] }),
        ),
        update(
            "tool_call",
            json!({ "toolCallId": "c", "title": "`cargo test`", "kind": "execute", "status": "in_progress" }),
        ),
        update(
            "tool_call_update",
            json!({ "toolCallId": "c", "status": "failed", "content": [
            text(&format!("```console\n\u{1b}[31m{output}\u{1b}[0m```\n[exited with code 101]"))] }),
        ),
        update("subagent_update", about),
        inner(block("Find all callers."), "user_message_chunk"),
        inner(block("There are **two**."), "agent_message_chunk"),
        inner(
            json!({ "toolCallId": "d", "title": "grep ttl", "status": "completed" }),
            "tool_call",
        ),
        update(
            "tool_call",
            json!({ "toolCallId": "e", "title": "Run it", "kind": "execute", "status": "completed",
            "content": [{ "type": "terminal", "terminalId": "t" }],
            "_meta": { "terminal_info": { "terminal_id": "t" }, "terminal_output": { "terminal_id": "t", "data": "hello\n" } } }),
        ),
        update(
            "tool_call_update",
            json!({ "toolCallId": "e",
            "_meta": { "terminal_exit": { "terminal_id": "t", "exit_code": 2 } } }),
        ),
        end(json!({ "stopReason": "end_turn" })),
        prompt("msg_2", "And now?"),
        says("Well \u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}…"),
        end(json!({ "stopReason": "cancelled" })),
        prompt("msg_3", "Again"),
        end(json!({ "error": { "code": -1, "message": "the agent has \u{1b}[31mcrashed" } })),
        prompt("msg_4", "Again"),
        end(json!({ "stopReason": "refusal" })),
        prompt("msg_5", "Again"),
        update(
            "tool_call",
            json!({ "toolCallId": "f", "title": "Wait", "status": "in_progress" }),
        ),
        end(json!({ "stopReason": "cancelled", "interrupted": "the process ended" })),
    ]
}

/// `rejoin show`, where it is always noon in Greenwich and nobody has a pager.
fn show(store: &Path, more: &[&str]) -> Command {
    let mut show = command(store, &[&["sessions", "show", ID], more].concat());
    for name in [
        "COLUMNS",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "PAGER",
        "LESS",
        "TERM",
    ] {
        show.env_remove(name);
    }
    show.env("TZ", "UTC").env("HOME", "/home/ada");
    show
}

#[track_caller]
fn printed(show: &mut Command) -> String {
    let output = show.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn is_as_in_fixture(name: &str, shown: &str) {
    // So that the file can be read anywhere.
    let shown = shown.replace('\u{1b}', "␛");
    let path = Path::new("fixtures/show").join(name);
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &shown).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, expected, "UPDATE_FIXTURES=1 writes {name}");
}

#[cfg(unix)]
#[test]
fn a_conversation_in_terminals_of_different_widths() {
    let root = TempDir::new().unwrap();
    write(root.path(), &story());
    for columns in ["60", "100", "200"] {
        let colour = printed(
            show(root.path(), &[])
                .env("COLUMNS", columns)
                .env("CLICOLOR_FORCE", "1"),
        );
        is_as_in_fixture(&format!("{columns}_colour.txt"), &colour);
        let mut terminal = show(root.path(), &["--no-pager"]);
        terminal.env("COLUMNS", columns).env("NO_COLOR", "1");
        let plain = crate::support::terminal::shown(terminal);
        is_as_in_fixture(&format!("{columns}.txt"), &plain);
        // Code and what has no spaces may be wider.
        let code = |line: &&str| line.starts_with("  ") || line.contains("\u{2502}");
        let wide = plain.lines().filter(|line| !code(line));
        let wide = wide.filter(|line| line.chars().count() > columns.parse().unwrap());
        assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}

#[test]
fn a_conversation_for_a_program() {
    if !systems::can_run("a_conversation_for_a_program") {
        return;
    }
    let root = TempDir::new().unwrap();
    write(root.path(), &story());
    let shown = printed(show(root.path(), &[]).env("COLUMNS", "60"));
    is_as_in_fixture("piped.txt", &shown);
    let last = printed(&mut show(root.path(), &["--last", "2"]));
    assert!(
        last.contains("── 4 ──") && !last.contains("── 3 ──"),
        "{last}"
    );
    assert!(shown.ends_with(last.split_once("── 4 ──").unwrap().1));
    let none = printed(&mut show(root.path(), &["--last", "0"]));
    assert!(none.contains(ID) && !none.contains("──"), "{none}");
    let all = printed(&mut show(root.path(), &["--last", "99"]));
    assert_eq!(all, shown);
}

#[test]
fn damage_is_reported_at_its_place() {
    let root = TempDir::new().unwrap();
    let mut records = vec![prompt("msg_1", "first")];
    records.extend(["one\n\n", "two\n\n", "three"].map(says));
    records.push(end(json!({ "stopReason": "end_turn" })));
    records.push(prompt("msg_2", "second"));
    write(root.path(), &records);
    let log = root.path().join(format!("sessions/{ID}.jsonl"));
    let whole = fs::read_to_string(&log).unwrap();
    for (lost, before, after) in [
        ("two", "one", "second"),
        ("second", "three", "turn has no end"),
    ] {
        fs::write(&log, whole.replace(lost, "xxx")).unwrap();
        let shown = printed(&mut show(root.path(), &[]));
        let at = |words: &str| shown.find(words).unwrap_or(shown.len());
        assert!(shown.contains("checksum mismatch"), "{shown}");
        assert!(at(before) < at("Damage: line"), "{lost}: {shown}");
        assert!(at("Damage: line") < at(after), "{lost}: {shown}");
    }
}

#[test]
fn json_of_the_last_turns() {
    let root = TempDir::new().unwrap();
    write(root.path(), &story());
    let json = |more: &[&str]| -> Value {
        serde_json::from_str(&runs(
            root.path(),
            &[&["sessions", "show", ID, "--json"], more].concat(),
        ))
        .unwrap()
    };
    let all = json(&[]);
    let export = runs(root.path(), &["export", ID, "--format", "json"]);
    assert_eq!(all, serde_json::from_str::<Value>(&export).unwrap());
    let turns = |shown: &Value| -> Vec<u64> {
        let turns = shown["turns"].as_array().unwrap().iter();
        turns.map(|turn| turn["turn"].as_u64().unwrap()).collect()
    };
    let last = json(&["--last", "2"]);
    assert_eq!(turns(&last)[..], turns(&all)[turns(&all).len() - 2..]);
    let updates = last["updates"].as_array().unwrap();
    let first = &updates[0]["_meta"]["rejoin"]["turn"];
    assert_eq!(*first, turns(&last)[0], "{last}");
    let none = json(&["--last", "0"]);
    assert_eq!(
        (&none["turns"], &none["session"]),
        (&json!([]), &all["session"])
    );
    let page = runs(root.path(), &["export", ID, "--last", "1"]);
    assert_eq!(page.matches("\n## ").count(), 1, "{page}");
}

/// Pagers need a terminal.
#[cfg(unix)]
mod terminal {
    use super::*;
    use crate::support::terminal::shown;

    #[test]
    fn pagers() {
        let root = TempDir::new().unwrap();
        write(root.path(), &story());
        let with = |pager: &str| {
            let mut show = show(root.path(), &[]);
            show.env("PAGER", pager)
                .env("NO_COLOR", "1")
                .env("COLUMNS", "60");
            shown(show)
        };
        let direct = with("cat");
        assert!(direct.starts_with("Fix the Redis timeout"), "{direct}");
        assert_eq!(with(""), direct);
        assert_eq!(with("no-such-pager -x"), direct);
        assert_eq!(
            with("no-such-pager 'a b'").lines().last(),
            direct.lines().last()
        );
        assert_eq!(
            with("sed s/Redis/Valkey/"),
            direct.replace("Redis", "Valkey")
        );
        assert_eq!(
            with("sed \"s/Redis/Valkey/\""),
            direct.replace("Redis", "Valkey")
        );
        assert_eq!(with("true"), "", "one that is left at once");
        assert_eq!(with("false"), direct);
    }
}
