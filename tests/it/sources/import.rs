//! `rejoin import`: from a home folder into a store, and again.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use rejoin::record::line;
use rejoin::sources::ToolFolders;
use serde_json::{Value, json};

use super::{home, of_files, places};
use crate::support::command::{command, runs};

/// The command with this home folder.
pub(super) fn at_home(store: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = command(store, arguments);
    command.env("HOME", home).env("USERPROFILE", home);
    for name in ToolFolders::names() {
        command.env_remove(name);
    }
    command
}

fn run(store: &Path, home: &Path, arguments: &[&str]) -> Output {
    at_home(store, home, arguments).output().unwrap()
}

/// The report of an import of one source: how many conversations were imported, extended, unchanged,
/// continued here, and deleted.
pub(super) fn import(store: &Path, home: &Path, source: &str) -> [u64; 5] {
    let output = run(store, home, &["import", "--json", source]);
    assert!(output.status.success(), "{output:?}");
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &reports[0];
    assert_eq!(report["failed"], 0);
    let names = ["imported", "extended", "unchanged", "differing", "deleted"];
    names.map(|name| report[name].as_u64().unwrap())
}

/// The sessions in the store by title.
pub(super) fn listed(store: &Path) -> Vec<(String, String)> {
    let sessions: Value =
        serde_json::from_str(&runs(store, &["sessions", "list", "--json"])).unwrap();
    let sessions = sessions.as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    sessions
        .map(|session| (text(&session["title"]), text(&session["sessionId"])))
        .collect()
}

#[test]
fn unknown_kinds_are_named_those_of_subagents_included() {
    let (home, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let chats = home.path().join(".qwen/projects/-srv/chats");
    let subagents = home.path().join(".qwen/projects/-srv/subagents/s1");
    let record = |kind: &str, text: &str, parent: &str| {
        let message = json!({"parts": [{"text": text}]});
        json!({
            "type": kind, "uuid": text, "parentUuid": parent, "sessionId": "s1", "cwd": "/srv",
            "message": message,
        })
    };
    let file = |folder: &Path, name: &str, records: &[Value]| {
        fs::create_dir_all(folder).unwrap();
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
    };
    let of_user = [
        record("user", "Do it.", ""),
        record("hologram", "1", "Do it."),
        record("user", "And this.", "1"),
    ];
    file(&chats, "s1.jsonl", &of_user);
    let of_agent = [
        record("user", "A task.", ""),
        record("hologram", "2", "A task."),
        record("omen", "3", "2"),
    ];
    file(&subagents, "a1.jsonl", &of_agent);
    let output = run(store.path(), home.path(), &["import", "--json", "qwen"]);
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports[0]["unknownRecords"], 3, "{reports}");
    let expected = json!({"hologram": 2, "omen": 1});
    assert_eq!(reports[0]["unknownKinds"], expected);
}

