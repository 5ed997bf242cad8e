//! Ten tools, and how each writes a conversation: as usual, with a compaction in it, and in another form.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::support::systems::FOLDER;

/// A prompt and its answer. The answer to the prompt `X` is `X!`.
pub(super) type Said = &'static str;

/// A tool. Each turn has its own time: the later its letter in the alphabet, the later.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Its agent's name for people.
    pub(super) title: &'static str,
    /// The file of the conversation, if it has one of its own.
    pub(super) file: Option<&'static str>,
    /// Writes a conversation with these turns, and with a compaction before the last one.
    write: fn(&Path, &[Said], bool),
    /// Writes it in another form, in the place of the usual one.
    migrate: Option<fn(&Path, &[Said])>,
}

impl Tool {
    pub(super) fn named(name: &str) -> &'static Self {
        TOOLS.iter().find(|tool| tool.name == name).unwrap()
    }

    pub(super) fn write(&self, home: &Path, said: &[Said]) {
        (self.write)(home, said, false);
    }

    pub(super) fn compact(&self, home: &Path, said: &[Said]) {
        (self.write)(home, said, true);
    }

    /// False if the tool has no other form.
    pub(super) fn migrate(&self, home: &Path, said: &[Said]) -> bool {
        let migrate = self.migrate.inspect(|migrate| migrate(home, said));
        migrate.is_some()
    }
}

pub(super) static TOOLS: [Tool; 10] = [
    Tool {
        name: "claude-code",
        title: "Claude Code",
        file: Some(CLAUDE_CODE),
        write: |home, said, is_compacted| claude_code(&home.join(CLAUDE_CODE), said, is_compacted),
        // The project was moved.
        migrate: Some(|home, said| {
            claude_code(
                &home.join(CLAUDE_CODE.replace("-app", "-moved")),
                said,
                false,
            );
            fs::remove_file(home.join(CLAUDE_CODE)).ok();
        }),
    },
    Tool {
        name: "codex",
        title: "Codex",
        file: Some(CODEX),
        write: codex,
        migrate: Some(|home, said| {
            codex(home, said, false);
            let plain = home.join(CODEX);
            let packed = compress_to_vec(&*fs::read(&plain).unwrap(), CompressionLevel::Fastest);
            fs::write(plain.with_added_extension("zst"), packed).unwrap();
            fs::remove_file(plain).unwrap();
        }),
    },
    Tool {
        name: "copilot",
        title: "GitHub Copilot",
        file: Some(".copilot/session-state/00001a40-0000-4000-8000-000000000001/events.jsonl"),
        write: copilot,
        migrate: None,
    },
    Tool {
        name: "gemini",
        title: "Gemini CLI",
        file: Some(GEMINI),
        write: gemini,
        migrate: Some(|home, said| {
            let (mut chat, messages) = gemini_chat(said);
            chat["messages"] = json!([]);
            let lines = [vec![chat], messages].concat();
            write_lines(home.join(format!("{GEMINI}l")), &lines);
            fs::remove_file(home.join(GEMINI)).ok();
        }),
    },
    Tool {
        name: "goose",
        title: "goose",
        file: None,
        write: goose,
        migrate: None,
    },
    Tool {
        name: "kimi",
        title: "Kimi CLI",
        file: Some(".kimi-code/sessions/wd_app_0123456789ab/session_1/agents/main/wire.jsonl"),
        write: kimi,
        migrate: None,
    },
    Tool {
        name: "kimi-cli",
        title: "Kimi CLI",
        file: None,
        write: kimi_cli,
        migrate: None,
    },
    Tool {
        name: "opencode",
        title: "OpenCode",
        file: None,
        write: opencode,
        migrate: Some(opencode_2),
    },
    Tool {
        name: "pi",
        title: "pi",
        file: Some(PI),
        write: pi,
        migrate: None,
    },
    Tool {
        name: "qwen",
        title: "Qwen Code",
        file: Some(".qwen/projects/-w/chats/00001a60-0000-4000-8000-000000000001.jsonl"),
        write: qwen,
        // Older versions have them elsewhere.
        migrate: Some(|home, said| {
            let name = "00001a60-0000-4000-8000-000000000001.jsonl";
            qwen(home, said, false);
            let file = home.join(".qwen/projects/-w/chats").join(name);
            write(
                home.join(".qwen/tmp/0123/chats").join(name),
                &fs::read_to_string(&file).unwrap(),
            );
            fs::remove_file(file).unwrap();
        }),
    },
];

