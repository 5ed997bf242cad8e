//! Files of tools with one peculiarity each, and what is shown of them: the texts in
//! `fixtures/sources/cases`. `UPDATE_FIXTURES=1` writes what is shown anew.
//!
//! Files that lie beside the project are read in the same way, where they are there: of each of their
//! conversations, a table says what must be shown.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rejoin::record::title::{MadeTitle, named};
use rejoin::record::{Kind, metadata};
use rejoin::sources::{SOURCES, Source, ToolConversation, ToolFolders};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::import::{at_home, import};
use crate::support::env::update_fixtures;
use crate::support::systems::can_run;

/// A home folder with the files of a case, and the variables that are set.
struct Case {
    home: TempDir,
    variables: BTreeMap<&'static str, PathBuf>,
}

impl Case {
    fn new(home: TempDir) -> Self {
        let variables = BTreeMap::new();
        Self { home, variables }
    }

    /// Sets a variable to a path in the home folder.
    fn set(&mut self, name: &str, path: &str) {
        let mut names = ToolFolders::names().into_iter();
        let name = names.find(|known| *known == name).unwrap();
        self.variables.insert(name, self.home.path().join(path));
    }

    fn places(&self) -> ToolFolders {
        ToolFolders {
            home: self.home.path().to_owned(),
            variables: self.variables.clone(),
            system: None,
        }
    }

    /// The conversations of all tools, in the order of their ids.
    fn conversations(&self) -> Vec<(&'static Source, ToolConversation)> {
        let mut all = Vec::new();
        for source in &SOURCES {
            let found = source.find(&self.places());
            assert!(found.errors.is_empty(), "{:?}", found.errors);
            for found in &found.found {
                let conversation = source.read(found).unwrap();
                if !conversation.entries.is_empty() {
                    all.push((source, conversation));
                }
            }
        }
        all.sort_by(|(_, one), (_, other)| one.id.cmp(&other.id));
        all
    }
}

/// A text on one line.
fn line(text: &str) -> String {
    text.trim_end().replace('\n', "⏎")
}

fn block(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => line(block["text"].as_str().unwrap()),
        Some("image") => {
            let len = block["data"].as_str().unwrap().len();
            format!("[{} {len}]", block["mimeType"].as_str().unwrap())
        }
        _ => block.to_string(),
    }
}

/// What a client is shown of an update.
fn update(shown: &mut String, update: &Value) {
    let text = |name: &str| update[name].as_str().unwrap_or_default();
    match text("sessionUpdate") {
        "agent_message_chunk" => writeln!(shown, "answer: {}", block(&update["content"])),
        "agent_thought_chunk" => writeln!(shown, "thought: {}", block(&update["content"])),
        "user_message_chunk" => writeln!(shown, "message: {}", block(&update["content"])),
        "tool_call" => writeln!(shown, "call {}: {}", text("kind"), line(text("title"))),
        "tool_call_update" => writeln!(shown, "{}", text("status")),
        "plan" => writeln!(shown, "plan: {}", update["entries"]),
        "subagent_update" if update["state"].is_null() => {
            writeln!(shown, "subagent {}", text("title"))
        }
        "subagent_update" => writeln!(shown, "subagent {}", update["state"]["stopReason"]),
        _ => writeln!(shown, "{update}"),
    }
    .unwrap();
    for location in update["locations"].as_array().into_iter().flatten() {
        writeln!(shown, "  at {}", location["path"].as_str().unwrap()).unwrap();
    }
    let is_call = text("sessionUpdate").starts_with("tool_call");
    for part in update["content"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|_| is_call)
    {
        match part["type"].as_str() {
            Some("diff") => {
                let side = |name: &str| part[name].as_str().map_or("-".to_owned(), line);
                let path = part["path"].as_str().unwrap();
                writeln!(shown, "  {path}: {} → {}", side("oldText"), side("newText"))
            }
            _ => writeln!(shown, "  {}", block(&part["content"])),
        }
        .unwrap();
    }
}