#[test]
fn what_tools_keep_becomes_sessions_and_stays_what_it_was() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let output = run(store, home, &["import"]);
    assert!(output.status.success(), "{output:?}");
    let noted = String::from_utf8(output.stderr).unwrap();
    let named = noted.lines().filter(|line| line.contains(", line "));
    assert_eq!(named.count(), 2, "{noted}");
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = "\
amp          2 imported, 2 unknown records left out
antigravity  1 imported, 1 unknown record left out
claude-code  1 imported, 1 unknown record left out, 1 damaged line
cline        2 imported, 1 unknown record left out
codex        2 imported, 1 without a prompt or part of another, 1 unknown record left out
copilot      1 imported, 1 unknown record left out
crush        1 imported, 1 unknown record left out
cursor       1 imported, 1 unknown record left out
droid        1 imported, 1 without a prompt or part of another, 1 unknown record left out
gemini       2 imported
goose        4 imported, 1 unknown record left out, 1 damaged line
grok         1 imported, 1 without a prompt or part of another, 1 unknown record left out
hermes       2 imported, 1 unknown record left out
kilo         1 imported
kilo-code    1 imported
kimi         1 imported, 1 unknown record left out
kimi-cli     3 imported, 1 unknown record left out
kiro         2 imported, 1 without a prompt or part of another, 2 unknown records left out
omp          2 imported, 1 unknown record left out
openclaude   1 imported
opencode     2 imported
openhands    1 imported, 1 unknown record left out
pi           2 imported, 1 unknown record left out
qwen         1 imported
roo-code     1 imported, 1 unknown record left out
vibe         1 imported, 1 unknown record left out
vscode       2 imported, 1 unknown record left out
zed          2 imported, 1 unknown record left out
";
    assert_eq!(said, expected);
    let titles: Vec<String> = listed(store).into_iter().map(|(title, _)| title).collect();
    let expected = [
        "A sharp axe",
        "Mend the nest.",
        "A bench with four legs",
        "Drop the apple.",
        "A quiet engine",
        "Whittle a spoon.",
        "/review the bucket",
        "Dig the well",
        "Oil the gate",
        "Pears into the orchard",
        "Feed the ducks.",
        "Hello, editor.",
        "Make a chart.",
        "A clock that runs",
        "The loop",
        "Paint the fence",
        "The button",
        "Greet.",
        "Sort the list.",
        "Weigh the cake",
        "Hello, early version.",
        "Read it.",
        "Show the log.",
        "Hello, goose.",
        "Chapter two",
        "The build",
        "Numbers in a file",
        "Pictures of plums",
        "Ask three of them.",
        "Hello.",
        "Files",
        "Writing",
        "Make a file.",
        "Reading",
        "The fix",
        "First.",
        "Greeting and files",
        "Fix the parser",
        "Run the tests",
        "Close the gate.",
        "An early one",
        "Copied",
        "Hello from an early version.",
        "Early",
    ];
    assert_eq!(titles, expected);
    runs(store, &["sessions", "verify"]);
    // Words of an answer are found.
    let found = runs(store, &["sessions", "search", "parser is fixed"]);
    assert_eq!(
        found
            .lines()
            .filter(|line| line.starts_with("sess_"))
            .count(),
        1,
        "{found}"
    );
    assert_eq!(import(store, home, "codex"), [0, 0, 2, 0, 0]);
    let nothing = tempfile::tempdir().unwrap();
    let output = run(store, nothing.path(), &["import", "gemini"]);
    let folder = nothing.path().join(".gemini").join("tmp");
    let expected = format!("gemini       no conversations in {}\n", folder.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let output = run(store, nothing.path(), &["import"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("No conversations of 2"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // A file that is no database is an error, and the other sources are read.
    let database = home.join(".local/share/opencode/opencode.db");
    fs::write(&database, "not a database").unwrap();
    let output = run(store, home, &["import", "opencode", "codex", "codex"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("\nopencode     1 failed\n"), "{said}");
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("opencode.db: file is not a database"), "{why}");
}

#[test]
fn a_conversation_that_grows_is_continued_in_its_session() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let folder = home.join(".codex/sessions/2025/06/01");
    let name = "rollout-2025-06-01T08-00-00-0190aaaa-0000-7000-8000-000000000003.jsonl";
    fs::remove_dir_all(home.join(".codex/sessions/2026")).unwrap();
    assert_eq!(import(store, home, "codex"), [1, 0, 0, 0, 0]);
    let append = |text: &str| {
        let file = OpenOptions::new().append(true).open(folder.join(name));
        writeln!(file.unwrap(), "{text}").unwrap();
    };
    // The turn goes on, and another one follows.
    append(
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"More."}]}"#,
    );
    assert_eq!(import(store, home, "codex"), [0, 1, 0, 0, 0]);
    append(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Next."}]}"#);
    append(
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}"#,
    );
    assert_eq!(import(store, home, "codex"), [0, 1, 0, 0, 0]);
    assert_eq!(import(store, home, "codex"), [0, 0, 1, 0, 0]);
    let (_, id) = listed(store).remove(0);
    let shown = runs(store, &["sessions", "show", &id]);
    let order = ["Hello from", "Hello.", "More.", "Next.", "Yes."];
    let at = order.map(|text| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text} in {shown}"))
    });
    assert!(at.is_sorted(), "{shown}");
    runs(store, &["sessions", "verify"]);
    // Something else than before: the session is what the file is, with what was set here.
    runs(store, &["sessions", "rename", &id, "My name"]);
    let file = folder.join(name);
    let text = fs::read_to_string(&file).unwrap();
    let change = |from: &str, to: &str| fs::write(&file, text.replace(from, to)).unwrap();
    change("Next.", "Other.");
    assert_eq!(import(store, home, "codex"), [0, 0, 0, 0, 0]);
    let renewed = runs(store, &["sessions", "show", &id]);
    assert!(
        renewed.contains("Other.") && !renewed.contains("Next."),
        "{renewed}"
    );
    assert_eq!(listed(store), [("My name".to_owned(), id.clone())]);
    assert_eq!(import(store, home, "codex"), [0, 0, 1, 0, 0]);
    // Shorter than before; then nothing, which changes nothing.
    let (first, _) = text.split_once("Next.").unwrap();
    let (first, _) = first.rsplit_once('\n').unwrap();
    fs::write(&file, format!("{first}\n")).unwrap();
    import(store, home, "codex");
    let shorter = runs(store, &["sessions", "show", &id]);
    assert!(
        shorter.contains("More.") && !shorter.contains("Other."),
        "{shorter}"
    );
    fs::write(&file, "").unwrap();
    import(store, home, "codex");
    assert_eq!(runs(store, &["sessions", "show", &id]), shorter);
    fs::remove_file(&file).unwrap();
    import(store, home, "codex");
    assert_eq!(runs(store, &["sessions", "show", &id]), shorter);
    runs(store, &["sessions", "verify"]);
}