const CLAUDE_CODE: &str = ".claude/projects/-srv-app/00001a20-0000-4000-8000-000000000001.jsonl";
const CODEX: &str = ".codex/sessions/2026/02/01/rollout-2026-02-01T10-00-00-019f7c30-0000-7000-8000-000000000001.jsonl";
const GEMINI: &str = ".gemini/tmp/app/chats/session-2026-02-01T10-00-00001a30.json";
const PI: &str = ".pi/agent/sessions/--srv-app--/2026-02-01T10-00-00-000Z_0199.jsonl";

/// When a database says that a conversation was changed, in milliseconds: later than anything here.
const CHANGED: i64 = 4_102_444_800_000;

/// The minute of a turn.
fn minute(said: Said) -> u32 {
    u32::from(said.as_bytes()[0] - b'A')
}

fn time(said: Said, second: u32) -> String {
    format!("2026-02-01T10:{:02}:{second:02}.000Z", minute(said))
}

/// The same in milliseconds.
fn millis(said: Said, second: i64) -> i64 {
    1_769_940_000_000 + 60_000 * i64::from(minute(said)) + 1000 * second
}

/// The messages of these turns: whose each is, its text, its turn and the second in its minute.
fn messages(said: &[Said]) -> impl Iterator<Item = (&'static str, String, Said, u32)> {
    said.iter().flat_map(|turn| {
        [
            ("user", (*turn).to_owned(), *turn, 1),
            ("assistant", format!("{turn}!"), *turn, 2),
        ]
    })
}

/// Whether a compaction is in front of this message.
fn is_compacted_before(said: &[Said], (role, _, turn, _): &(&str, String, Said, u32)) -> bool {
    *role == "user" && said.len() > 1 && said.last() == Some(turn)
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn write_lines(path: PathBuf, lines: &[Value]) {
    let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
    write(path, &lines.concat());
}

fn claude_code(file: &Path, said: &[Said], is_compacted: bool) {
    let mut parent = Value::Null;
    let mut lines = Vec::new();
    let record = |kind: &str, uuid: &str, parent: &Value, at: String| {
        json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "cwd": FOLDER,
            "sessionId": "00001a20-0000-4000-8000-000000000001", "timestamp": at })
    };
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        if is_compacted && is_compacted_before(said, &message) {
            let mut boundary = record("system", "boundary", &Value::Null, time(turn, 0));
            boundary["subtype"] = "compact_boundary".into();
            boundary["logicalParentUuid"] = parent;
            let mut summary = record("user", "summary", &"boundary".into(), time(turn, 0));
            summary["isCompactSummary"] = true.into();
            summary["message"] = json!({ "role": "user", "content": "All of it, in short." });
            lines.extend([boundary, summary]);
            parent = "summary".into();
        }
        let uuid = format!("{role}-{turn}");
        let content = match *role {
            "user" => json!(text),
            _ => json!([{ "type": "text", "text": text }]),
        };
        let mut line = record(role, &uuid, &parent, time(turn, *second));
        line["message"] = json!({ "id": uuid, "role": role, "content": content });
        lines.push(line);
        parent = uuid.into();
    }
    write_lines(file.to_owned(), &lines);
}

fn codex(home: &Path, said: &[Said], is_compacted: bool) {
    let id = "019f7c30-0000-7000-8000-000000000001";
    let line = |at: String, kind: &str, payload: Value| json!({ "timestamp": at, "type": kind, "payload": payload });
    let head = json!({ "id": id, "timestamp": time("A", 0), "cwd": FOLDER, "source": "cli" });
    let mut lines = vec![line(time("A", 0), "session_meta", head)];
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        if is_compacted && is_compacted_before(said, &message) {
            let summary = json!({ "message": "All of it, in short." });
            lines.push(line(time(turn, 0), "compacted", summary));
        }
        let kind = if *role == "user" {
            "user_message"
        } else {
            "agent_message"
        };
        let payload = json!({ "type": kind, "message": text });
        lines.push(line(time(turn, *second), "event_msg", payload));
    }
    write_lines(home.join(CODEX), &lines);
    fs::remove_file(home.join(CODEX).with_added_extension("zst")).ok();
}

