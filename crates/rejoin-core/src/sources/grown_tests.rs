//! Tests of reading a file from where it grew.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::grown::{ReadSoFar, read_grown};
use super::import::session_id;
use super::live::{self, PIECE, summary};
use super::preview::Glance;
use super::{FoundConversation, SOURCES, Source, Timestamp};
use crate::conversation::Passage;
use crate::index::{KeptText, Summary};

/// A tool, the first lines of its files, and those of a turn with this number.
struct Tool {
    name: &'static str,
    file: &'static str,
    head: fn() -> Vec<Value>,
    turn: fn(usize) -> Vec<Value>,
}

const TOOLS: [Tool; 4] = [
    Tool {
        name: "claude-code",
        file: "-w/0190aaaa-0000-7000-8000-000000000003.jsonl",
        head: Vec::new,
        turn: claude_turn,
    },
    Tool {
        name: "codex",
        file: "sessions/2026/01/01/rollout-2026-01-01T00-00-00-0190aaaa-0000-7000-8000-000000000003.jsonl",
        head: || {
            vec![
                json!({"timestamp": at(0), "type": "session_meta", "payload": {
                "id": "0190aaaa-0000-7000-8000-000000000003", "cwd": "/w", "source": "cli"}}),
            ]
        },
        turn: codex_turn,
    },
    Tool {
        name: "pi",
        file: "--w--/2026_a.jsonl",
        head: || vec![json!({"type": "session", "id": "a", "cwd": "/w", "timestamp": at(0)})],
        turn: pi_turn,
    },
    Tool {
        name: "qwen",
        file: "projects/-w/chats/0190aaaa-0000-7000-8000-000000000003.jsonl",
        head: Vec::new,
        turn: qwen_turn,
    },
];

fn at(turn: usize) -> String {
    Timestamp::from_millis(1_800_000_000_000 + 1000 * i64::try_from(turn).unwrap()).to_string()
}

/// Some text that is different in each turn.
fn words(what: &str, turn: usize) -> String {
    let words = (0..90).map(|word| format!("{what}{turn}x{word}"));
    words.collect::<Vec<_>>().join(" ")
}

fn claude_turn(n: usize) -> Vec<Value> {
    let before = (n > 0).then(|| format!("r{}", n - 1));
    let record = |kind: &str, id: String, parent: Option<String>, message: Value| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "timestamp": at(n), "cwd": "/w",
            "sessionId": "s", "gitBranch": "main", "message": message})
    };
    let call = json!([{"type": "tool_use", "id": format!("c{n}"), "name": "Bash", "input": {"command": words("command", n)}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": format!("c{n}"), "content": words("output", n)}]);
    let said = json!([{"type": "text", "text": words("answer", n)}]);
    let (u, a, t) = (format!("u{n}"), format!("a{n}"), format!("t{n}"));
    vec![
        record(
            "user",
            u.clone(),
            before,
            json!({"role": "user", "content": words("prompt", n)}),
        ),
        record(
            "assistant",
            a.clone(),
            Some(u),
            json!({"id": format!("m{n}"), "model": "m", "content": call}),
        ),
        record(
            "user",
            t.clone(),
            Some(a),
            json!({"role": "user", "content": result}),
        ),
        record(
            "assistant",
            format!("r{n}"),
            Some(t),
            json!({"id": format!("n{n}"), "content": said}),
        ),
    ]
}

fn codex_turn(n: usize) -> Vec<Value> {
    let record =
        |kind: &str, payload: Value| json!({"timestamp": at(n), "type": kind, "payload": payload});
    let arguments = json!({"command": ["bash", "-lc", words("command", n)]}).to_string();
    vec![
        record(
            "turn_context",
            json!({"turn_id": format!("t{n}"), "cwd": "/w", "model": "m"}),
        ),
        record(
            "event_msg",
            json!({"type": "user_message", "message": words("prompt", n)}),
        ),
        record(
            "event_msg",
            json!({"type": "agent_message", "message": words("before", n)}),
        ),
        record(
            "response_item",
            json!({"type": "function_call", "name": "shell", "call_id": format!("c{n}"), "arguments": arguments}),
        ),
        record(
            "response_item",
            json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": words("output", n)}),
        ),
        record(
            "event_msg",
            json!({"type": "agent_message", "message": words("answer", n)}),
        ),
    ]
}

fn pi_turn(n: usize) -> Vec<Value> {
    let before = (n > 0).then(|| format!("r{}", n - 1));
    let entry = |id: String, parent: Option<String>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": at(n), "message": message});
    let usage = json!({"input": 1, "output": 1, "cost": {"total": 0.25}});
    let call = json!([{"type": "toolCall", "id": format!("c{n}"), "name": "bash", "arguments": {"command": words("command", n)}}]);
    let (u, a, t) = (format!("u{n}"), format!("a{n}"), format!("t{n}"));
    vec![
        entry(
            u.clone(),
            before,
            json!({"role": "user", "content": words("prompt", n)}),
        ),
        entry(
            a.clone(),
            Some(u),
            json!({"role": "assistant", "model": "m", "usage": usage, "content": call}),
        ),
        entry(
            t.clone(),
            Some(a),
            json!({"role": "toolResult", "toolCallId": format!("c{n}"), "content": [{"type": "text", "text": words("output", n)}]}),
        ),
        entry(
            format!("r{n}"),
            Some(t),
            json!({"role": "assistant", "content": [{"type": "text", "text": words("answer", n)}]}),
        ),
    ]
}

fn qwen_turn(n: usize) -> Vec<Value> {
    let before = (n > 0).then(|| format!("a{}", n - 1));
    let record = |kind: &str, id: String, parent: Option<String>, text: String| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "timestamp": at(n), "cwd": "/w",
            "sessionId": "s", "message": {"parts": [{"text": text}]}})
    };
    vec![
        record("user", format!("u{n}"), before, words("prompt", n)),
        record(
            "assistant",
            format!("a{n}"),
            Some(format!("u{n}")),
            words("answer", n),
        ),
    ]
}