#[test]
fn a_session_that_the_user_deleted_is_not_imported_again() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    assert_eq!(import(store, home, "claude-code"), [1, 0, 0, 0, 0]);
    let (_, id) = listed(store).remove(0);
    runs(store, &["sessions", "delete", &id]);
    assert_eq!(import(store, home, "claude-code"), [0, 0, 0, 0, 1]);
    assert_eq!(listed(store), []);
}

#[test]
fn a_conversation_that_is_imported_in_mid_turn_is_completed_later() {
    // What VS Code adds may change what was there before: then the copy is made anew.
    for source in of_files().filter(|source| source.name != "vscode") {
        let home = home();
        let search = source.find(&places(home.path()));
        for found in search.found {
            let whole = fs::read(&found.path).unwrap();
            let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
            if found.path.extension().is_none_or(|name| name != "jsonl") {
                continue;
            }
            // Up to and with the first line of a tool call.
            let names = [
                "tool_use",
                "function_call",
                "toolCall",
                "tool.call",
                "toolRequests",
            ];
            let calls = |line: &&[u8]| {
                let text = String::from_utf8_lossy(line);
                names.iter().any(|name| text.contains(name))
            };
            let Some(at) = lines.iter().position(calls) else {
                continue;
            };
            let store = tempfile::tempdir().unwrap();
            fs::write(&found.path, lines[..=at].concat()).unwrap();
            import(store.path(), home.path(), source.name);
            fs::write(&found.path, &whole).unwrap();
            let [_, extended, _, differing, _] = import(store.path(), home.path(), source.name);
            let name = found.path.display();
            assert_eq!((extended, differing), (1, 0), "{name}");
            let [imported, extended, _, differing, _] =
                import(store.path(), home.path(), source.name);
            assert_eq!((imported, extended, differing), (0, 0, 0), "{name}");
            runs(store.path(), &["sessions", "verify"]);
        }
    }
}

