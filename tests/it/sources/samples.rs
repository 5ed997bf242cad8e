//! Real files, where they lie beside the project: none is refused, and nothing that the user or the
//! agent said is lost. Counted by a few lines of another shape.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rejoin::record::Kind;
use rejoin::sources::{FoundConversation, ToolConversation, ToolFolders};
use rejoin::sys::Timestamp;
use serde_json::Value;

use super::source;

/// The folder with the samples of a tool, if it is there.
fn samples(tool: &str) -> Option<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = project.parent()?.join("shared/samples").join(tool);
    if !folder.is_dir() {
        eprintln!("skipped: there are no samples of {tool}");
        return None;
    }
    Some(folder)
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
    found.sort();
}

fn read(tool: &str, path: &Path) -> ToolConversation {
    let found = FoundConversation {
        root: path.parent().unwrap().to_owned(),
        path: path.to_owned(),
        key: None,
        modified: Timestamp::from_millis(0),
        size: 0,
    };
    source(tool).read(&found).unwrap()
}

fn number_of_prompts(conversation: &ToolConversation) -> usize {
    let entries = conversation.entries.iter();
    entries.filter(|entry| entry.kind == Kind::Prompt).count()
}

/// The texts of one kind of chunk.
fn said(conversation: &ToolConversation, kind: &str) -> BTreeSet<String> {
    let updates = conversation.entries.iter();
    let updates = updates.filter(|entry| entry.kind == Kind::Update);
    let updates = updates.map(|entry| serde_json::from_str::<Value>(&entry.payload).unwrap());
    let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
    chunks
        .filter_map(|chunk| chunk["content"]["text"].as_str().map(str::to_owned))
        .collect()
}

/// The objects of a file, without regard to lines.
fn objects(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    values.map_while(Result::ok).collect()
}

#[test]
fn claude_code() {
    let Some(folder) = samples("claude-code") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    let (mut lost, mut all) = (0, 0);
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let conversation = read("claude-code", path);
        if name.starts_with("agent-") {
            continue;
        }
        let mut spoken = BTreeSet::new();
        for record in objects(path) {
            let is_main = record["isSidechain"] != true && record["type"] == "assistant";
            for block in record["message"]["content"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let text = block["text"].as_str().unwrap_or_default();
                if is_main && block["type"] == "text" && !text.trim().is_empty() {
                    spoken.insert(text.to_owned());
                }
            }
        }
        if conversation.entries.is_empty() {
            assert!(spoken.is_empty(), "{name}: {spoken:?}");
            continue;
        }
        let kept = said(&conversation, "agent_message_chunk");
        all += spoken.len();
        // In one file the ids are redacted, too, so that its records have no order.
        lost += spoken
            .difference(&kept)
            .filter(|text| !text.starts_with("[trimmed"))
            .count();
        assert!(conversation.cwd.is_some(), "{name}");
    }
    assert!(all > 50, "{all}");
    assert_eq!(lost, 0);
}

#[test]
fn what_subagents_said_is_kept() {
    let Some(folder) = samples("claude-code/inline-sidechain-1.0") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    let mut all = 0;
    for path in &paths {
        let conversation = read("claude-code", path);
        let (mut kept, mut linked) = (BTreeSet::new(), 0);
        for entry in &conversation.entries {
            let payload: Value = serde_json::from_str(&entry.payload).unwrap();
            let text = payload["update"]["content"]["text"].as_str();
            kept.extend(text.map(str::to_owned));
            linked += usize::from(payload["_meta"]["rejoin"]["toolCallId"].is_string());
        }
        let (mut spoken, mut started) = (BTreeSet::new(), 0);
        for record in objects(path) {
            if record["isSidechain"] != true {
                continue;
            }
            started += usize::from(record["parentUuid"].is_null());
            let blocks = record["message"]["content"].as_array().into_iter();
            let texts = blocks.flatten().filter(|block| block["type"] == "text");
            spoken.extend(texts.filter_map(|block| block["text"].as_str().map(str::to_owned)));
        }
        assert!(spoken.is_subset(&kept), "{}", path.display());
        assert_eq!(linked, started, "{}", path.display());
        all += spoken.len();
    }
    assert!(all > 20, "{all}");
}

