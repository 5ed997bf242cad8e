//! The tokens and the cost of conversations of other tools.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;

use rejoin::record::Kind;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{places, source};

/// The ends of the turns in a file with these lines.
fn ends(name: &str, path: &str, lines: &[Value]) -> Vec<Value> {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    ends_in(name, path, |file| {
        fs::write(file, lines.join("\n") + "\n").unwrap();
    })
}

/// The same in a file that `make` makes.
fn ends_in(name: &str, path: &str, make: impl FnOnce(&Path)) -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    make(&file);
    let source = source(name);
    let found = source.find(&places(home.path())).found.remove(0);
    let conversation = source.read(&found).unwrap();
    let ends = conversation.entries.iter();
    let ends = ends.filter(|entry| entry.kind == Kind::End);
    ends.map(|end| serde_json::from_str(&end.payload).unwrap())
        .collect()
}

#[test]
fn a_message_in_several_records_counts_once() {
    let record = |uuid: &str, parent: Value, kind: &str, message: Value| {
        json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/w",
            "timestamp": "2026-03-01T10:00:00.000Z", "message": message })
    };
    let answer = |output: u64, text: &str| {
        json!({ "role": "assistant", "id": "m1", "model": "a-model",
            "content": [{ "type": "text", "text": text }],
            "usage": { "input_tokens": 3, "output_tokens": output,
                "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20 } })
    };
    let prompt = json!({ "role": "user", "content": "Hello" });
    let found = ends(
        "claude-code",
        ".claude/projects/-w/5f0c8a52-1111-4222-8333-444455556666.jsonl",
        &[
            record("u", Value::Null, "user", prompt),
            record("a", json!("u"), "assistant", answer(1, "One")),
            record("b", json!("a"), "assistant", answer(7, "Two")),
        ],
    );
    let usage = json!({ "inputTokens": 3, "outputTokens": 7, "cachedReadTokens": 100,
        "cachedWriteTokens": 20, "totalTokens": 130 });
    assert_eq!(found, [json!({ "stopReason": "end_turn", "usage": usage })]);
}

#[test]
fn a_growing_count_is_split_into_turns() {
    let event = |payload: Value| json!({ "timestamp": "2026-03-01T10:00:00.000Z", "type": "event_msg", "payload": payload });
    let meta = json!({ "timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta",
        "payload": { "id": "0190aaaa-0000-7000-8000-00000000000a", "cwd": "/w" } });
    let said = |who: &str| event(json!({ "type": who, "message": "Hello" }));
    let count = |input: u64, cached: u64, output: u64| {
        let total = json!({ "input_tokens": input, "cached_input_tokens": cached,
            "output_tokens": output, "reasoning_output_tokens": 2, "total_tokens": input + output });
        event(json!({ "type": "token_count", "info": { "total_token_usage": total } }))
    };
    let found = ends(
        "codex",
        ".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-0190aaaa-0000-7000-8000-00000000000a.jsonl",
        &[
            meta,
            said("user_message"),
            said("agent_message"),
            count(100, 40, 12),
            event(json!({ "type": "token_count", "info": null })),
            count(100, 40, 12),
            said("user_message"),
            said("agent_message"),
            count(250, 140, 20),
        ],
    );
    let usage: Vec<_> = found.iter().map(|end| &end["usage"]).collect();
    assert_eq!(
        usage,
        [
            &json!({ "inputTokens": 60, "outputTokens": 10, "thoughtTokens": 2,
                "cachedReadTokens": 40, "totalTokens": 112 }),
            &json!({ "inputTokens": 50, "outputTokens": 8, "cachedReadTokens": 100,
                "totalTokens": 158 }),
        ]
    );
}

#[test]
fn cost_grows_with_the_session() {
    let entry = |id: &str, parent: Value, message: Value| {
        json!({ "type": "message", "id": id, "parentId": parent,
            "timestamp": "2026-03-01T10:00:00.000Z", "message": message })
    };
    let user = || json!({ "role": "user", "content": "Hello" });
    let answer = |cost: f64| {
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "Yes" }],
            "model": "a-model", "usage": { "input": 1, "output": 2, "cacheRead": 4,
                "cacheWrite": 8, "cost": { "total": cost } } })
    };
    let found = ends(
        "pi",
        ".pi/agent/sessions/--w--/2026-03-01T10-00-00-000Z_0199.jsonl",
        &[
            json!({ "type": "session", "version": 3, "id": "0199", "cwd": "/w",
                "timestamp": "2026-03-01T10:00:00.000Z" }),
            entry("a", Value::Null, user()),
            entry("b", json!("a"), answer(0.25)),
            entry("c", json!("b"), user()),
            entry("d", json!("c"), answer(0.5)),
        ],
    );
    let costs: Vec<_> = found
        .iter()
        .map(|end| &end["_meta"]["rejoin"]["cost"])
        .collect();
    let cost = |amount: f64| json!({ "amount": amount, "currency": "USD" });
    assert_eq!(costs, [&cost(0.25), &cost(0.75)]);
    assert_eq!(found[1]["usage"]["totalTokens"], 15);
}