#[test]
fn keys_are_masked_with_or_without_a_copy_that_has_them() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let key = ["gh", "p_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"].concat();
    let file = home.join(".pi/agent/sessions/--srv-app--/2026-03-04T10-00-00-000Z_0200.jsonl");
    let line = |number: u32, text: &str| {
        format!(
            r#"{{"type":"message","timestamp":"2026-03-04T10:00:0{number}.000Z","message":{{"role":"user","content":[{{"type":"text","text":"{text} {key}"}}]}}}}"#
        )
    };
    let head = r#"{"type":"session","version":1,"id":"0200","timestamp":"2026-03-04T10:00:00.000Z","cwd":"/srv/app"}"#;
    let write = |lines: &[String]| {
        fs::write(
            &file,
            [&[head.to_owned()], lines].concat().join("\n") + "\n",
        )
        .unwrap();
    };
    let redacting = || {
        let output = run(store, home, &["import", "--json", "--redact", "pi"]);
        let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
        let names = [
            "imported",
            "extended",
            "unchanged",
            "differing",
            "keepingSecrets",
        ];
        names.map(|name| reports[0][name].as_u64().unwrap())
    };
    let shown = || {
        let (_, id) = listed(store).remove(0);
        runs(store, &["sessions", "show", &id])
    };
    let said = || {
        let output = run(store, home, &["import", "--redact", "pi"]);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    write(&[line(1, "First")]);
    let kinds = |sources| {
        let output = run(store, home, &["secrets", "--json", "--sources", sources]);
        let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let kinds = found
            .iter()
            .map(|found| found["secrets"]["github-pat"].as_u64());
        kinds.collect::<Vec<_>>()
    };
    // What the index has of the tool's own file goes with the import that masks it.
    let found = || {
        let search = ["search", &key, "--json", "--sources", "pi"];
        String::from_utf8(run(store, home, &search).stdout).unwrap()
    };
    let is_indexed = || {
        let names = ["index.sqlite", "index.sqlite-wal"];
        let mut files = names.iter().map(|name| fs::read(store.join(name)));
        files.any(|bytes| {
            let bytes = bytes.unwrap_or_default().to_ascii_lowercase();
            let part = key.to_ascii_lowercase();
            memchr::memmem::find(&bytes, &part.as_bytes()[8..20]).is_some()
        })
    };
    assert!(found().contains(&key) && is_indexed(), "{}", found());
    assert_eq!(redacting(), [2, 0, 0, 0, 0]);
    assert!(!is_indexed());
    assert_eq!(found(), "[]\n");
    // The tool's own file is as it was.
    assert_eq!((kinds("none"), kinds("pi")), (vec![], vec![Some(1)]));
    let output = run(store, home, &["secrets", "--json", "--sources", "pi"]);
    let secrets: Value = serde_json::from_slice(&output.stdout).unwrap();
    let place = json!({ "place": "file", "path": file, "secrets": { "github-pat": 1 } });
    assert_eq!(secrets[0]["places"], json!([place]));
    assert_eq!(secrets[0]["agentSessions"].as_array().unwrap().len(), 1);
    assert!(
        shown().contains("First [redacted github-pat]"),
        "{}",
        shown()
    );
    write(&[line(1, "First"), line(2, "Second")]);
    assert_eq!(redacting(), [0, 1, 1, 0, 0]);
    assert!(!shown().contains(&key));
    // What is new is masked as what was copied is, also by a list and without the option.
    write(&[line(1, "First"), line(2, "Second"), line(3, "Third")]);
    run(store, home, &["list", "--sources", "pi"]);
    assert!(shown().contains("Third [redacted") && !shown().contains(&key));
    let other = head.replace("0200", "0201") + "\n" + &line(1, "Plain") + "\n";
    fs::write(
        file.with_file_name("2026-03-04T10-00-00-000Z_0201.jsonl"),
        other,
    )
    .unwrap();
    assert_eq!(import(store, home, "pi"), [1, 0, 2, 0, 0]);
    // With it again, what was copied stays, and the report says so.
    assert_eq!(redacting(), [0, 0, 3, 0, 1]);
    let (report, masked) = said();
    assert!(
        report.contains("1 session with keys copied before, without --redact"),
        "{report}"
    );
    assert_eq!(
        masked,
        "rejoin: no key or token was found that could be masked\n"
    );
    // What an earlier release has masked under another name is the same conversation.
    let (_, id) = listed(store).remove(0);
    let log = store.join("sessions").join(format!("{id}.jsonl"));
    let earlier = fs::read_to_string(&log).unwrap();
    let mut renamed = Vec::new();
    for (seq, written) in (0..).zip(earlier.lines()) {
        let record = line::decode(written.as_bytes()).unwrap();
        let payload = record
            .payload
            .replace("[redacted github-pat]", "[redacted generic-api-key]");
        line::encode_at(
            &mut renamed,
            seq,
            record.at,
            record.kind,
            record.id,
            &payload,
        );
    }
    fs::write(&log, renamed).unwrap();
    let lines = [
        line(1, "First"),
        line(2, "Second"),
        line(3, "Third"),
        line(4, "Fourth"),
    ];
    write(&lines);
    let (_, masked) = said();
    assert_eq!(masked, "rejoin: masked 1 key or token\n");
    assert!(
        shown().contains("Fourth [redacted github-pat]"),
        "{}",
        shown()
    );
}

