//! Files that are cut off, overwritten or not text: as much of them is read as can be, and nothing
//! panics.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use rejoin::record::Kind;
use rejoin::sources::{DamageKind, FoundConversation, NewRecord, Source, ToolConversation};
use rejoin::sys::Timestamp;
use rusqlite::Connection;
use serde_json::{Deserializer, Value, json};

use super::{home, of_files, places, read_all, source};

/// Reads these bytes as a file of the source.
fn read(name: &str, file: &str, bytes: &[u8]) -> ToolConversation {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::write(&path, bytes).unwrap();
    let found = FoundConversation {
        root: folder.path().to_owned(),
        path,
        key: None,
        modified: Timestamp::from_millis(0),
        size: 0,
    };
    source(name).read(&found).unwrap()
}

/// A source, and the name and the bytes of a file of its tool.
type Whole = (&'static str, String, Vec<u8>);

static WHOLE: LazyLock<Vec<Whole>> = LazyLock::new(|| {
    let home = home();
    let files = of_files().flat_map(|source| {
        let files = read_all(source, home.path()).into_iter();
        files.map(|(found, _)| {
            let name = found.path.file_name().unwrap().to_str().unwrap();
            (source.name, name.to_owned(), fs::read(&found.path).unwrap())
        })
    });
    files.collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Anything may be anywhere in a file.
    #[test]
    fn damaged_files_are_read_as_far_as_possible(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<bool>(),
    ) {
        let (source, name, file) = which.get(WHOLE.as_slice());
        let mut file = file.clone();
        let at = at.index(file.len() + 1);
        if cut {
            file.truncate(at);
        }
        let end = (at + bytes.len()).min(file.len());
        file.splice(at..end, bytes);
        read(source, name, &file);
    }
}

#[test]
fn one_damaged_line_costs_no_other() {
    let home = home();
    let (found, whole) = read_all(source("codex"), home.path()).remove(1);
    let name = found.path.file_name().unwrap().to_str().unwrap();
    drop(whole);
    let file = fs::read(&found.path).unwrap();
    let expected = read("codex", name, &file).entries;
    let mut damaged = file.clone();
    damaged.extend_from_slice(b"\0\0\0\0\n{\"type\": \xFF\xFE\n[1]\n");
    // A line of 20 MB, which is a record of no known kind.
    damaged.extend_from_slice(b"{\"type\":\"x\",\"payload\":{\"a\":\"");
    damaged.resize(damaged.len() + 20_000_000, b'a');
    damaged.extend_from_slice(b"\"}}\n");
    // A line of 80 MB that is no record.
    damaged.resize(damaged.len() + 80_000_000, b'a');
    damaged.push(b'\n');
    let read_anyway = read("codex", name, &damaged);
    assert_eq!(read_anyway.entries, expected);
    let lines = String::from_utf8_lossy(&file).lines().count();
    let damage = read_anyway.damage.iter();
    let damage: Vec<_> = damage
        .map(|damage| (damage.line - lines, damage.kind))
        .collect();
    let expected = [
        (1, DamageKind::Zeros),
        (2, DamageKind::Torn),
        (3, DamageKind::NoRecord),
        (5, DamageKind::TooLong),
    ];
    assert_eq!(damage, expected);
}

/// A conversation in a file of a home folder, in which the file is damaged.
struct DamagedFile {
    source: &'static Source,
    found: FoundConversation,
    /// The file with its words.
    path: PathBuf,
}

impl DamagedFile {
    /// The conversation without its subagents, if its file is this. What is damaged may name them.
    fn read(&self, bytes: &[u8]) -> ToolConversation {
        fs::write(&self.path, bytes).unwrap();
        let mut conversation = self.source.read(&self.found).unwrap();
        conversation.entries.retain(|entry| {
            let is_announced = entry.payload.contains("\"subagent_update\"");
            entry.kind != Kind::Subagent && !is_announced
        });
        for entry in &mut conversation.entries {
            // With what they have cost.
            if entry.kind == Kind::End {
                entry.payload.clear();
            }
        }
        conversation
            .damage
            .retain(|damage| damage.subagent.is_none());
        conversation
    }

    /// Those of a home folder in files with this extension, and the bytes of each.
    fn all(home: &Path, extension: &str) -> Vec<(Self, Vec<u8>)> {
        let mut all = Vec::new();
        for source in of_files() {
            for (found, conversation) in read_all(source, home) {
                let wire = found.path.with_file_name("wire.jsonl");
                let path = if wire.exists() {
                    wire
                } else {
                    found.path.clone()
                };
                let is_wanted = path.extension().is_some_and(|end| end == extension);
                if is_wanted && !conversation.entries.is_empty() {
                    let bytes = fs::read(&path).unwrap();
                    all.push((
                        Self {
                            source,
                            found,
                            path,
                        },
                        bytes,
                    ));
                }
            }
        }
        all
    }
}

/// Records that are whole are read, wherever another one was cut off before them, whatever zeros are
/// between them, and however their line feeds are written.
#[test]
fn damage_costs_no_record_that_is_whole() {
    let home = home();
    let mut checked = BTreeSet::new();
    for (damaged, mut file) in DamagedFile::all(home.path(), "jsonl") {
        let source = damaged.source.name;
        let name = damaged.path.display();
        // Without what is damaged already. A last line without its end is being written.
        if !file.ends_with(b"\n") {
            file.push(b'\n');
        }
        let known = damaged.read(&file).damage;
        let lines = file.split_inclusive(|byte| *byte == b'\n').zip(1..);
        let lines = lines.filter(|(_, number)| known.iter().all(|damage| damage.line != *number));
        let file = lines.map(|(line, _)| line).collect::<Vec<_>>().concat();
        let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
        let whole = damaged.read(&file);
        if lines.len() < 3 {
            continue;
        }
        checked.insert(source);
        let step = (file.len() / 200).max(1);
        let (mut start, mut at) = (lines[0].len(), step);
        for number in 1..lines.len() - 1 {
            let without = [&lines[..number], &lines[number + 1..]].concat().concat();
            let expected = damaged.read(&without);
            while at < start + lines[number].len() {
                let cut = at.saturating_sub(start).min(lines[number].len() - 2);
                at += step;
                // Behind it, a record may be a part of the one that was cut off.
                let before = lines[number][..cut].trim_ascii_end();
                if are_values(before) {
                    continue;
                }
                if before.ends_with(b":") || before.ends_with(b"[") {
                    continue;
                }
                let torn = [
                    &lines[..number],
                    &[&lines[number][..cut]],
                    &lines[number + 1..],
                ];
                let found = damaged.read(&torn.concat().concat());
                let at_cut = format!("{name}, line {}, cut at {cut}", number + 1);
                assert_eq!(found.entries, expected.entries, "{at_cut}");
                assert_eq!(found.damage.len(), usize::from(cut > 0), "{at_cut}");
            }
            start += lines[number].len();
            let zeros = [
                &lines[..number],
                &[&[0; 7][..], b"\n", &[0; 3]],
                &lines[number..],
            ];
            let found = damaged.read(&zeros.concat().concat());
            assert_eq!(found.entries, whole.entries, "{name}");
            assert_eq!(found.damage.len(), 2, "{name}");
        }
        let text = str::from_utf8(&file).unwrap();
        let raw = text
            .replace("\\\\", "\0")
            .replace("\\n", "\n")
            .replace('\0', "\\\\");
        let found = damaged.read(raw.as_bytes());
        assert_eq!(found.entries, whole.entries, "{name}");
        fs::write(&damaged.path, file).unwrap();
    }
    let of_lines = [
        "antigravity",
        "claude-code",
        "codex",
        "copilot",
        "cursor",
        "droid",
        "gemini",
        "grok",
        "kimi",
        "kimi-cli",
        "kiro",
        "omp",
        "pi",
        "qwen",
        "vibe",
        "vscode",
    ];
    assert_eq!(checked, BTreeSet::from(of_lines));
}

/// Whether a text is nothing but whole values.
fn are_values(text: &[u8]) -> bool {
    let mut values = Deserializer::from_slice(text).into_iter::<Value>();
    !text.is_empty() && values.all(|value| value.is_ok())
}

/// Where the list of records in a file of JSON begins, and where each of them ends.
fn list(text: &str) -> (usize, Vec<usize>) {
    let named = ["\"messages\":", "\"requests\":"];
    let named = named.iter().find_map(|name| text.find(name));
    let from = named.unwrap_or(0);
    let start = from + text[from..].find('[').unwrap() + 1;
    let (mut at, mut ends) = (start, Vec::new());
    loop {
        let rest = text[at..].trim_start();
        at = text.len() - rest.len();
        if rest.starts_with(',') {
            at += 1;
            continue;
        }
        let mut values = Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if !rest.starts_with('{') || values.next().is_none_or(|value| value.is_err()) {
            return (start, ends);
        }
        at += values.byte_offset();
        ends.push(at);
    }
}

/// In a file that is one object, the records before the place where it was cut off are read, and those
/// around one that is broken.
#[test]
fn damage_costs_no_other_record_of_a_list() {
    let home = home();
    let mut checked = BTreeSet::new();
    for (damaged, file) in DamagedFile::all(home.path(), "json") {
        if damaged.source.name == "openhands" {
            continue;
        }
        let text = str::from_utf8(&file).unwrap();
        let (start, ends) = list(text);
        if ends.len() < 2 {
            continue;
        }
        checked.insert(damaged.source.name);
        let is_object = text.trim_start().starts_with('{');
        let closed = |before: &str| format!("{before}]{}", if is_object { "}" } else { "" });
        for step in 0..200 {
            let cut = (step * text.len() / 200).max(start);
            let Some(cut) = (cut..text.len()).find(|cut| text.is_char_boundary(*cut)) else {
                continue;
            };
            if are_values(&text.as_bytes()[..cut]) {
                continue;
            }
            let whole = ends.iter().rev().find(|end| **end <= cut);
            let expected =
                damaged.read(closed(&text[..whole.copied().unwrap_or(start)]).as_bytes());
            let found = damaged.read(&text.as_bytes()[..cut]);
            let context = format!("{}, cut at {cut}", damaged.path.display());
            // Behind the list, there may be more.
            if cut < *ends.last().unwrap() {
                assert_eq!(found.entries, expected.entries, "{context}");
            } else {
                assert_eq!(lost(&found, &expected), None, "{context}");
            }
            assert_eq!(found.damage.len(), 1, "{context}");
        }
        for (number, end) in ends.iter().enumerate() {
            let before = number.checked_sub(1).map_or(start, |before| ends[before]);
            let begin = before + text[before..].find('{').unwrap();
            let middle = (begin + end) / 2;
            let Some(middle) = (middle..*end).find(|at| text.is_char_boundary(*at)) else {
                continue;
            };
            let broken = format!("{}\"?\u{1}{}", &text[..middle], &text[middle..]);
            let without = match ends.get(number + 1) {
                Some(_) => format!(
                    "{}{}",
                    &text[..begin],
                    text[*end..].trim_start().trim_start_matches(',')
                ),
                None => format!("{}{}", &text[..before], &text[*end..]),
            };
            let expected = damaged.read(without.as_bytes());
            let found = damaged.read(broken.as_bytes());
            let context = format!("{}, record {number}", damaged.path.display());
            assert_eq!(found.entries, expected.entries, "{context}");
            assert_eq!(found.damage.len(), 1, "{context}");
        }
        fs::write(&damaged.path, &file).unwrap();
    }
    let of_lists = ["amp", "cline", "gemini", "kilo-code", "roo-code"];
    assert_eq!(checked, BTreeSet::from(of_lists));
}

/// A record of a conversation that another one, which may have more, does not have.
fn lost<'a>(found: &ToolConversation, expected: &'a ToolConversation) -> Option<&'a NewRecord> {
    let mut left = found.entries.clone();
    expected.entries.iter().find(|entry| {
        // A result may be among what is whole; the others have the time of the last record.
        let is_at_end = entry.kind == Kind::Info || entry.payload.contains("\"subagent_update\"");
        if is_at_end || entry.payload.contains("no result was recorded") {
            return false;
        }
        // What was spent is known without the message.
        let is_it = |known: &NewRecord| {
            known == *entry || known.kind == Kind::End && entry.kind == Kind::End
        };
        let at = left.iter().position(is_it);
        at.map(|at| left.remove(at)).is_none()
    })
}

