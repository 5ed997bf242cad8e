//! `rejoin export` and `rejoin open`: what leaves the store, in which form, and who can read it.

use std::fs;
use std::path::Path;

use rejoin::record::Kind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::{log, session};
use crate::support::systems::FOLDER;

/// What a page must not obey, nor a terminal.
const HOSTILE: &str = "</script><script>owned()</script><!-- \u{1b}[2Jx";

fn update(name: &str, members: &Value) -> Value {
    let mut update = members.clone();
    update["sessionUpdate"] = name.into();
    update
}

/// A conversation of three turns, which end in different ways.
fn conversation(store: &Path) -> String {
    let prompt = |text: &str| json!({ "prompt": [{ "type": "text", "text": text }] });
    let chunk = |text: &str| json!({ "content": { "type": "text", "text": text } });
    let call =
        json!({ "toolCallId": "c", "title": "Edit a.rs", "kind": "edit", "status": "pending" });
    let done = json!({ "toolCallId": "c", "status": "completed", "content": [
        { "type": "diff", "path": "a.rs", "oldText": "one\ntwo\n", "newText": "one\n2\n" },
        { "type": "content", "content": { "type": "text", "text": "```` \u{1b}[31mred\u{1b}[0m" } },
    ] });
    let plan =
        json!({ "entries": [{ "content": "a step", "status": "completed", "priority": "low" }] });
    let about = json!({ "sessionId": "kid", "title": "A helper", "state": { "state": "idle" } });
    let said =
        json!({ "sessionId": "kid", "update": update("agent_message_chunk", &chunk("done")) });
    let (a, b, c) = (Some("msg_1"), Some("msg_2"), Some("msg_3"));
    log(
        store,
        &[
            (Kind::Prompt, a, prompt(HOSTILE)),
            (
                Kind::Update,
                None,
                update("agent_thought_chunk", &chunk("hm")),
            ),
            (
                Kind::Update,
                None,
                update("agent_message_chunk", &chunk("an")),
            ),
            (
                Kind::Update,
                None,
                update("agent_message_chunk", &chunk(" answer")),
            ),
            (Kind::Update, None, update("tool_call", &call)),
            (Kind::Update, None, update("tool_call_update", &done)),
            (Kind::Update, None, update("plan", &plan)),
            (Kind::Update, None, update("subagent_update", &about)),
            (Kind::Subagent, None, said),
            (
                Kind::End,
                None,
                json!({ "stopReason": "end_turn", "usage": { "totalTokens": 7 } }),
            ),
            (Kind::Prompt, b, prompt("second")),
            (
                Kind::End,
                None,
                json!({ "error": { "code": -1, "message": "no luck" } }),
            ),
            (Kind::Prompt, c, prompt("third")),
        ],
    )
}

#[test]
fn json_has_the_updates_of_a_load_and_the_ends_of_turns() {
    let root = TempDir::new().unwrap();
    let id = conversation(root.path());
    let shown = runs(root.path(), &["export", &id, "--format", "json"]);
    let export: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(export["rejoinExport"], 1);
    assert_eq!(export["session"]["sessionId"], id);
    assert_eq!(export["session"]["cwd"], FOLDER);
    assert_eq!(export["session"]["turns"], 3);
    let updates = export["updates"].as_array().unwrap();
    let names: Vec<_> = updates
        .iter()
        .map(|update| update["update"]["sessionUpdate"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "user_message_chunk",
            "agent_thought_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "plan",
            "subagent_update",
            "agent_message_chunk",
            "user_message_chunk",
            "user_message_chunk",
        ]
    );
    assert_eq!(updates[0]["update"]["content"]["text"], HOSTILE);
    assert_eq!(updates[2]["update"]["content"]["text"], "an answer");
    assert_eq!(updates[2]["_meta"]["rejoin"]["turn"], 1);
    assert_eq!(updates[7]["sessionId"], "kid");
    let turns = export["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[0]["end"]["usage"]["totalTokens"], 7);
    assert_eq!(turns[1]["end"]["error"]["message"], "no luck");
    assert_eq!(turns[2], json!({ "turn": 3 }));
}

#[test]
fn a_page_has_the_conversation_as_data_only() {
    let root = TempDir::new().unwrap();
    let id = conversation(root.path());
    let page = runs(root.path(), &["export", &id, "--format", "html"]);
    assert!(
        page.contains("default-src 'none'; script-src 'sha256-"),
        "{page}"
    );
    // One element for the script and one for the data.
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("owned()</script").count(), 0);
    assert!(
        !page.contains(" src=\"http") && !page.contains("@DATA@"),
        "{page}"
    );
    let (_, data) = page
        .split_once("<script type=\"application/json\">\n")
        .unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let lines: Vec<Value> = data
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["sessionId"], id);
    assert_eq!(lines[1]["update"]["content"]["text"], HOSTILE);
    assert_eq!(lines.last().unwrap(), &json!({ "turn": 3 }));
}