fn write(path: &Path, records: &[Value]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    for record in records {
        writeln!(file, "{record}").unwrap();
    }
}

/// A file that was read, as the index has it.
struct Read {
    text: Vec<Vec<Passage>>,
    summary: Summary,
    so_far: Option<ReadSoFar>,
}

/// A tool's file in a folder of its own.
struct ToolFileOnDisk {
    _folder: tempfile::TempDir,
    source: &'static Source,
    found: FoundConversation,
}

impl ToolFileOnDisk {
    fn of(tool: &Tool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(tool.file);
        Self {
            source: SOURCES
                .iter()
                .find(|source| source.name == tool.name)
                .unwrap(),
            found: FoundConversation {
                root: folder.path().to_owned(),
                path,
                key: None,
                modified: Timestamp::from_millis(0),
                size: 0,
            },
            _folder: folder,
        }
    }

    fn summary(&self, glance: &Glance) -> Option<Summary> {
        summary(self.source, &self.found, glance, Path::new("/home"))
    }

    fn whole(&self) -> Read {
        let glance = self
            .source
            .read_if_small(&self.found, &mut Vec::new())
            .unwrap();
        assert!(session_id(self.source.agent, &glance.conversation).is_some());
        let summary = self.summary(&glance).unwrap();
        Read {
            so_far: glance
                .end
                .map(|end| end.kept(&glance.conversation, &summary)),
            text: live::text(&glance.conversation, false, PIECE),
            summary,
        }
    }

    /// The file as it is now, from where it was before; none if it has to be read as a whole.
    fn grown(&self, before: &Read) -> Option<Read> {
        let from = before.text.len().saturating_sub(2);
        let kept = KeptText {
            from,
            pieces: before.text[from..].to_vec(),
        };
        let so_far = before.so_far.clone()?;
        let grown = read_grown(self.source, &self.found, so_far, &kept);
        let mut grown = grown.unwrap()?;
        let mut text = before.text[..from].to_vec();
        text.append(&mut grown.text);
        let (summary, so_far) = grown.entry(|glance| self.summary(glance)).unwrap();
        Some(Read {
            text,
            summary,
            so_far: Some(so_far),
        })
    }
}

#[test]
fn a_file_that_has_grown_is_read_from_there_as_if_it_were_read_as_a_whole() {
    for tool in &TOOLS {
        let world = ToolFileOnDisk::of(tool);
        write(&world.found.path, &(tool.head)());
        let turns: Vec<Value> = (0..60).flat_map(tool.turn).collect();
        write(&world.found.path, &turns);
        let mut known = world.whole();
        assert!(known.text.len() > 2, "{}", tool.name);
        let more: Vec<Value> = (60..66).flat_map(tool.turn).collect();
        for records in more.chunks(3) {
            write(&world.found.path, records);
            let now = world.whole();
            let grown = world.grown(&known);
            let grown = grown.unwrap_or_else(|| panic!("{} is read as a whole", tool.name));
            assert!(grown.text == now.text, "{}", tool.name);
            assert_eq!(grown.summary, now.summary, "{}", tool.name);
            assert_eq!(grown.so_far, now.so_far, "{}", tool.name);
            known = grown;
        }
    }
}

#[test]
fn a_file_of_which_less_counts_now_is_read_as_a_whole() {
    for tool in &TOOLS {
        let made = || {
            let world = ToolFileOnDisk::of(tool);
            write(&world.found.path, &(tool.head)());
            write(
                &world.found.path,
                &(0..60).flat_map(tool.turn).collect::<Vec<_>>(),
            );
            let known = world.whole();
            (world, known)
        };
        let mut edited = (tool.turn)(60);
        match tool.name {
            "codex" => edited.insert(
                0,
                json!({"type": "event_msg", "timestamp": at(60),
                "payload": {"type": "thread_rolled_back", "num_turns": 40}}),
            ),
            "pi" => edited[0]["parentId"] = "r20".into(),
            "qwen" => edited[0]["parentUuid"] = "a20".into(),
            _ => edited[0]["parentUuid"] = "r20".into(),
        }
        // Other bytes at the beginning, in the middle or at the end of what was read, with something behind it.
        for part in 0..3 {
            let (world, known) = made();
            let mut bytes = std::fs::read(&world.found.path).unwrap();
            let from = (bytes.len() - 300) * part / 2;
            let at = from + bytes[from..].iter().position(|b| *b == b'x').unwrap();
            bytes[at] = if bytes[at] == b'y' { b'z' } else { b'y' };
            std::fs::write(&world.found.path, bytes).unwrap();
            write(&world.found.path, &(tool.turn)(60));
            assert!(world.grown(&known).is_none(), "{}", tool.name);
        }
        let (world, known) = made();
        write(&world.found.path, &edited);
        assert!(world.grown(&known).is_none(), "{} was rewound", tool.name);
        let (world, known) = made();
        write(&world.found.path, &(tool.turn)(60));
        let mut file = OpenOptions::new()
            .append(true)
            .open(&world.found.path)
            .unwrap();
        file.write_all(b"{\"type\":").unwrap();
        assert!(
            world.grown(&known).is_none(),
            "{} is being written",
            tool.name
        );
        let (world, mut known) = made();
        write(&world.found.path, &(tool.turn)(60));
        for piece in &mut known.text {
            piece.pop();
        }
        assert!(
            world.grown(&known).is_none(),
            "{}: the index has something else",
            tool.name
        );
    }
}