#[test]
fn codex() {
    let Some(folder) = samples("codex") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    for path in &paths {
        let conversation = read("codex", path);
        let mut prompts = 0;
        let mut answers = BTreeSet::new();
        for record in objects(path) {
            match record["payload"]["type"].as_str() {
                Some("user_message") => prompts += 1,
                Some("agent_message") if record["type"] == "event_msg" => {
                    answers.extend(record["payload"]["message"].as_str().map(str::to_owned));
                }
                _ => {}
            }
        }
        assert_eq!(
            number_of_prompts(&conversation),
            prompts,
            "{}",
            path.display()
        );
        let kept = said(&conversation, "agent_message_chunk");
        assert!(answers.is_subset(&kept), "{}", path.display());
    }
}

#[test]
fn gemini() {
    let Some(folder) = samples("gemini") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "json", &mut paths);
    for path in &paths {
        let Ok(chat) = serde_json::from_slice::<Value>(&fs::read(path).unwrap()) else {
            continue;
        };
        let conversation = read("gemini", path);
        let messages = chat["messages"].as_array().into_iter().flatten();
        let users = messages.filter(|message| message["type"] == "user").count();
        let read = number_of_prompts(&conversation);
        assert_eq!(read, users, "{}", path.display());
    }
}

/// Of the others, how many prompts there are in a file.
fn prompts_are_all_read(tool: &str, is_prompt: fn(&Value) -> bool) {
    let Some(folder) = samples(tool) else { return };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    assert!(!paths.is_empty());
    for path in &paths {
        let expected = objects(path)
            .iter()
            .filter(|record| is_prompt(record))
            .count();
        let read = number_of_prompts(&read(tool, path));
        assert_eq!(read, expected, "{}", path.display());
    }
}

#[test]
fn qwen() {
    prompts_are_all_read("qwen", |record| {
        record["type"] == "user" && record["subtype"].is_null()
    });
}

#[test]
fn pi() {
    prompts_are_all_read("pi", |record| {
        let role = record["message"]["role"].as_str();
        matches!(role, Some("user" | "bashExecution"))
    });
}

#[test]
fn copilot() {
    prompts_are_all_read("copilot", |record| record["type"] == "user.message");
}

#[test]
fn kimi_cli() {
    let Some(folder) = samples("kimi") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    paths.retain(|path| path.ends_with("context.jsonl"));
    assert!(paths.len() > 5, "{paths:?}");
    for path in &paths {
        let wire = path.with_file_name("wire.jsonl");
        let said = if wire.exists() {
            objects(&wire)
        } else {
            Vec::new()
        };
        let turns = said.iter().filter(|record| {
            let kind = record["message"]["type"].as_str();
            matches!(kind, Some("TurnBegin" | "SteerInput"))
        });
        let asked = objects(path).into_iter().filter(|message| {
            let content = message["content"].to_string();
            message["role"] == "user" && !content.starts_with("\"<system-reminder>")
        });
        let expected = match turns.count() {
            0 => asked.count(),
            turns => turns,
        };
        let conversation = read("kimi-cli", path);
        assert_eq!(
            number_of_prompts(&conversation),
            expected,
            "{}",
            path.display()
        );
        assert_eq!(conversation.unknown.total(), 0, "{}", path.display());
    }
    let known = source("kimi-cli").find(&ToolFolders {
        home: folder.join("multi-workdir"),
        ..ToolFolders::default()
    });
    let cwds = known.found.iter().map(|found| {
        let conversation = source("kimi-cli").read(found).unwrap();
        conversation.cwd.unwrap_or_default()
    });
    let cwds: BTreeSet<String> = cwds.collect();
    assert_eq!(cwds, ["/proj-a", "/proj-c"].map(str::to_owned).into());
}