#[test]
fn keys_and_tokens_are_masked_in_every_form() {
    let root = TempDir::new().unwrap();
    let key = ["ghp", "_", "x7Kq2mVb9TzR4nLw8YcJ3hFs6DgP1aQe5UoX"].concat();
    let id = session(root.path(), &format!("my key is {key}, keep it"));
    for format in ["md", "html", "json"] {
        let arguments = ["export", &id, "--format", format];
        assert!(runs(root.path(), &arguments).contains(&key), "{format}");
        let (shown, said) = redacted(root.path(), &arguments);
        assert!(!shown.contains(&key), "{format}: {shown}");
        assert!(
            shown.contains("my key is [redacted github-pat], keep it"),
            "{format}"
        );
        assert_eq!(said, "rejoin: masked 1 key or token\n");
    }
    let id = session(root.path(), "there is no key here");
    let (_, said) = redacted(root.path(), &["export", &id]);
    assert_eq!(
        said,
        "rejoin: no key or token was found that could be masked\n"
    );
}

#[test]
fn secrets_are_listed_by_their_kinds_and_not_shown() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let key = ["ghp", "_", "x7Kq2mVb9TzR4nLw8YcJ3hFs6DgP1aQe5UoX"].concat();
    let id = session(store, &format!("my key is {key}, {key} again"));
    session(store, "there is no key here");
    assert_eq!(
        runs(store, &["secrets"]),
        format!("{id}  github-pat  1  store\n")
    );
    let printed = runs(store, &["secrets", "--json"]);
    assert!(!printed.contains(&key), "{printed}");
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json[0]["sessionId"], id);
    assert_eq!(json[0]["secrets"], json!({ "github-pat": 1 }));
    assert_eq!(json.as_array().unwrap().len(), 1);
    // A title may end within a password.
    let password = "Zx9qLm4Tt7Vb2Kp8Qw3R".repeat(20);
    session(
        store,
        &format!("{} https://ada:{password}@db.example/x", "so ".repeat(20)),
    );
    let printed = runs(store, &["secrets", "--json"]);
    assert!(!printed.contains(&password[..12]), "{printed}");
    let kinds = runs(store, &["secrets", "--kinds"]);
    let kinds: Vec<_> = kinds.lines().collect();
    assert!(kinds.contains(&"github-pat") && kinds.contains(&"anthropic-token"));
    assert!(kinds.is_sorted() && kinds.len() > 200, "{}", kinds.len());
}

