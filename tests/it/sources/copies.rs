//! Conversations that several files of their tool have.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use super::import::{at_home, import};
use super::{CHANGED, copy, home, read_all, source};

/// A tool, and what a copy of is where, in the home folder.
const COPIES: [(&str, &str, &str); 16] = [
    ("claude-code", ".claude/projects/-work-app", "-work-old"),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev",
        "../../../VSCodium/User/globalStorage/saoudrizwan.claude-dev",
    ),
    (
        "codex",
        ".codex/sessions/2026/05/11",
        "../../../archived_sessions",
    ),
    (
        "cursor",
        ".cursor/projects/no-such-folder-here",
        "no-such-folder-there",
    ),
    ("gemini", ".gemini/tmp/app", "old"),
    ("grok", ".grok/sessions/%2Fsrv%2Fapp", "%2Fsrv%2Fold"),
    (
        "kilo-code",
        ".config/VSCodium/User/globalStorage/kilocode.kilo-code",
        "../../../Code/User/globalStorage/kilocode.kilo-code",
    ),
    (
        "kimi",
        ".kimi-code/sessions/wd_app_0123456789ab",
        "wd_old_0123456789ac",
    ),
    (
        "kimi-cli",
        ".kimi/sessions/8d9fbf108f79c6229f0b59258b273b63",
        "9d9fbf108f79c6229f0b59258b273b63",
    ),
    (
        "opencode",
        ".local/share/opencode/opencode.db",
        "opencode2.db",
    ),
    (
        "opencode",
        ".local/share/opencode/opencode.db",
        "opencode-stable.db",
    ),
    ("pi", ".pi/agent/sessions/--srv-app--", "--srv-old--"),
    ("qwen", ".qwen/projects/-srv-app", "-srv-old"),
    (
        "roo-code",
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline",
        "../../../VSCodium/User/globalStorage/rooveterinaryinc.roo-cline",
    ),
    (
        "vibe",
        ".vibe/logs/session/session_20260701_100000_0f1e2d3c",
        "session_20260702_100000_0f1e2d3c",
    ),
    (
        "vscode",
        ".config/Code/User/workspaceStorage/0123456789abcdef0123456789abcdef",
        "1123456789abcdef0123456789abcdef",
    ),
];

/// The titles and ids of the conversations of a tool.
fn listed(store: &Path, home: &Path, tool: &str) -> Vec<(String, String)> {
    let output = at_home(
        store,
        home,
        &["sessions", "list", "--source", tool, "--json"],
    )
    .output();
    let sessions: Vec<Value> = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sessions = sessions.iter();
    let mut listed: Vec<_> = sessions
        .map(|session| (text(&session["title"]), text(&session["sessionId"])))
        .collect();
    listed.sort();
    listed
}

/// Lists and imports what a tool has in a home folder, several times.
fn is_stable(home: &Path, tool: &str, expected: &[(String, String)]) {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    assert_eq!(listed(store, home, tool), expected, "{tool}");
    let count = expected.len() as u64;
    assert_eq!(import(store, home, tool), [count, 0, 0, 0, 0], "{tool}");
    for _ in 0..2 {
        assert_eq!(listed(store, home, tool), expected, "{tool}");
        assert_eq!(import(store, home, tool), [0, 0, count, 0, 0], "{tool}");
    }
}

#[test]
fn a_conversation_in_two_files_is_listed_and_imported_once() {
    for (tool, from, to) in COPIES {
        let home = home();
        let home = home.path();
        let store = tempfile::tempdir().unwrap();
        let expected = listed(store.path(), home, tool);
        assert!(!expected.is_empty(), "{tool}");
        let from = home.join(from);
        let to = from.parent().unwrap().join(to);
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
        is_stable(home, tool, &expected);
    }
}

/// A session of Claude Code with these prompts, which were written in these minutes.
fn claude_code(file: &Path, prompts: &[(&str, u32)]) {
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    for (prompt, minute) in prompts {
        let line = json!({ "type": "user", "uuid": prompt, "parentUuid": parent, "sessionId": "s1",
            "timestamp": format!("2026-02-01T10:{minute:02}:00.000Z"), "cwd": "/srv/app",
            "message": { "role": "user", "content": prompt } });
        lines.push(format!("{line}\n"));
        parent = (*prompt).into();
    }
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, lines.concat()).unwrap();
}