#[test]
fn opencode() {
    let Some(folder) = samples("opencode") else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join(".local/share/opencode");
    fs::create_dir_all(&place).unwrap();
    let path = place.join("opencode.db");
    fs::copy(folder.join("derived-opencode.db"), &path).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let count = |query: &str| {
        let rows: u32 = database.query_row(query, [], |row| row.get(0)).unwrap();
        rows as usize
    };
    let sessions = count("SELECT count(*) FROM session WHERE parent_id IS NULL");
    let prompts = count("SELECT count(*) FROM message WHERE data ->> 'role' = 'user'");
    let read = super::read_all(source("opencode"), home.path());
    assert_eq!(read.len(), sessions);
    let read: usize = read.iter().map(|(_, read)| number_of_prompts(read)).sum();
    assert!(read > 0 && read <= prompts, "{read} of {prompts}");
}

/// A sample in a folder of its own, as its tool names it.
fn as_named(sample: &Path, name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(sample, &path).unwrap();
    (folder, path)
}

#[test]
fn cline() {
    let Some(folder) = samples("cline") else {
        return;
    };
    let sample = folder.join("session.messages.json");
    let saved: Value = serde_json::from_slice(&fs::read(&sample).unwrap()).unwrap();
    let (_folder, path) = as_named(&sample, "s/s.messages.json");
    let conversation = read("cline", &path);
    let is_prompt = |message: &&Value| {
        let blocks = message["content"].as_array().unwrap();
        message["role"] == "user" && blocks.iter().any(|block| block["type"] == "text")
    };
    let messages = saved["messages"].as_array().unwrap().iter();
    assert_eq!(
        number_of_prompts(&conversation),
        messages.clone().filter(is_prompt).count()
    );
    let blocks = messages.filter(|message| message["role"] == "assistant");
    let blocks = blocks.flat_map(|message| message["content"].as_array().unwrap());
    let spoken = blocks.filter_map(|block| block["text"].as_str().map(str::to_owned));
    let kept = said(&conversation, "agent_message_chunk");
    assert_eq!(spoken.collect::<BTreeSet<_>>(), kept);
    assert_eq!(
        (conversation.unknown.total(), conversation.damage.len()),
        (0, 0)
    );
}

#[test]
fn tasks_of_roo_code() {
    let Some(folder) = samples("roo") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "json", &mut paths);
    assert!(!paths.is_empty());
    for path in paths {
        let messages: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let messages = messages.as_array().unwrap().iter();
        let feedback = messages.filter(|message| message["say"] == "user_feedback");
        let conversation = read("roo-code", &path);
        assert_eq!(number_of_prompts(&conversation), 1 + feedback.count());
        assert_eq!(conversation.unknown.total(), 0);
        let kept = said(&conversation, "agent_message_chunk");
        assert!(kept.len() > 1, "{kept:?}");
    }
}

#[test]
fn transcripts_of_cursor() {
    let Some(folder) = samples("cursor") else {
        return;
    };
    let mut paths = Vec::new();
    files(&folder, "jsonl", &mut paths);
    assert!(!paths.is_empty());
    for path in paths {
        let is_prompt = |line: &Value| {
            let mut blocks = line["message"]["content"].as_array().into_iter().flatten();
            line["role"] == "user" && blocks.any(|block| block["type"] == "text")
        };
        let lines = objects(&path);
        let prompts = lines.iter().filter(|line| is_prompt(line)).count();
        let conversation = read("cursor", &path);
        assert_eq!(
            number_of_prompts(&conversation),
            prompts,
            "{}",
            path.display()
        );
        let answers = lines.iter().filter(|line| line["role"] == "assistant");
        let blocks = answers.flat_map(|line| line["message"]["content"].as_array().unwrap());
        let spoken = blocks.filter_map(|block| block["text"].as_str().map(str::to_owned));
        let kept = said(&conversation, "agent_message_chunk");
        let spoken: BTreeSet<String> = spoken.collect();
        assert!(spoken.is_subset(&kept), "{}", path.display());
    }
}