/// What a command with `--redact` prints on stdout and stderr.
fn redacted(store: &Path, arguments: &[&str]) -> (String, String) {
    let arguments = [arguments, &["--redact"]].concat();
    let output = command(store, &arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// A title is the beginning of a text, and may end within a key.
#[test]
fn no_title_has_the_beginning_of_a_key() {
    let root = TempDir::new().unwrap();
    let key = ["ghp", "_", "x7Kq2mVb9TzR4nLw8YcJ3hFs6DgP1aQe5UoX"].concat();
    let lines: Vec<String> = (0..14)
        .map(|n| format!("{n:02}aQx{}", "Zr9Kc4Wp1N".repeat(6)))
        .collect();
    let kind = ["RSA ", "PRIVATE KEY"].concat();
    let pem = format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----",
        lines.join("\n")
    );
    let command = format!("echo \"{pem}\" > key.pem");
    let prompt = format!("Fetch the sources of the orchard again, now with this key: {key}");
    let title = |text: &str, length| text.chars().take(length).chain(['…']).collect::<String>();
    let call = json!({ "toolCallId": "c", "title": title(&command, 500), "kind": "execute",
        "status": "completed", "rawInput": { "command": command } });
    let name = json!({ "title": title(&prompt, 79) });
    let id = log(
        root.path(),
        &[
            (
                Kind::Prompt,
                Some("msg_1"),
                json!({ "prompt": [{ "type": "text", "text": prompt }] }),
            ),
            (Kind::Info, None, update("session_info_update", &name)),
            (Kind::Update, None, update("tool_call", &call)),
            (Kind::End, None, json!({ "stopReason": "end_turn" })),
        ],
    );
    for format in ["md", "html", "json"] {
        let arguments = ["export", &id, "--format", format];
        assert!(runs(root.path(), &arguments).contains("sources of the orchard again"));
        let (shown, said) = redacted(root.path(), &arguments);
        assert!(!shown.contains(&key[..10]), "{format}: {shown}");
        assert!(
            lines.iter().all(|line| !shown.contains(&line[..20])),
            "{format}: {shown}"
        );
        assert!(
            shown.contains("[redacted private-key]"),
            "{format}: {shown}"
        );
        assert_eq!(said, "rejoin: masked 2 keys and tokens\n");
    }
}

#[test]
fn a_long_page_has_its_data_in_parts() {
    let root = TempDir::new().unwrap();
    let id = session(root.path(), &"x".repeat(600 * 1024));
    let page = runs(root.path(), &["export", &id, "--format", "html"]);
    assert!(page.matches("<script type=\"application/json\">").count() > 1);
}

#[test]
fn markdown_is_readable_and_has_nothing_for_a_terminal() {
    let root = TempDir::new().unwrap();
    let id = conversation(root.path());
    let shown = runs(root.path(), &["export", &id]);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let (_, shown) = shown.split_once("\n## 1. ").unwrap();
    // What follows the time of the turn.
    let (_, first) = shown.split_once('\n').unwrap();
    let (first, rest) = first.split_once("\n## 2. ").unwrap();
    assert_eq!(
        first,
        "\n**User**\n\n</script><script>owned()</script><!-- x\n\n> *Thought:* hm\n\n**Agent**\n\n\
         an answer\n\n**edit** `Edit a.rs`\n\n```diff\n--- a.rs\n+++ a.rs\n one\n-two\n+2\n```\n\n\
         `````\n```` red\n`````\n\n**Plan**\n\n- [x] a step\n\n\
         > **Subagent: A helper**\n>\n> **Agent**\n>\n> done\n"
    );
    assert!(rest.contains("*The turn failed: no luck*"), "{rest}");
    assert!(rest.contains("*The turn has no end in the log.*"), "{rest}");
}

#[test]
fn a_file_is_the_users_alone_and_its_name_says_the_form() {
    let root = TempDir::new().unwrap();
    let id = conversation(root.path());
    for (name, begins) in [
        ("a.HTML", "<!doctype html>"),
        ("a.json", "{\n\"rejoinExport\""),
        ("a.txt", "# "),
    ] {
        let path = root.path().join(name);
        let file = path.to_str().unwrap();
        assert_eq!(runs(root.path(), &["export", &id, "--output", file]), "");
        assert!(
            fs::read_to_string(&path).unwrap().starts_with(begins),
            "{name}"
        );
        assert_private(&path, 0o600);
    }
    // Written anew as a whole, and nothing else is left.
    let path = root.path().join("a.txt");
    runs(
        root.path(),
        &["export", &id, "--output", path.to_str().unwrap()],
    );
    let mut names = fs::read_dir(root.path()).unwrap();
    assert!(names.all(|entry| !entry.unwrap().path().to_string_lossy().ends_with(".part")));
    let missing = root.path().join("missing").join("a.md");
    let arguments = ["export", &id, "--output", missing.to_str().unwrap()];
    fails(root.path(), &arguments, 1, "cannot write");
    let other = root.path().join("a.pdf");
    let arguments = ["export", &id, "--output", other.to_str().unwrap()];
    fails(root.path(), &arguments, 2, "there is no export as .pdf");
    assert!(!other.exists());
}

#[cfg(unix)]
#[test]
fn what_is_not_a_regular_file_stays() {
    let root = TempDir::new().unwrap();
    let id = conversation(root.path());
    let export = |path: &Path| runs(root.path(), &["export", &id, "-o", path.to_str().unwrap()]);
    let (file, link) = (root.path().join("a.md"), root.path().join("link.md"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for _ in 0..2 {
        export(&link);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().starts_with("# "));
    }
    // A device, like a pipe, is written to.
    assert!(export(Path::new("/dev/stdout")).starts_with("# "));
}

#[cfg(unix)]
fn assert_private(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::metadata(path).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, mode, "{}", path.display());
}

#[cfg(not(unix))]
fn assert_private(_: &Path, _: u32) {}

#[test]
fn sessions_that_are_not_there_are_reported() {
    let root = TempDir::new().unwrap();
    let other = "sess_01a1fd7e-723f-7441-b725-49b4fb5b0ded";
    fails(root.path(), &["export", other], 1, "there is no store");
    session(root.path(), "hello");
    for command in ["export", "open"] {
        fails(root.path(), &[command, other], 3, "there is no session");
        fails(
            root.path(),
            &[command, "nonsense"],
            3,
            "there is no session",
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn open_writes_the_page_to_the_cache_and_names_it() {
    let root = TempDir::new().unwrap();
    let store = root.path().join("store");
    let id = conversation(&store);
    let mut open = command(&store, &["open", &id]);
    for display in ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"] {
        open.env_remove(display);
    }
    let output = open.env("XDG_CACHE_HOME", root.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let pages = root.path().join("rejoin/pages");
    let page = pages.join(format!("{id}.html"));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("{}\n", page.display())
    );
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .starts_with("<!doctype html>")
    );
    assert_private(&page, 0o600);
    assert_private(&pages, 0o700);
    let mut delete = command(&store, &["sessions", "delete", "--forever", "--yes", &id]);
    let output = delete.env("XDG_CACHE_HOME", root.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!page.exists(), "what is deleted for good has no page");
}

#[cfg(target_os = "linux")]
#[test]
fn a_conversation_of_another_tool_is_read_from_its_files() {
    let root = TempDir::new().unwrap();
    let home = std::path::absolute("fixtures/sources/home").unwrap();
    let run = |arguments: &[&str]| {
        let mut rejoin = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
        rejoin.args(arguments).env_clear().env("HOME", &home);
        let output = rejoin.env("XDG_DATA_HOME", root.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let other = root.path().join("other");
    let other = other.to_str().unwrap();
    run(&["--store", other, "import", "codex"]);
    let list: Value =
        serde_json::from_str(&run(&["--store", other, "sessions", "list", "--json"])).unwrap();
    let id = list[0]["sessionId"].as_str().unwrap();
    fs::create_dir_all(root.path().join("rejoin/sessions")).unwrap();
    let export =
        |arguments: &[&str]| run(&[arguments, &["export", id, "--format", "json"]].concat());
    assert_eq!(export(&[]), export(&["--store", other]));
    let logs = fs::read_dir(root.path().join("rejoin/sessions")).unwrap();
    assert_eq!(logs.count(), 0, "nothing is copied");
}
