//! What agents asked permission for, and what became of it: in lists, exports and pages.

use rejoin::record::Kind;
use rejoin::sys::{Sys, Timestamp};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

use crate::support::command::{fails, runs};
use crate::support::logs::log_of;
use crate::support::systems::FOLDER;

const DAY: i64 = 24 * 60 * 60 * 1000;

type Records = Vec<(Kind, Option<&'static str>, Value)>;

/// A session of the client `zed` with these records, so many days ago; returns its id.
fn session(store: &Path, days: i64, records: &Records) -> String {
    let sys = Sys::real();
    let id = sys.ids.session().to_string();
    let header = json!({ "format": 1, "sessionId": id, "cwd": FOLDER, "client": { "name": "zed" },
        "engine": { "name": "local" }, "protocolVersion": 1 });
    let at = Timestamp::from_millis(sys.clock.now().as_millis() - days * DAY);
    log_of(store, &header, at, records);
    id
}

fn prompt(words: &str) -> (Kind, Option<&'static str>, Value) {
    let prompt = json!({ "prompt": [{ "type": "text", "text": words }] });
    (Kind::Prompt, Some("msg_1"), prompt)
}

fn end(reason: &str) -> (Kind, Option<&'static str>, Value) {
    (Kind::End, None, json!({ "stopReason": reason }))
}

/// A tool call that runs this command, and the request for it.
fn asks(records: &mut Records, id: &'static str, title: &str, command: &str) {
    let call = json!({ "toolCallId": id, "title": title, "kind": "execute", "rawInput": { "command": command } });
    let mut update = call.clone();
    update["sessionUpdate"] = "tool_call".into();
    update["status"] = "completed".into();
    let options = json!([
        { "optionId": "y", "name": "Yes, once", "kind": "allow_once" },
        { "optionId": "n", "name": "No", "kind": "reject_once" },
    ]);
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    records.push((Kind::Update, None, update));
    let ask = json!({ "method": "session/request_permission", "params": params });
    records.push((Kind::Ask, Some(id), ask));
}

fn selected(option: &str) -> Value {
    json!({ "result": { "outcome": { "outcome": "selected", "optionId": option } } })
}

/// Three requests: one that was allowed, one that was rejected elsewhere, one without an answer.
fn conversation() -> Records {
    let mut records = vec![prompt("Clean up")];
    asks(&mut records, "call_1", "List files", "ls -la");
    records.push((Kind::Answer, Some("call_1"), selected("y")));
    asks(&mut records, "call_2", "rm", "rm -rf build");
    let mut rejected = selected("n");
    rejected["client"] = "rejoin attach".into();
    records.push((Kind::Answer, Some("call_2"), rejected));
    asks(&mut records, "call_3", "Push", "git push");
    records.push(end("cancelled"));
    records
}

#[test]
fn they_are_listed_over_the_store() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    fails(store, &["permissions"], 1, "there is no store");
    let id = session(store, 0, &conversation());
    let mut old = vec![prompt("Deploy")];
    asks(&mut old, "call_9", "make deploy", "make deploy");
    old.push((
        Kind::Answer,
        Some("call_9"),
        json!({ "error": { "code": -32603, "message": "the client\u{1b} is gone" } }),
    ));
    old.push(end("end_turn"));
    let other = session(store, 30, &old);

    let listed = runs(store, &["permissions"]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed}");
    let ours = |line: &&&str| line.starts_with(&id);
    assert_eq!(lines.iter().filter(ours).count(), 3);
    assert!(
        lines[3].starts_with(&other) && lines[3].ends_with("not given   -  make deploy"),
        "{listed}"
    );
    assert!(
        listed.contains("  allowed     zed  List files: ls -la\n"),
        "{listed}"
    );
    assert!(
        listed.contains("  rejected    rejoin attach  rm -rf build\n"),
        "{listed}"
    );
    assert!(
        listed.contains("  not given   -  Push: git push\n"),
        "{listed}"
    );
    assert_eq!(runs(store, &["permissions", "deploy"]).lines().count(), 1);
    assert_eq!(runs(store, &["permissions", "-n", "2"]).lines().count(), 2);
    let recent = runs(store, &["permissions", "--since", "7d", "--json"]);
    let recent: Value = serde_json::from_str(&recent).unwrap();
    let named = |call: &str| {
        let mut all = recent.as_array().unwrap().iter();
        all.find(|one| one["toolCallId"] == call).unwrap()
    };
    assert_eq!(recent.as_array().unwrap().len(), 3);
    let (allowed, rejected, open) = (named("call_1"), named("call_2"), named("call_3"));
    assert_eq!(allowed["sessionId"], id);
    for (one, member, value) in [
        (allowed, "decision", "allowed"),
        (allowed, "option", "Yes, once"),
        (allowed, "client", "zed"),
        (allowed, "subject", "ls -la"),
        (rejected, "decision", "rejected"),
        (rejected, "client", "rejoin attach"),
        (open, "decision", "unanswered"),
        (open, "reason", "the turn was cancelled"),
    ] {
        assert_eq!(one[member], value, "{one}");
    }
    let old = runs(store, &["permissions", "--json", &other]);
    assert!(old.contains("the client\\u001b is gone"), "{old}");
    fails(
        store,
        &["permissions", "nothing like that"],
        3,
        "there is no session",
    );
    fails(
        store,
        &["permissions", "--since", "long ago"],
        2,
        "--since must be",
    );
}