/// The tool's own title, and that of a call, are beginnings of longer texts.
#[test]
fn keys_are_masked_before_titles_are_cut() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let body: Vec<_> = (0..16)
        .map(|n| format!("{n:02}bTx{}", "Qw7Lm3Vz5K".repeat(6)))
        .collect();
    let kind = ["RSA ", "PRIVATE KEY"].concat();
    let pem = format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----",
        body.join("\n")
    );
    let key = ["sk-ant", "-oat01-", &"Ab3De5Fg7H".repeat(9)].concat();
    let id = "00001aa0-5c1e-4a7d-9b20-0000000000f8";
    let record = |n: u32, kind: &str, message: Value| {
        json!({ "type": kind, "uuid": format!("u{n}"), "parentUuid": (n > 1).then(|| format!("u{}", n - 1)),
            "sessionId": id, "timestamp": format!("2026-03-04T10:00:0{n}.000Z"), "cwd": "/srv/app",
            "isSidechain": false, "message": message })
        .to_string()
    };
    let prompt =
        format!("Store the key of the press in the usual place, and then sign in with {key}");
    let input = json!({ "command": format!("echo \"{pem}\" > key.pem") });
    let lines = [
        record(1, "user", json!({ "role": "user", "content": prompt })),
        record(
            2,
            "assistant",
            json!({ "id": "m1", "role": "assistant", "type": "message",
            "content": [{ "type": "tool_use", "id": "t1", "name": "Bash", "input": input }] }),
        ),
        record(
            3,
            "user",
            json!({ "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "" }] }),
        ),
    ];
    let folder = home.join(".claude/projects/-srv-app");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{id}.jsonl")), lines.join("\n") + "\n").unwrap();
    let check = |text: &str| {
        assert!(
            body.iter().all(|line| !text.contains(&line[..20])),
            "{text}"
        );
        assert!(!text.contains(&key[..20]), "{text}");
        assert!(
            text.contains("[redacted private-key]") && text.contains("[redacted anthropic-token]")
        );
    };
    for format in ["md", "html", "json"] {
        let arguments = [
            "export",
            id,
            "--redact",
            "--format",
            format,
            "--sources",
            "all",
        ];
        let output = run(store, home, &arguments);
        check(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "rejoin: masked 2 keys and tokens\n"
        );
    }
    let output = run(store, home, &["import", "--redact", "claude-code"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("rejoin: masked 2 keys"), "{said}");
    for entry in fs::read_dir(store.join("sessions")).unwrap() {
        let log = fs::read_to_string(entry.unwrap().path()).unwrap();
        if log.contains(id) {
            check(&log);
        }
    }
}

/// All that there is in a folder: the contents of files, and when they were changed.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
    found
}

#[test]
fn the_files_of_the_tools_are_never_written() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let before = contents(home);
    assert!(before.len() > 20);
    let all = ["--sources", "all"];
    for arguments in [
        &["sessions", "list", "--source", "all", "--json"][..],
        &[&["sessions", "search", "the"], &all[..]].concat(),
        &[&["sessions", "search", "--substring", "the"], &all[..]].concat(),
        &[&["stats", "--json"], &all[..]].concat(),
        &["import", "--json"],
        &["import", "--redact", "--json"],
        &[&["sessions", "show", "last"], &all[..]].concat(),
        &[&["export", "last"], &all[..]].concat(),
        &["sessions", "delete", "--forever", "--yes", "last"],
    ] {
        let output = run(store, home, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert!(contents(home) == before, "{arguments:?}");
    }
}

#[test]
fn a_mistyped_source_is_guessed_and_folders_are_taken_as_the_tools_take_them() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let output = run(store.path(), home.path(), &["import", "codx"]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("a similar value exists: 'codex'"), "{why}");
    // Codex takes a relative folder from where it is started; for those of XDG, only absolute ones count.
    let found = |name: &str, folder: &str, source: &str| {
        let mut command = at_home(store.path(), home.path(), &["import", "--json", source]);
        let command = command.current_dir(home.path()).env(name, folder);
        let output = command.output().unwrap();
        let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
        let report = &reports[0];
        (report["imported"].clone(), report["folder"].clone())
    };
    let there = if cfg!(windows) {
        home.path().to_owned()
    } else {
        home.path().canonicalize().unwrap()
    };
    let (imported, folder) = found("CODEX_HOME", ".codex", "codex");
    assert_eq!(
        (imported, folder.as_str()),
        (2.into(), there.join(".codex").to_str())
    );
    let (imported, _) = found("XDG_DATA_HOME", "elsewhere", "opencode");
    assert_eq!(imported, 2);
}