fn copilot(home: &Path, said: &[Said], is_compacted: bool) {
    let id = "00001a40-0000-4000-8000-000000000001";
    let event = |kind: &str, id: String, at: String, data: Value| json!({ "type": kind, "id": id, "timestamp": at, "data": data });
    let start = json!({ "sessionId": id, "context": { "cwd": FOLDER } });
    let mut lines = vec![event("session.start", "e0".to_owned(), time("A", 0), start)];
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        if is_compacted && is_compacted_before(said, &message) {
            let summary = json!({ "success": true, "summaryContent": "All of it, in short." });
            for (kind, data) in [("start", json!({})), ("complete", summary)] {
                let kind = format!("session.compaction_{kind}");
                lines.push(event(&kind, format!("{kind}-{turn}"), time(turn, 0), data));
            }
        }
        let data = json!({ "content": text, "messageId": format!("m-{turn}") });
        let kind = format!("{role}.message");
        lines.push(event(
            &kind,
            format!("{role}-{turn}"),
            time(turn, *second),
            data,
        ));
    }
    write_lines(
        home.join(format!(".copilot/session-state/{id}/events.jsonl")),
        &lines,
    );
}

/// A chat of Gemini CLI without its messages, and these.
fn gemini_chat(said: &[Said]) -> (Value, Vec<Value>) {
    let chat = json!({ "sessionId": "00001a30-0000-4000-8000-000000000001", "startTime": time("A", 0),
        "lastUpdated": time("A", 0) });
    let messages = messages(said).map(|(role, text, turn, second)| {
        let (kind, content) = match role {
            "user" => ("user", json!([{ "text": text }])),
            _ => ("gemini", json!(text)),
        };
        json!({ "id": format!("{role}{turn}"), "timestamp": time(turn, second), "type": kind,
            "content": content })
    });
    (chat, messages.collect())
}

fn gemini(home: &Path, said: &[Said], is_compacted: bool) {
    let (mut chat, mut messages) = gemini_chat(said);
    if is_compacted {
        let note = json!({ "id": "compressed", "timestamp": messages.last().unwrap()["timestamp"],
            "type": "info", "content": "Chat history compressed." });
        messages.push(note);
    }
    chat["messages"] = messages.into();
    write(home.join(GEMINI), &chat.to_string());
    fs::remove_file(home.join(format!("{GEMINI}l"))).ok();
}

/// A database for these tables, which are empty.
fn database(path: PathBuf, tables: &[(&str, &str)]) -> Connection {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    for (name, columns) in tables {
        let sql = format!("CREATE TABLE IF NOT EXISTS {name} ({columns}); DELETE FROM {name};");
        database.execute_batch(&sql).unwrap();
    }
    database
}

fn goose(home: &Path, said: &[Said], is_compacted: bool) {
    let database = database(
        home.join(".local/share/goose/sessions/sessions.db"),
        &[
            (
                "sessions",
                "id TEXT PRIMARY KEY, name, session_type, working_dir, updated_at",
            ),
            (
                "messages",
                "id INTEGER PRIMARY KEY, message_id, session_id, role, content_json, created_timestamp, metadata_json",
            ),
        ],
    );
    let add = |role: &str, text: &str, at: i64, metadata: Value| {
        let content = json!([{ "type": "text", "text": text }]).to_string();
        let sql = "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)
            VALUES ('20260201_1', ?, ?, ?, ?)";
        let row = (role, content, at / 1000, metadata.to_string());
        database.execute(sql, row).unwrap();
    };
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        let is_old = is_compacted && Some(turn) != said.last();
        if is_compacted && is_compacted_before(said, &message) {
            let hidden = json!({ "userVisible": false, "agentVisible": true });
            add("user", "All of it, in short.", millis(turn, 0), hidden);
        }
        let metadata = json!({ "userVisible": true, "agentVisible": !is_old });
        add(role, text, millis(turn, i64::from(*second)), metadata);
    }
    // A change is seen by the time of the last one.
    let changed = format!(
        "2100-02-01 11:{:02}:{:02}",
        said.len(),
        u8::from(is_compacted)
    );
    let sql = "INSERT INTO sessions VALUES ('20260201_1', 'Files', 'user', ?, ?)";
    if !said.is_empty() {
        database.execute(sql, (FOLDER, changed)).unwrap();
    }
}

