//! `rejoin stats`: what it counts, as a table, as JSON and as a page.

use std::path::Path;

use rejoin::record::Kind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{fails, runs};
use crate::support::logs::{log, session};
use crate::support::systems::FOLDER;

/// Two sessions: one with an agent that reports what it uses and is followed by another, and one of
/// the built-in engine.
fn store() -> TempDir {
    let root = TempDir::new().expect("folders can be made");
    let prompt = json!({ "prompt": [{ "type": "text", "text": "x" }] });
    let agent = |name: &str, model: &str| {
        let models = json!({ "currentModelId": model, "availableModels": [] });
        json!({ "id": "a", "agent": { "name": name }, "how": "new", "answer": { "models": models } })
    };
    let cost = |amount: f64| {
        let cost = json!({ "amount": amount, "currency": "USD" });
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost })
    };
    let usage = |total: u64| {
        let usage = json!({ "totalTokens": total, "inputTokens": total - 1, "outputTokens": 1 });
        json!({ "stopReason": "end_turn", "usage": usage })
    };
    let (one, two, three) = (Some("msg_1"), Some("msg_2"), Some("msg_3"));
    log(
        root.path(),
        &[
            (Kind::AgentSessionId, None, agent("ada", "big")),
            (Kind::Prompt, one, prompt.clone()),
            (Kind::Info, None, cost(1.5)),
            (Kind::End, None, usage(1000)),
            (Kind::Prompt, two, prompt.clone()),
            (Kind::Update, None, cost(2.25)),
            (Kind::End, None, usage(200)),
            (Kind::AgentSessionId, None, agent("bob", "small")),
            (Kind::Prompt, three, prompt),
            (Kind::Info, None, cost(0.25)),
            (Kind::End, None, usage(30)),
        ],
    );
    session(root.path(), "hello");
    root
}

fn stats(store: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["stats", "--json"], arguments].concat();
    serde_json::from_str(&runs(store, &arguments)).expect("it is JSON")
}

/// The sessions, turns, tokens and cost of a group.
fn numbers(group: &Value) -> (u64, u64, u64, f64) {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    (
        number(&group["sessions"]),
        number(&group["turns"]),
        number(&group["tokens"]["totalTokens"]),
        group["cost"][0]["amount"].as_f64().unwrap_or_default(),
    )
}

#[test]
fn turns_belong_to_the_agent_and_the_model_that_answered() {
    let root = store();
    let stats = stats(root.path(), &[]);
    assert_eq!(numbers(&stats["total"]), (2, 4, 1230, 2.5));
    assert_eq!(stats["total"]["tokens"]["outputTokens"], 3);
    assert_eq!(stats["total"]["cost"][0]["currency"], "USD");
    let named = |groups: &str| {
        let groups = stats[groups].as_array().unwrap().iter();
        let named = groups.map(|group| (group["name"].as_str().unwrap(), numbers(group)));
        named.collect::<Vec<_>>()
    };
    let none = (1, 1, 0, 0.0);
    assert_eq!(
        named("agents"),
        [
            ("ada", (1, 2, 1200, 2.25)),
            ("bob", (1, 1, 30, 0.25)),
            ("rejoin", none)
        ]
    );
    assert_eq!(
        named("models"),
        [
            ("big", (1, 2, 1200, 2.25)),
            ("small", (1, 1, 30, 0.25)),
            ("unknown", none)
        ]
    );
    assert_eq!(named("folders"), [(FOLDER, (2, 4, 1230, 2.5))]);
    let days: u64 = named("days").iter().map(|(_, day)| day.1).sum();
    assert_eq!(days, 4);
}