/// What is shown of a conversation.
fn shown(source: &Source, conversation: &ToolConversation) -> String {
    let (mut made, mut own, mut is_archived) = (None, None, false);
    let mut body = String::new();
    for entry in &conversation.entries {
        let payload: Value = serde_json::from_str(&entry.payload).unwrap();
        match entry.kind {
            Kind::Prompt => {
                MadeTitle::take(&mut made, &entry.payload);
                let blocks = payload["prompt"].as_array().unwrap();
                let blocks: Vec<String> = blocks.iter().map(block).collect();
                writeln!(body, "prompt: {}", blocks.join(" ")).unwrap();
            }
            Kind::Update => update(&mut body, &payload),
            Kind::Subagent => {
                body.push_str("| ");
                update(&mut body, &payload["update"]);
            }
            Kind::End => {
                let reason = payload["stopReason"].as_str().unwrap();
                let tokens = &payload["usage"]["totalTokens"];
                let cost = &payload["_meta"]["rejoin"]["cost"]["amount"];
                let mut end = format!("end: {reason}");
                for (what, number) in [("tokens", tokens), ("USD", cost)] {
                    if !number.is_null() {
                        write!(end, ", {number} {what}").unwrap();
                    }
                }
                writeln!(body, "{end}").unwrap();
            }
            _ => {
                is_archived |= metadata::archived(&entry.payload) == Some(true);
                own = named(&entry.payload).flatten().or(own);
            }
        }
    }
    let mut text = format!("{} {}\n", source.name, conversation.id);
    let title = own.or(made.map(|made| made.title)).unwrap_or_default();
    writeln!(text, "title: {title}").unwrap();
    writeln!(
        text,
        "folder: {}",
        conversation.cwd.as_deref().unwrap_or("-")
    )
    .unwrap();
    if is_archived {
        text.push_str("archived\n");
    }
    if conversation.unknown.total() > 0 {
        writeln!(text, "{} unknown", conversation.unknown.total()).unwrap();
    }
    for damage in &conversation.damage {
        writeln!(text, "{damage}").unwrap();
    }
    text + &body
}