#[test]
fn each_run_of_copilot_counts_anew() {
    let event = |kind: &str, data: Value| json!({ "type": kind, "data": data, "id": "e", "timestamp": "2026-03-01T10:00:00.000Z" });
    let shutdown = |input: u64, output: u64, cached: u64| {
        let usage = json!({ "inputTokens": input, "outputTokens": output, "cacheReadTokens": cached, "cacheWriteTokens": 0 });
        event(
            "session.shutdown",
            json!({ "modelMetrics": { "m": { "usage": usage } } }),
        )
    };
    let answer = |id: &str| {
        let answer = json!({ "messageId": id, "content": "Yes", "outputTokens": 7 });
        event("assistant.message", answer)
    };
    let prompt = || event("user.message", json!({ "content": "Hello" }));
    let start = |kind: &str| {
        event(
            kind,
            json!({ "sessionId": "5f0c8a52-1111-4222-8333-444455556666", "context": { "cwd": "/w" } }),
        )
    };
    let found = ends(
        "copilot",
        ".copilot/session-state/5f0c8a52-1111-4222-8333-444455556666/events.jsonl",
        &[
            start("session.start"),
            prompt(),
            answer("a"),
            shutdown(100, 10, 60),
            // It was only looked at.
            start("session.resume"),
            event("session.shutdown", json!({ "modelMetrics": {} })),
            start("session.resume"),
            prompt(),
            answer("b"),
            shutdown(50, 7, 0),
            start("session.resume"),
            prompt(),
            answer("c"),
            event(
                "session.shutdown",
                json!({ "modelMetrics": { "m": { "requests": 2 } },
                "tokenDetails": { "input": { "tokenCount": 100 }, "output": { "tokenCount": 15 },
                    "cache_read": { "tokenCount": 5 }, "cache_write": { "tokenCount": 0 } } }),
            ),
        ],
    );
    let usage: Vec<_> = found.iter().map(|end| &end["usage"]).collect();
    assert_eq!(
        usage,
        [
            &json!({ "inputTokens": 40, "outputTokens": 10, "cachedReadTokens": 60, "totalTokens": 110 }),
            &json!({ "inputTokens": 50, "outputTokens": 7, "totalTokens": 57 }),
            &json!({ "inputTokens": 100, "outputTokens": 15, "cachedReadTokens": 5, "totalTokens": 120 }),
        ]
    );
}

#[test]
fn the_sums_of_goose_are_those_of_the_last_turn() {
    let found = ends_in("goose", ".local/share/goose/sessions/sessions.db", |file| {
        let made = Connection::open(file).unwrap().execute_batch(
            r"CREATE TABLE sessions (id, working_dir, updated_at, total_tokens,
                accumulated_input_tokens, accumulated_output_tokens);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content_json,
                created_timestamp, tokens);
            INSERT INTO sessions VALUES ('20260401_1', '/w', '2026-04-01 10:00:00', 30, 300, 40);
            INSERT INTO messages (session_id, role, content_json, created_timestamp)
                SELECT '20260401_1', role, json_array(json_object('type', 'text', 'text', 'Hello')), 1775037601
                FROM (SELECT 'user' AS role UNION ALL SELECT 'assistant'
                    UNION ALL SELECT 'user' UNION ALL SELECT 'assistant');",
        );
        made.unwrap();
    });
    let usage: Vec<_> = found.iter().map(|end| end.get("usage")).collect();
    let spent = json!({ "inputTokens": 300, "outputTokens": 40, "totalTokens": 340 });
    assert_eq!(usage, [None, Some(&spent)]);
}

#[test]
fn each_request_of_goose_counts_in_its_turn() {
    let found = ends_in("goose", ".local/share/goose/sessions/sessions.db", |file| {
        let made = Connection::open(file).unwrap().execute_batch(
            r"CREATE TABLE sessions (id, working_dir, updated_at, total_tokens, archived_at,
                accumulated_input_tokens, accumulated_output_tokens, accumulated_total_tokens,
                accumulated_cache_read_tokens, accumulated_cache_write_tokens, accumulated_cost);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content_json,
                created_timestamp, tokens);
            CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id, created_timestamp, model,
                input_tokens, output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, cost);
            INSERT INTO sessions VALUES ('20260401_1', '/w', '2026-04-01 10:00:00', 30, NULL,
                1000, 100, 1100, 300, 0, 1.5);
            INSERT INTO messages (session_id, role, content_json, created_timestamp)
                SELECT '20260401_1', role, json_array(json_object('type', 'text', 'text', 'Hello')), at
                FROM (SELECT 'user' AS role, 1775037601 AS at UNION ALL SELECT 'assistant', 1775037603
                    UNION ALL SELECT 'user', 1775037609000 UNION ALL SELECT 'assistant', 1775037612);
            INSERT INTO usage_ledger VALUES (1, '20260401_1', 1775037602, 'm-1', 200, 10, 210, 50, 0, 0.25),
                (2, '20260401_1', 1775037603, 'm-1', 300, 20, 320, 250, 0, 0.25),
                (3, '20260401_1', 1775037612, 'm-2', 400, 30, 430, 0, 0, 0.5),
                (4, 'another', 1775037612, 'm-3', 7, 7, 14, 0, 0, 7.0);",
        );
        made.unwrap();
    });
    let usage = |input: u64, output: u64, cached: u64| {
        let mut usage = json!({ "inputTokens": input, "outputTokens": output,
            "totalTokens": input + output + cached });
        if cached > 0 {
            usage["cachedReadTokens"] = cached.into();
        }
        usage
    };
    let all: Vec<_> = found.iter().map(|end| &end["usage"]).collect();
    // What was spent before there was a ledger counts in the last turn.
    assert_eq!(all, [&usage(200, 30, 300), &usage(500, 70, 0)]);
    let about = |of: &Value| {
        let about = &of["_meta"]["rejoin"];
        (about["cost"]["amount"].as_f64(), about["model"].clone())
    };
    let expected = [(Some(0.5), json!("m-1")), (Some(1.5), json!("m-2"))];
    assert_eq!(found.iter().map(about).collect::<Vec<_>>(), expected);
}