// `rustix` makes no pipes on macOS.
#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn what_is_no_regular_file_is_not_read() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let folder = home.path().join(".claude/projects/-work-app");
    std::os::unix::fs::symlink("/dev/zero", folder.join("zero.jsonl")).unwrap();
    std::os::unix::fs::symlink("loop.jsonl", folder.join("loop.jsonl")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("gone.jsonl")).unwrap();
    std::os::unix::fs::symlink(home.path(), folder.join("above")).unwrap();
    let pipe = folder.join("pipe.jsonl");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(
        import(store.path(), home.path(), "claude-code"),
        [1, 0, 0, 0, 0]
    );
}

// `rustix` makes no pipes on macOS.
#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn pipes_in_the_place_of_other_files_are_not_waited_for() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    for path in [
        ".claude/projects/-work-app/5f0c8a52-1111-4222-8333-444455556666/subagents/agent-9f.meta.json",
        ".gemini/tmp/app/.project_root",
        ".kimi/kimi.json",
        ".kimi/sessions/8d9fbf108f79c6229f0b59258b273b63/c11a0000-0000-4000-8000-000000000001/wire.jsonl",
        ".qwen/projects/-srv-app/subagents/9a000000-0000-4000-8000-000000000001/agent-look-1.jsonl",
    ] {
        let path = home.path().join(path);
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    }
    for (tool, count) in [
        ("claude-code", 1),
        ("gemini", 2),
        ("kimi-cli", 3),
        ("qwen", 1),
    ] {
        let imported = import(store.path(), home.path(), tool);
        assert_eq!(imported, [count, 0, 0, 0, 0], "{tool}");
    }
}