#[test]
fn a_conversation_has_them_wherever_it_is_read() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    session(store, 0, &conversation());
    let shown = runs(store, &["show", "last"]);
    let after = |title: &str| {
        let mut lines = shown
            .lines()
            .skip_while(|line| !line.contains(title))
            .skip(1);
        lines.next().unwrap_or_default().trim().to_owned()
    };
    assert!(
        after("✓ List files").starts_with("Allowed in zed, "),
        "{shown}"
    );
    assert!(after("✓ List files").ends_with(": Yes, once"), "{shown}");
    assert!(
        after("✓ rm").starts_with("Rejected in rejoin attach, "),
        "{shown}"
    );
    assert!(
        after("✓ Push").starts_with("Permission not given, "),
        "{shown}"
    );
    assert!(
        after("✓ Push").ends_with(": the turn was cancelled"),
        "{shown}"
    );
    let markdown = runs(store, &["export", "last"]);
    assert!(markdown.contains("\n\n*Allowed in zed, "), "{markdown}");
    let json: Value =
        serde_json::from_str(&runs(store, &["export", "last", "--format", "json"])).unwrap();
    let decisions = json["permissions"].as_array().unwrap().iter();
    let decisions: Vec<_> = decisions
        .map(|one| one["decision"].as_str().unwrap())
        .collect();
    assert_eq!(decisions, ["allowed", "rejected", "unanswered"]);
    let page = runs(store, &["export", "last", "--format", "html"]);
    assert_eq!(page.matches("\"permission\":\"call_").count(), 3, "{page}");
}

/// What is asked for may hold a key, and may be about something that is no tool call.
#[test]
fn what_is_about_no_call_is_shown_and_keys_are_masked() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let key = ["ghp_", "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"].concat();
    let options = json!([{ "optionId": "y", "name": "Go", "kind": "allow_once" }]);
    let call = json!({ "toolCallId": "plan", "title": format!("Use {key}?") });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    let ask = json!({ "method": "session/request_permission", "params": params });
    let form = json!({ "method": "elicitation/create", "params": {} });
    let records = vec![
        prompt("Plan"),
        (Kind::Ask, Some("ask_1"), ask),
        (Kind::Ask, Some("ask_2"), form),
        (Kind::Answer, Some("ask_1"), selected("y")),
        end("end_turn"),
        prompt("Next"),
        end("end_turn"),
    ];
    session(store, 0, &records);
    let shown = runs(store, &["show", "last"]);
    let place = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {shown}"))
    };
    assert!(place(&key) < place("Allowed in zed"), "{shown}");
    assert!(place("Allowed in zed") < place("Next"), "{shown}");
    for form in ["md", "json", "html"] {
        let text = runs(store, &["export", "last", "--redact", "--format", form]);
        assert!(
            !text.contains(&key) && text.contains("[redacted"),
            "{form}: {text}"
        );
    }
    let last = runs(store, &["show", "last", "--last", "1"]);
    assert!(!last.contains("Allowed"), "{last}");
    assert_eq!(runs(store, &["permissions"]).lines().count(), 1);
}