fn kimi(home: &Path, said: &[Said], is_compacted: bool) {
    let folder = home.join(".kimi-code/sessions/wd_app_0123456789ab/session_1");
    let mut lines = vec![json!({ "type": "metadata", "protocol_version": "1.2" })];
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        let at = millis(turn, i64::from(*second));
        if is_compacted && is_compacted_before(said, &message) {
            lines.push(
                json!({ "type": "context.apply_compaction", "time": at - 1000,
                "summary": "All of it, in short." }),
            );
        }
        let part = json!({ "type": "text", "text": text });
        lines.push(match *role {
            "user" => json!({ "type": "context.append_message", "time": at,
                "message": { "role": "user", "content": [part], "origin": { "kind": "user" } } }),
            _ => json!({ "type": "context.append_loop_event", "time": at,
                "event": { "type": "content.part", "uuid": format!("p-{turn}"), "part": part } }),
        });
    }
    write_lines(folder.join("agents/main/wire.jsonl"), &lines);
    write(
        folder.join("state.json"),
        &json!({ "workDir": FOLDER }).to_string(),
    );
}

fn kimi_cli(home: &Path, said: &[Said], is_compacted: bool) {
    let group = format!("{:x}", md5::compute(FOLDER));
    let folder = home.join(format!(
        ".kimi/sessions/{group}/00001a50-0000-4000-8000-000000000001"
    ));
    let record = |turn: Said, second: u32, kind: &str, payload: Value| {
        let at = millis(turn, i64::from(second)) / 1000;
        json!({ "timestamp": at, "message": { "type": kind, "payload": payload } })
    };
    let mut wire = vec![json!({ "type": "metadata", "protocol_version": "1.1" })];
    let mut context = Vec::new();
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        let part = json!({ "type": "text", "text": text });
        if is_compacted && is_compacted_before(said, &message) {
            wire.extend(
                ["CompactionBegin", "CompactionEnd"].map(|kind| record(turn, 0, kind, json!({}))),
            );
            let summary =
                "<system>Previous context has been compacted. All of it, in short.</system>";
            context = vec![json!({ "role": "user", "content": summary })];
        }
        context.push(json!({ "role": role, "content": text }));
        wire.push(match *role {
            "user" => record(turn, *second, "TurnBegin", json!({ "user_input": [part] })),
            _ => record(turn, *second, "ContentPart", part),
        });
    }
    write_lines(folder.join("wire.jsonl"), &wire);
    write_lines(folder.join("context.jsonl"), &context);
    let known = json!({ "work_dirs": [{ "path": FOLDER }] });
    write(home.join(".kimi/kimi.json"), &known.to_string());
}

fn opencode(home: &Path, said: &[Said], is_compacted: bool) {
    let folder = home.join(".local/share/opencode");
    fs::remove_file(folder.join("opencode2.db")).ok();
    let database = database(
        folder.join("opencode.db"),
        &[
            (
                "session",
                "id text PRIMARY KEY, parent_id text, directory text, title text, revert text, time_created integer, time_updated integer",
            ),
            (
                "message",
                "id text PRIMARY KEY, session_id text, time_created integer, data text",
            ),
            (
                "part",
                "id text PRIMARY KEY, message_id text, session_id text, time_created integer, data text",
            ),
        ],
    );
    let add = |id: &str, at: i64, data: Value, part: Value| {
        let message = "INSERT INTO message VALUES (?, 'ses_1', ?, ?)";
        database
            .execute(message, (id, at, data.to_string()))
            .unwrap();
        let sql = "INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?)";
        let row = (format!("prt_{id}"), id, at, part.to_string());
        database.execute(sql, row).unwrap();
    };
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        if is_compacted && is_compacted_before(said, &message) {
            let id = format!("msg_{}0", minute(turn) + 10);
            let part = json!({ "type": "compaction", "auto": true });
            add(&id, millis(turn, 0), json!({ "role": "user" }), part);
        }
        let id = format!("msg_{}{second}", minute(turn) + 10);
        let part = json!({ "type": "text", "text": text });
        add(
            &id,
            millis(turn, i64::from(*second)),
            json!({ "role": role }),
            part,
        );
    }
    // A change is seen by the time of the last one.
    let more = number(said.len()) + 10 * i64::from(is_compacted);
    let changed = CHANGED + more;
    let session = "INSERT INTO session VALUES ('ses_1', NULL, ?, 'Files', NULL, ?, ?)";
    if !said.is_empty() {
        let row = (FOLDER, millis("A", 0), changed);
        database.execute(session, row).unwrap();
    }
}