/// A case from a text: parts behind lines such as `--- file PATH`, and what is shown at the end.
fn case(text: &str) -> Case {
    let mut case = Case::new(tempfile::tempdir().unwrap());
    for part in text.split("\n--- ").skip(1) {
        let (head, content) = part.split_once('\n').unwrap_or((part, ""));
        let words: Vec<&str> = head.splitn(3, ' ').collect();
        let make = |path: &str| {
            let path = case.home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        match words[..] {
            ["file", path] => {
                // A part has no line feed at its end, and a text no zeros.
                let content = format!("{content}\n").replace('␀', "\0");
                fs::write(make(path), content).unwrap();
            }
            ["database", path] => {
                let database = Connection::open(make(path)).unwrap();
                database.execute_batch(content).unwrap();
            }
            ["variable", name, path] => case.set(name, path),
            ["shown"] => {}
            _ => panic!("{head}"),
        }
    }
    case
}

#[test]
fn each_case_is_shown_as_it_should_be() {
    if !can_run("each_case_is_shown_as_it_should_be") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sources/cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let (given, expected) = text.split_once("\n--- shown\n").unwrap();
        let case = case(given);
        let shown: Vec<String> = case
            .conversations()
            .iter()
            .map(|(source, conversation)| shown(source, conversation))
            .collect();
        let shown = shown.join("\n");
        if update_fixtures() {
            fs::write(&path, format!("{given}\n--- shown\n{shown}")).unwrap();
        } else if shown != expected {
            wrong.push(format!(
                "{}:\n{shown}\ninstead of\n{expected}",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The folder with the cases of others, if it is there.
fn cases_of_others() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()?
        .join("shared/cases");
    if !folder.is_dir() {
        eprintln!("skipped: there are no cases beside the project");
        return None;
    }
    Some(folder)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Copies a home folder over another one, and makes its databases.
fn overlay(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            overlay(&path, &copied);
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            let database = Connection::open(copied.with_extension("")).unwrap();
            let content = fs::read_to_string(&path).unwrap();
            database.execute_batch(&content).unwrap();
        } else {
            // Keys are marked, so that nothing takes them for keys.
            let content = fs::read(&path).unwrap();
            match String::from_utf8(content) {
                Ok(text) => fs::write(&copied, text.replace("~~", "")).unwrap(),
                Err(error) => fs::write(&copied, error.as_bytes()).unwrap(),
            }
        }
    }
}

/// The homes of the cases of others: those folders with hidden ones in them.
fn homes() -> Option<Vec<Case>> {
    let mut homes = Vec::new();
    for case in folders(&cases_of_others()?) {
        let inner = folders(&case);
        let is_home = |folder: &Path| {
            let inner = folders(folder);
            inner
                .iter()
                .any(|path| path.file_name().unwrap().to_string_lossy().starts_with('.'))
        };
        let candidates = inner.into_iter().chain([case]);
        for folder in
            candidates.filter(|folder| is_home(folder) || folder.join("elsewhere.db.sql").exists())
        {
            let home = tempfile::tempdir().unwrap();
            overlay(&folder, home.path());
            let mut case = Case::new(home);
            for (name, path) in [
                ("GEMINI_CLI_HOME", "elsewhere-gemini"),
                ("QWEN_RUNTIME_DIR", "elsewhere-qwen"),
                ("OPENCODE_DB", "elsewhere.db"),
            ] {
                if case.home.path().join(path).exists() {
                    case.set(name, path);
                }
            }
            homes.push(case);
        }
    }
    Some(homes)
}

/// Of conversations of others: what is shown of them, one after the other; `!` is before what is not.
const SHOWN: &[(&str, &[&str])] = &[
    (
        "00001a40-",
        &[
            "prompt: half \u{fffd} apple",
            "answer: an apple \u{fffd}",
            "row \u{fffd} ok",
            "prompt: last plum",
            "answer: three plums",
        ],
    ),
    (
        "00001a50-",
        &[
            "prompt: pick one \u{fffd}",
            "answer: picked\n",
            "prompt: pick two",
            "answer: picked two",
        ],
    ),
    (
        "00001a60-",
        &[
            "cut off",
            "prompt: dig a trench",
            "answer: dug",
            "prompt: fill it again",
            "answer: filled",
        ],
    ),
    (
        "00001a70-",
        &[
            "cut off",
            "prompt: mow",
            "answer: mown",
            "prompt: rake",
            "answer: raked",
        ],
    ),
    (
        "session_00001a80-",
        &[
            "cut off",
            "prompt: sow",
            "answer: sown",
            "prompt: reap",
            "answer: reaped",
        ],
    ),
    (
        "00001a90-",
        &[
            "prompt: read the label",
            "answer: reading",
            "completed",
            "Plum jam⏎400 g⏎sugar",
            "answer: read",
            "!no result",
        ],
    ),
    (
        "019f7c40-",
        &[
            "title: What is in the basket?",
            "prompt: [image/png",
            "What is in the basket?",
            "answer: Six plums.",
            "!prompt",
            "!goal",
            "!hook",
        ],
    ),
    (
        "019f7c41-",
        &[
            "prompt: Sort the plums by size",
            "answer: Sorted.",
            "prompt: Now the pears",
            "answer: Done with the pears.",
            "!prompt",
            "!answer",
        ],
    ),
    (
        "019f7c42-",
        &[
            "prompt: Only as items",
            "call execute: ls -la",
            "completed",
            "plum.txt",
            "call edit",
            "/srv/orchard/a.txt: a → b",
            "answer: Answered as an item.",
        ],
    ),
    (
        "ses_plum0",
        &[
            "title: Barn and crates 0",
            "folder: /srv/orchard",
            "prompt: Count the crates in the barn",
            "thought: Nine or ten?",
            "call execute: ls",
            "completed",
            "crate1",
            "answer: There are nine crates.",
            "!stale",
        ],
    ),
    (
        "019f7c50-",
        &[
            "prompt: run the press",
            "call execute: make press",
            "completed",
            "42 jars",
            "prompt: and label the jars",
            "answer: Labels are on.",
            "answer: All jars done.",
            "!no result",
        ],
    ),
    (
        "00001b00-",
        &[
            "prompt: prune both",
            "prompt: and burn the twigs",
            "answer: Both pruned, twigs burnt.",
            "!no result",
        ],
    ),
    (
        "00001b10-",
        &[
            "prompt: boil the jam",
            "prompt: stir it",
            "completed",
            "boiled",
            "answer: Jam is ready.",
            "!no result",
        ],
    ),
    (
        "019f7c70-",
        &[
            "prompt: boil the jam",
            "prompt: stir it",
            "completed",
            "boiled",
            "!no result",
        ],
    ),
    (
        "session_00001b20-",
        &[
            "prompt: what grows here? [image/png",
            "completed",
            "[image/png",
        ],
    ),
    (
        "019f7c71-",
        &["prompt: look at b.png", "completed", "[image/png"],
    ),
    (
        "00001b30-",
        &["prompt: look at b.png", "completed", "[image/png"],
    ),
    (
        "plum-pic0",
        &["prompt: look at b.png", "completed", "[image/png"],
    ),
    (
        "00001b40-",
        &["prompt: look [image/png", "completed", "[image/png"],
    ),
    (
        "019f7c72-",
        &[
            "prompt: what is it? [Image #1] [image/png",
            "completed",
            "[image/png",
            "![image /srv",
        ],
    ),
    (
        "019f7c73-",
        &[
            "prompt: plan the harvest",
            "answer: Here is the plan:",
            "1. ladders 2. baskets",
            "!1. ladders",
        ],
    ),
    (
        "session_00001b50-",
        &[
            "folder: /srv/orchard",
            "prompt: keep this",
            "answer: kept",
            "!throw",
        ],
    ),
    ("ses_arch", &["archived"]),
    ("ses_live", &["!archived"]),
    ("019f7c74-", &["archived"]),
    ("019f7c75-", &["!archived"]),
    ("session_00001b60-", &["archived"]),
    ("00001b70-", &["folder: /srv/moved-orchard"]),
    ("00001b80-", &["prompt: hello from elsewhere"]),
    ("019f7c76-", &["prompt: hello from elsewhere"]),
    ("ses_else", &["prompt: hello from elsewhere"]),
    ("019f7c78-", &["title: Harvest of the year"]),
    ("019f7c79-", &["title: plain row"]),
    ("00001b90-", &["0.17 USD", "0.42 USD"]),
    (
        "019f7c77-",
        &[
            "prompt: clear the shed",
            "call execute: ls",
            "completed",
            "rake",
            "call execute: rm -rf nest",
            "failed",
            "no result was recorded",
        ],
    ),
    ("ses_nodir", &["folder: /srv/orchard"]),
    (
        "plum-ext",
        &[
            "prompt: greet",
            "answer: Shown by an extension",
            "answer: done",
            "!Hidden",
        ],
    ),
    ("00001ba0-", &["at /srv/orchard/b.txt"]),
    ("019f7c7a-", &["at /srv/orchard/b.txt"]),
    (
        "00001bb0-",
        &[
            "prompt: taste it",
            "thought: sweet?",
            "answer: It is sweet.",
            "!answer",
        ],
    ),
    (
        "019f7c7b-",
        &[
            "title: and now the pears",
            "prompt: and now the pears",
            "!prompt",
        ],
    ),
    ("00001bc0-", &["title: Add a retry to the sprinkler"]),
    ("00001bd0-", &["title: what does this error mean?"]),
    ("00001be0-", &["title: what is wrong here"]),
    ("019f7c80-", &["title: Why does the jam not set?"]),
    ("019f7c81-", &["title: Sum up this file"]),
    ("plum-cmd0", &["title: count the beehives"]),
    ("00001ae0-", &["1000 tokens"]),
];

#[test]
fn cases_of_others_are_shown_as_they_should_be() {
    let Some(homes) = homes() else { return };
    let mut seen = vec![false; SHOWN.len()];
    let mut wrong = Vec::new();
    for home in homes {
        for (source, conversation) in home.conversations() {
            let of_this = SHOWN.iter().zip(&mut seen);
            for ((_, expected), seen) in
                of_this.filter(|((id, _), _)| conversation.id.starts_with(id))
            {
                *seen = true;
                let text = shown(source, &conversation);
                let mut rest = text.as_str();
                for part in *expected {
                    match part.strip_prefix('!') {
                        Some(absent) if rest.contains(absent) => {
                            wrong.push(format!("{absent:?} is in\n{text}"));
                        }
                        Some(_) => {}
                        None => match rest.split_once(part) {
                            Some((_, behind)) => rest = behind,
                            None => wrong.push(format!("{part:?} is not in\n{text}")),
                        },
                    }
                }
            }
        }
    }
    let unseen = SHOWN.iter().zip(seen).filter(|(_, seen)| !seen);
    wrong.extend(unseen.map(|((id, _), _)| format!("{id} is not found")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of homes of others with this conversation: a source, its turns, their tokens and their cost.
const COUNTED: &[(&str, &str, u64, u64, Option<f64>)] = &[
    ("00001ac0-", "claude-code", 3, 170, None),
    ("019f7c60-", "codex", 3, 300, None),
    ("plum-a0", "pi", 3, 300, Some(0.3)),
    ("00001ae0-", "claude-code", 1, 1000, None),
    ("00001b90-", "claude-code", 2, 40, Some(0.42)),
];

#[test]
fn cases_of_others_are_counted_as_they_should_be() {
    let Some(homes) = homes() else { return };
    let mut found = 0;
    for home in homes {
        let all = home.conversations();
        for (id, source, turns, tokens, cost) in COUNTED {
            if !all
                .iter()
                .any(|(_, conversation)| conversation.id.starts_with(id))
            {
                continue;
            }
            found += 1;
            let store = tempfile::tempdir().unwrap();
            let arguments = ["stats", "--json", "--sources", source];
            let output = at_home(store.path(), home.home.path(), &arguments)
                .output()
                .unwrap();
            let stats: Value = serde_json::from_slice(&output.stdout).unwrap();
            let total = &stats["total"];
            assert_eq!(total["turns"], *turns, "{id}: {total}");
            assert_eq!(total["tokens"]["totalTokens"], *tokens, "{id}: {total}");
            let is = total["cost"][0]["amount"].as_f64();
            let is = is.map(|cost| (cost * 100.0).round() / 100.0);
            assert_eq!(is, *cost, "{id}: {total}");
        }
    }
    assert_eq!(found, COUNTED.len());
}

/// Of conversations of others that have changed: what is shown then.
const CHANGED: &[(&str, &[&str])] = &[
    (
        "00001a10-",
        &[
            "Water the seedlings in row four",
            "Row four is watered.",
            "Prune the pear tree too",
            "The pear tree is pruned.",
        ],
    ),
    (
        "00001a20-",
        &[
            "Good morning",
            "Good morning to you.",
            "instead: Water the seedlings",
            "edited: Row four",
            "Prune the pear tree too",
            "The pear tree is pruned.",
        ],
    ),
    ("00001a30-", &["print('ok')"]),
    (
        "019f7c30-",
        &[
            "Water the seedlings in row four",
            "of all the rows behind it",
            "Row four is watered.",
            "Prune the pear tree too",
            "The pear tree is pruned.",
        ],
    ),
];

#[test]
fn cases_of_others_that_change_are_followed() {
    let Some(cases) = cases_of_others() else {
        return;
    };
    let changing = folders(&cases)
        .into_iter()
        .filter(|case| case.join("after").is_dir());
    for case in changing {
        let (home, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        overlay(&case.join("before"), home.path());
        for source in ["claude-code", "codex", "gemini"] {
            import(store.path(), home.path(), source);
        }
        overlay(&case.join("after"), home.path());
        for source in ["claude-code", "codex", "gemini"] {
            let [imported, _, _, differing, _] = import(store.path(), home.path(), source);
            assert_eq!((imported, differing), (0, 0), "{source}");
        }
        let (home, store) = (home.path(), store.path());
        let list = at_home(store, home, &["sessions", "list", "--json"])
            .output()
            .unwrap();
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        assert_eq!(list.as_array().unwrap().len(), CHANGED.len());
        let places = ToolFolders {
            home: home.to_owned(),
            ..ToolFolders::default()
        };
        for source in &SOURCES {
            for found in source.find(&places).found {
                let id = source.read(&found).unwrap().id;
                let expected = CHANGED.iter().find(|(start, _)| id.starts_with(start));
                let (_, expected) = expected.unwrap_or_else(|| panic!("{id}"));
                let show = at_home(store, home, &["sessions", "show", &id])
                    .output()
                    .unwrap();
                let text = String::from_utf8(show.stdout).unwrap();
                let mut rest = text.as_str();
                for part in *expected {
                    let behind = rest.split_once(part);
                    (_, rest) = behind.unwrap_or_else(|| panic!("{part:?} is not in\n{text}"));
                }
            }
        }
        let found = at_home(store, home, &["sessions", "search", "pruned"])
            .output()
            .unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.matches("is pruned").count(), 4, "{found}");
    }
}