#[expect(clippy::disallowed_methods, reason = "a table of prices is no store")]
#[test]
fn costs_that_nobody_reported_are_computed_and_marked() {
    let root = TempDir::new().expect("folders can be made");
    let prompt = json!({ "prompt": [{ "type": "text", "text": "x" }] });
    let agent = |model: &str| {
        let models = json!({ "currentModelId": model, "availableModels": [] });
        json!({ "id": "a", "agent": { "name": "ada" }, "how": "new", "answer": { "models": models } })
    };
    let end = |total: u64| {
        let usage = json!({
            "totalTokens": total, "inputTokens": 1_000_000, "outputTokens": 200_000,
            "thoughtTokens": 300_000, "cachedReadTokens": 5_000_000, "cachedWriteTokens": 100_000,
        });
        json!({ "stopReason": "end_turn", "usage": usage })
    };
    let ids = ["msg_1", "msg_2", "msg_3"].map(Some);
    log(
        root.path(),
        &[
            (Kind::AgentSessionId, None, agent("maker/big-20260101")),
            (Kind::Prompt, ids[0], prompt.clone()),
            (Kind::End, None, end(6_600_000)),
            (Kind::AgentSessionId, None, agent("nobody-knows")),
            (Kind::Prompt, ids[1], prompt.clone()),
            (Kind::End, None, end(6_600_000)),
            (Kind::Prompt, ids[2], prompt),
            (Kind::End, None, json!({ "stopReason": "end_turn" })),
        ],
    );
    let prices = root.path().join("prices.json");
    let table = r#"{"from":"a test","date":"2026-02-03","models":{"big":[3,15,0.3,3.75]}}"#;
    std::fs::write(&prices, table).expect("the folder is there");
    let prices = ["--prices", prices.to_str().expect("it is text")];
    let counted = stats(root.path(), &prices);
    // 3 for what was given, 7.50 for what was said and thought, 1.50 from the cache, 0.375 for it.
    let amount = counted["total"]["computedCost"]["amount"].as_f64();
    assert!(
        (amount.expect("it is a number") - 12.375).abs() < 1e-9,
        "{counted}"
    );
    assert_eq!(counted["total"]["turnsWithoutCost"], 2);
    assert_eq!(counted["total"]["cost"], json!([]));
    assert_eq!(
        counted["prices"],
        json!({ "from": "a test", "date": "2026-02-03" })
    );
    assert_eq!(counted["months"].as_array().map(Vec::len), Some(1));
    let shown = runs(root.path(), &[&["stats"], &prices[..]].concat());
    let expected = "1 session, 3 turns, 13,200,000 tokens, ~12.38 USD by the prices of 2026-02-03, 2\n\
                    turns without a known cost\n";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(
        shown.contains("ada          1       3   13.2 M  ~12.38 USD"),
        "{shown}"
    );
    fails(
        root.path(),
        &["stats", "--prices", "nowhere"],
        1,
        "cannot read prices from nowhere",
    );
}

#[test]
fn only_the_last_days_are_counted() {
    let root = store();
    let all = stats(root.path(), &["--since", "1d"]);
    assert_eq!(all["total"]["turns"], 4);
    let none = stats(root.path(), &["--since", "0s"]);
    assert_eq!(numbers(&none["total"]), (0, 0, 0, 0.0));
}

#[test]
fn a_table_has_bars_and_fits_without_a_terminal() {
    let root = store();
    let shown = runs(root.path(), &["stats"]);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[0], "2 sessions, 4 turns, 1,230 tokens, 2.50 USD");
    assert_eq!(
        lines[2..6],
        [
            "Agent  sessions   turns   tokens        cost",
            "ada           1       2    1.2 k    2.25 USD  █████████████████████████████████",
            "bob           1       1       30    0.25 USD  ████████████████▌",
            "rejoin        1       1        –           –  ████████████████▌",
        ],
        "{shown}"
    );
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn without_turns_it_says_so() {
    let root = TempDir::new().unwrap();
    fails(root.path(), &["stats"], 1, "there is no store");
    session(root.path(), "hello");
    assert_eq!(runs(root.path(), &["stats", "--since", "0s"]), "");
}

#[cfg(target_os = "linux")]
#[test]
fn the_page_has_the_same_numbers() {
    use crate::support::command::command;

    let root = store();
    let mut open = command(root.path(), &["stats", "--open"]);
    for display in ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"] {
        open.env_remove(display);
    }
    let output = open.env("XDG_CACHE_HOME", root.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let path = String::from_utf8(output.stdout).unwrap();
    let page = std::fs::read_to_string(path.trim_end()).unwrap();
    let (_, data) = page
        .split_once("<script type=\"application/json\">\n")
        .unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data, stats(root.path(), &[]));
}