/// A number as SQLite has it.
fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap()
}

/// The tables of version 2, in a database of their own; those of version 1 are still there.
fn opencode_2(home: &Path, said: &[Said]) {
    let database = database(
        home.join(".local/share/opencode/opencode2.db"),
        &[
            (
                "session_v2",
                "id text PRIMARY KEY, project_id text, parent_id text, directory text, title text, revert text, time_created integer, time_updated integer",
            ),
            (
                "session_message",
                "id text PRIMARY KEY, session_id text, type text, seq integer, time_created integer, time_updated integer, data text",
            ),
        ],
    );
    for (seq, (role, text, turn, second)) in messages(said).enumerate() {
        let at = millis(turn, i64::from(second));
        let data = match role {
            "user" => json!({ "text": text }),
            _ => json!({ "content": [{ "type": "text", "text": text }] }),
        };
        let id = format!("msg_{}{second}", minute(turn) + 10);
        let sql = "INSERT INTO session_message VALUES (?, 'ses_1', ?, ?, ?, ?, ?)";
        let row = (id, role, number(seq), at, at, data.to_string());
        database.execute(sql, row).unwrap();
    }
    let changed = CHANGED + 1_000_000 + number(said.len());
    let sql = "INSERT INTO session_v2 VALUES ('ses_1', NULL, NULL, ?, 'Files', NULL, ?, ?)";
    let row = (FOLDER, millis("A", 0), changed);
    database.execute(sql, row).unwrap();
}

fn pi(home: &Path, said: &[Said], is_compacted: bool) {
    let mut lines = vec![json!({ "type": "session", "version": 3, "cwd": FOLDER,
        "id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": time("A", 0) })];
    let mut parent = Value::Null;
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        if is_compacted && is_compacted_before(said, &message) {
            lines.push(
                json!({ "type": "compaction", "id": "compaction", "parentId": parent,
                "timestamp": time(turn, 0), "summary": "All of it, in short.",
                "firstKeptEntryId": "user-A", "tokensBefore": 9 }),
            );
            parent = "compaction".into();
        }
        let id = format!("{role}-{turn}");
        lines.push(json!({ "type": "message", "id": id, "parentId": parent,
            "timestamp": time(turn, *second),
            "message": { "role": role, "content": [{ "type": "text", "text": text }] } }));
        parent = id.into();
    }
    write_lines(home.join(PI), &lines);
}

fn qwen(home: &Path, said: &[Said], is_compacted: bool) {
    let id = "00001a60-0000-4000-8000-000000000001";
    let mut parent = Value::Null;
    let mut lines = Vec::new();
    for message in messages(said) {
        let (role, text, turn, second) = &message;
        let record = |kind: &str, uuid: &str, parent: &Value| {
            json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": FOLDER,
                "timestamp": time(turn, *second) })
        };
        if is_compacted && is_compacted_before(said, &message) {
            let mut compaction = record("system", "compaction", &parent);
            compaction["subtype"] = "chat_compression".into();
            compaction["systemPayload"] = json!({ "compressedHistory": [] });
            lines.push(compaction);
            parent = "compaction".into();
        }
        let uuid = format!("{role}-{turn}");
        let mut line = record(role, &uuid, &parent);
        line["message"] = json!({ "role": role, "parts": [{ "text": text }] });
        lines.push(line);
        parent = uuid.into();
    }
    write_lines(
        home.join(format!(".qwen/projects/-w/chats/{id}.jsonl")),
        &lines,
    );
    fs::remove_file(home.join(format!(".qwen/tmp/0123/chats/{id}.jsonl"))).ok();
}