/// A file or a row of a conversation that is broken costs no other one.
#[test]
fn damage_of_a_row_or_an_event_costs_no_other_one() {
    let home = home();
    let events = source("openhands");
    let (found, _) = read_all(events, home.path()).remove(0);
    let mut paths: Vec<_> = fs::read_dir(found.path.with_file_name("events"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() > 4);
    for path in paths.iter().filter(|path| **path != found.path) {
        let whole = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let expected = events.read(&found).unwrap();
        fs::write(path, &whole[..whole.len() / 2]).unwrap();
        let read = events.read(&found).unwrap();
        let context = path.display();
        assert_eq!(lost(&read, &expected), None, "{context}");
        assert_eq!(read.damage.len(), 1, "{context}");
        fs::write(path, whole).unwrap();
    }
    for (name, path, table, column, of) in [
        (
            "crush",
            "crush/app/crush.db",
            "messages",
            "parts",
            "session_id",
        ),
        (
            "goose",
            "goose/sessions/sessions.db",
            "messages",
            "content_json",
            "session_id",
        ),
        (
            "hermes",
            "../../.hermes/state.db",
            "messages",
            "tool_calls",
            "session_id",
        ),
        ("kilo", "kilo/kilo.db", "part", "data", "message_id"),
        (
            "opencode",
            "opencode/opencode.db",
            "part",
            "data",
            "message_id",
        ),
    ] {
        let database = Connection::open(home.path().join(".local/share").join(path)).unwrap();
        let read = || read_all(source(name), home.path());
        let rows = format!("SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL");
        let mut rows = database.prepare(&rows).unwrap();
        let rows = rows
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let rows: Vec<(i64, String)> = rows.collect::<Result<_, _>>().unwrap();
        assert!(rows.len() > 1, "{table}");
        let whole: usize = read().iter().map(|(_, read)| read.damage.len()).sum();
        for (number, text) in rows {
            if serde_json::from_str::<Value>(&text).is_err() {
                continue;
            }
            let half = text.ceil_char_boundary(text.len() / 2);
            let set = format!("UPDATE {table} SET {column} = ? WHERE rowid = ?");
            // Without the row.
            let move_to = format!("UPDATE {table} SET {of} = '-' || {of} WHERE rowid = ?");
            let move_back = format!("UPDATE {table} SET {of} = substr({of}, 2) WHERE rowid = ?");
            database.execute(&move_to, [number]).unwrap();
            let expected = read();
            database.execute(&move_back, [number]).unwrap();
            database.execute(&set, (&text[..half], number)).unwrap();
            let found = read();
            let context = format!("{name}, row {number} of {table}");
            assert_eq!(found.len(), expected.len(), "{context}");
            for ((_, found), (_, expected)) in found.iter().zip(&expected) {
                assert_eq!(lost(found, expected), None, "{context}");
            }
            let damage: usize = found.iter().map(|(_, read)| read.damage.len()).sum();
            assert!(damage <= whole + 1, "{context}");
            database.execute(&set, (&text, number)).unwrap();
        }
    }
}

/// Before it had a database, OpenCode had a file for each session, message and part of one.
#[test]
fn damage_of_a_file_of_opencode_costs_no_other_one() {
    let home = tempfile::tempdir().unwrap();
    let storage = home.path().join(".local/share/opencode/storage");
    let put = |path: &str, value: &Value| {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    put(
        "session/p/ses_1.json",
        &json!({"id": "ses_1", "directory": "/srv/app", "title": "Roses"}),
    );
    let mut files = Vec::new();
    for number in 0..6 {
        let role = ["user", "assistant"][number % 2];
        let message = format!("message/ses_1/msg_{number}.json");
        let created = 1_750_000_000_000_i64 + i64::try_from(number).unwrap();
        put(
            &message,
            &json!({"role": role, "time": {"created": created}}),
        );
        files.push(message);
        let part = format!("part/msg_{number}/prt_{number}.json");
        let text = format!("Message {number}");
        put(&part, &json!({"type": "text", "text": text}));
        files.push(part);
    }
    let read = || read_all(source("opencode"), home.path()).remove(0).1;
    assert_eq!(read().damage.len(), 0);
    for path in files.iter().map(|path| storage.join(path)) {
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let expected = read();
        for step in 1..200 {
            let cut = step * whole.len() / 200;
            fs::write(&path, &whole[..cut]).unwrap();
            let found = read();
            let context = format!("{}, cut at {cut}", path.display());
            assert_eq!(lost(&found, &expected), None, "{context}");
            assert!(found.damage.len() <= 1, "{context}");
        }
        fs::write(&path, whole).unwrap();
    }
}

/// A thread of Zed is one object in one row, which may be compressed.
#[test]
fn damage_of_a_thread_costs_no_message_before_it() {
    let home = home();
    let zed = source("zed");
    let database =
        Connection::open(home.path().join(".local/share/zed/threads/threads.db")).unwrap();
    let mut rows = database
        .prepare("SELECT id, CAST(data AS BLOB) FROM threads WHERE data_type = 'json'")
        .unwrap();
    let rows = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let rows: Vec<(String, Vec<u8>)> = rows.collect::<Result<_, _>>().unwrap();
    assert!(!rows.is_empty());
    for (id, data) in rows {
        let text = String::from_utf8(data).unwrap();
        let (start, ends) = list(&text);
        let read = |text: &str| {
            let set = "UPDATE threads SET data = ? WHERE id = ?";
            database.execute(set, (text.as_bytes(), &id)).unwrap();
            let found = zed.find(&places(home.path())).found;
            let found = found.iter().find(|found| found.key.as_ref() == Some(&id));
            found.map(|found| zed.read(found).unwrap())
        };
        let Some(whole) = read(&text) else { continue };
        for end in ends {
            let expected = read(&format!("{}]}}", &text[..end])).unwrap();
            let found = read(&text[..=end]).unwrap();
            assert_eq!(found.entries.len(), expected.entries.len(), "{id} {end}");
            assert_eq!(found.damage.len(), 1);
        }
        assert!(start > 0 && !whole.entries.is_empty());
    }
}

#[test]
fn a_file_of_nothing_but_damage_is_counted() {
    for source in of_files() {
        let name = if source.name == "gemini" {
            "session-x.json"
        } else {
            "x.jsonl"
        };
        let read = read(source.name, name, b"{broken\n");
        assert_eq!(
            (read.entries.len(), read.damage.len()),
            (0, 1),
            "{}",
            source.name
        );
    }
}