/// Sets when a file was changed, in hours from the usual time.
fn touch(file: &Path, hours: u64) {
    let file = fs::File::options().append(true).open(file).unwrap();
    file.set_modified(UNIX_EPOCH + CHANGED + Duration::from_hours(hours))
        .unwrap();
}

fn shown(store: &Path, home: &Path, id: &str) -> String {
    let output = at_home(store, home, &["show", id, "--sources", "all"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn the_file_in_which_something_was_said_last_counts() {
    let (home, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let id = "00001a20-0000-4000-8000-000000000001";
    let [one, two] = ["-srv-one", "-srv-two"]
        .map(|folder| home.join(format!(".claude/projects/{folder}/{id}.jsonl")));
    // A copy that was made of an old state, later.
    claude_code(&one, &[("Apples.", 1), ("Pears.", 2)]);
    claude_code(&two, &[("Apples.", 1)]);
    touch(&one, 1);
    touch(&two, 2);
    assert!(shown(store, home, id).contains("Pears."));
    assert_eq!(import(store, home, "claude-code"), [1, 0, 0, 0, 0]);
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    assert!(shown(store, home, id).contains("Pears."));
    // The conversation goes on in the copy.
    claude_code(&two, &[("Apples.", 1), ("Plums.", 3)]);
    touch(&two, 3);
    let goes_on = shown(store, home, id);
    assert!(
        goes_on.contains("Plums.") && !goes_on.contains("Pears."),
        "{goes_on}"
    );
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    // In one file it was taken back up to the beginning, so the other one has more.
    claude_code(&two, &[("Apples.", 1)]);
    touch(&two, 4);
    for _ in 0..2 {
        import(store, home, "claude-code");
        let shown = shown(store, home, id);
        assert!(
            shown.contains("Pears.") && !shown.contains("Plums."),
            "{shown}"
        );
    }
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    fs::remove_file(&one).unwrap();
    import(store, home, "claude-code");
    assert!(!shown(store, home, id).contains("Pears."));
}

#[test]
fn of_two_snapshots_and_forms_of_a_session_the_longer_one_counts() {
    let home = home();
    let home = home.path();
    let chats = home.join(".gemini/tmp/app/chats");
    let name = "session-2026-03-01T10-00-7d1f0000";
    let chat: Value =
        serde_json::from_slice(&fs::read(chats.join(format!("{name}.json"))).unwrap()).unwrap();
    let expected = listed(tempfile::tempdir().unwrap().path(), home, "gemini");
    // An earlier snapshot under another name.
    let mut earlier = chat.clone();
    earlier["messages"].as_array_mut().unwrap().truncate(2);
    let path = chats.join("session-2026-03-01T10-05-7d1f0000.json");
    fs::write(&path, earlier.to_string()).unwrap();
    is_stable(home, "gemini", &expected);
    // The newer form, in which it goes on.
    let mut lines = vec![chat.clone()];
    lines[0]["messages"] = json!([]);
    lines.extend(chat["messages"].as_array().unwrap().iter().cloned());
    lines.push(
        json!({ "id": "later", "timestamp": "2026-03-01T11:00:00.000Z", "type": "user",
        "content": [{ "text": "In the newer form." }] }),
    );
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(chats.join(format!("{name}.jsonl")), lines.concat()).unwrap();
    is_stable(home, "gemini", &expected);
    let store = tempfile::tempdir().unwrap();
    let id = chat["sessionId"].as_str().unwrap();
    assert!(shown(store.path(), home, id).contains("In the newer form."));
}

#[test]
fn a_plain_rollout_counts_and_not_the_compressed_one() {
    let home = home();
    let home = home.path();
    let expected = listed(tempfile::tempdir().unwrap().path(), home, "codex");
    let archive = home.join(".codex/archived_sessions");
    fs::create_dir(&archive).unwrap();
    for (found, _) in read_all(source("codex"), home) {
        let bytes = fs::read(&found.path).unwrap();
        let packed = compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest);
        let name = found.path.with_added_extension("zst");
        fs::write(archive.join(name.file_name().unwrap()), packed).unwrap();
    }
    is_stable(home, "codex", &expected);
}
