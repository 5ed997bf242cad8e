//! Lists and searches as people see them at several widths, with and without colours:
//! `fixtures/cli`. `UPDATE_FIXTURES=1` writes the files.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use clap::Parser;
use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::term::{Look, Output, width};
use rejoin::record::{Kind, line};
use rejoin::store::{Durability, Log, Store, Sync};
use rejoin::sys::sim::{SimClock, SimDisk};
use rejoin::sys::{SessionId, Sys, Timestamp, Zone, lock};

use super::context::CommandContext;
use super::id::candidates;
use super::named::{ChosenSession, choose};

/// When the commands run.
const NOW: &str = "2026-11-23T14:05:00.000Z";
const MINUTE: i64 = 60 * 1000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Sessions: how long ago they were used, their agent, folder and first prompt.
const SESSIONS: [(i64, &str, &str, &str); 10] = [
    (
        3 * MINUTE,
        "claude-code-acp",
        "/home/ada/projects/cache",
        "Fix the cache eviction in the connection pool, and add a test that fails without the fix",
    ),
    (
        40 * MINUTE,
        "codex-acp",
        "/home/ada/projects/缓存/服务器/连接池",
        "修复连接池中的缓存淘汰问题，并添加测试以确保这个问题不会再次发生",
    ),
    (
        60 * MINUTE,
        "gemini",
        "/home/ada",
        "🚀 Ship it 👩‍👩‍👧 ❤️ and write about the cache in the notes of the release, twice",
    ),
    (
        5 * 60 * MINUTE,
        "rejoin",
        "/srv/a/folder/with/a/very/long/name/that/does/not/fit/anywhere",
        "x\u{1b}[31mred\u{7}\u{202e}y\tz",
    ),
    (DAY, "opencode", "/home/ada/notes", "Why?"),
    (
        4 * DAY,
        "an-agent-with-a-name-that-is-long",
        "/home/ada/notes",
        "What is the capital of France?",
    ),
    (20 * DAY, "codex-acp", "/home/ada/notes", ""),
    (200 * DAY, "codex-acp", "/home/ada/notes", "Sort the photos"),
    (400 * DAY, "codex-acp", "/home/ada/notes", "Sort the photos"),
    (401 * DAY, "codex-acp", "/home/ada/notes", "Write a letter"),
];

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    sessions: super::Args,
}

/// Something that prints.
pub(in crate::cli) type Command<'a> =
    dyn Fn(CommandContext<'_>, &mut Output) -> Result<(), Failure> + 'a;

/// A store, with sessions that are open in a client.
pub(in crate::cli) struct Stored {
    disk: SimDisk,
    store: Store,
    _open: Vec<Log>,
}

impl Stored {
    fn new() -> Self {
        let disk = SimDisk::new();
        for (n, (ago, agent, cwd, words)) in SESSIONS.into_iter().enumerate() {
            let at = now().as_millis() - ago;
            put(&disk, n, at, agent, cwd, words);
        }
        for (n, minutes) in (SESSIONS.len()..24).zip(10..) {
            let at = now().as_millis() - 500 * DAY - minutes * MINUTE;
            put(&disk, n, at, "rejoin", "/srv/app", &format!("Question {n}"));
        }
        for (n, (ago, agent, cwd, words)) in SESSIONS.into_iter().enumerate().take(5) {
            let (n, at) = (100 + n, now().as_millis() - ago);
            let path = format!("/store/trash/{}.{at}.jsonl", id(n));
            disk.put(Path::new(&path), &log(n, at, agent, cwd, words));
        }
        let store = Store::open(Path::new("/store"), sys(&disk), Durability::Turn).unwrap();
        store.serves("Zed");
        let open = [0, 1, 2].map(|n| {
            let mut log = store.open_log(&id(n)).unwrap().log;
            let mut append = |kind, id: &str, payload: Value| {
                log.append(kind, Some(id), &payload.to_string(), Sync::Turn)
                    .unwrap();
            };
            if n < 2 {
                append(Kind::Prompt, "msg_2", prompt("Go on"));
            }
            if n == 1 {
                append(Kind::Ask, "call_1", json!({ "toolCall": {} }));
            }
            log
        });
        Self {
            disk,
            store,
            _open: open.into(),
        }
    }

    /// The output of a command.
    fn prints(&self, columns: usize, colour: bool, command: &Command<'_>) -> String {
        let line = CommandLine::parse_from(["rejoin", "list"]);
        let context = CommandContext::of(&line.global, sys(&self.disk), self.store.clone());
        let screen = Screen::default();
        let mut output = Output::on(Box::new(screen.clone()), look(columns, colour));
        command(context, &mut output).unwrap();
        drop(output);
        let shown = lock(&screen.0).clone();
        String::from_utf8(shown).unwrap()
    }
}

fn look(columns: usize, colour: bool) -> Look {
    Look {
        terminal: true,
        colour,
        width: columns,
        zone: Zone::Ahead(60),
        home: Some("/home/ada".into()),
    }
}

fn now() -> Timestamp {
    Timestamp::parse(NOW).unwrap()
}

fn sys(disk: &SimDisk) -> Sys {
    Sys {
        clock: Arc::new(SimClock::starting_at(now())),
        ..disk.sys()
    }
}

pub(in crate::cli) fn id(n: usize) -> SessionId {
    let digits = 0x0123_4567_89ab_u64.wrapping_mul(n as u64 + 7) & 0xffff_ffff_ffff;
    SessionId::parse(&format!("sess_01902f3c-7b1e-7c3a-8f00-{digits:012x}")).unwrap()
}

fn prompt(words: &str) -> Value {
    json!({ "prompt": [{ "type": "text", "text": words }] })
}

/// A session in the store.
fn put(disk: &SimDisk, n: usize, at: i64, agent: &str, cwd: &str, words: &str) {
    let path = format!("/store/sessions/{}.jsonl", id(n));
    disk.put(Path::new(&path), &log(n, at, agent, cwd, words));
}

fn log(n: usize, at: i64, agent: &str, cwd: &str, words: &str) -> Vec<u8> {
    let mut log = Vec::new();
    let mut record = |seq, kind, id: Option<&str>, payload: Value| {
        let at = Timestamp::from_millis(at);
        line::encode(&mut log, seq, at, kind, id, &payload.to_string());
    };
    let id = id(n);
    let header = json!({ "format": 1, "sessionId": id.as_str(), "cwd": cwd,
        "engine": { "name": agent }, "protocolVersion": 1 });
    record(0, Kind::Session, None, header);
    record(1, Kind::Prompt, Some("msg_1"), prompt(words));
    record(2, Kind::End, None, json!({ "stopReason": "end_turn" }));
    if n == 4 {
        record(3, Kind::Info, None, json!({ "archived": true }));
    }
    log
}

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line without its colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').unwrap().1)
}

/// Compares what commands print with a file of `fixtures/cli`.
fn check(file: &str, commands: &[&[&str]]) {
    let lines = commands.iter().map(|arguments| {
        CommandLine::parse_from([&["rejoin"], *arguments].concat())
            .sessions
            .command
    });
    let lines: Vec<_> = lines.collect();
    let run = |command| {
        move |context: CommandContext<'_>, output: &mut Output| {
            super::perform(context, command, output)
        }
    };
    let runs: Vec<_> = lines.iter().map(run).collect();
    let names = commands.iter().map(|arguments| arguments.join(" "));
    let names: Vec<_> = names.collect();
    let commands = names.iter().zip(&runs);
    let commands: Vec<_> = commands
        .map(|(name, run)| (name.as_str(), run as &Command<'_>))
        .collect();
    check_commands(file, &commands);
}

/// Compares what commands with these names print, in several widths, with a stored file.
pub(in crate::cli) fn check_commands(file: &str, commands: &[(&str, &Command<'_>)]) {
    let stored = Stored::new();
    let mut text = String::new();
    for columns in [60, 100, 200] {
        for (name, command) in commands {
            let shown = stored.prints(columns, false, command);
            let coloured = stored.prints(columns, true, command);
            for line in shown.lines() {
                assert!(width(line) <= columns, "{columns} columns: {line}");
            }
            let lines: Vec<_> = coloured.lines().map(plain).collect();
            assert_eq!(lines, shown.lines().collect::<Vec<_>>());
            let head = format!("$ rejoin {name}    # ");
            text.extend([&head, &columns.to_string(), " columns\n", &shown, "\n"]);
            if columns == 60 {
                let coloured = coloured.replace('\u{1b}', "\\e");
                text.extend([&head, "in colour\n", &coloured, "\n"]);
            }
        }
    }
    compare(file, &text);
}

#[expect(clippy::disallowed_methods, reason = "a fixture is no store")]
fn compare(file: &str, text: &str) {
    let path = format!("fixtures/cli/{file}.txt");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "{path} differs from:\n{text}");
}

#[test]
fn list() {
    check("list", &[&["list"], &["list", "-n", "4"]]);
}

#[test]
fn search() {
    check(
        "search",
        &[
            &["search", "cache"],
            &["search", "--regex", "淘汰|[cC]apital"],
        ],
    );
}

#[test]
fn prune() {
    check("prune", &[&["prune", "--older-than", "300d", "--dry-run"]]);
}

#[test]
fn trash() {
    check(
        "trash",
        &[
            &["trash", "list"],
            &["restore"],
            &["trash", "list", "-n", "2"],
        ],
    );
}

#[test]
fn ambiguous_names() {
    let stored = Stored::new();
    let line = CommandLine::parse_from(["rejoin", "list"]);
    let context = CommandContext::of(&line.global, sys(&stored.disk), stored.store.clone());
    let candidates = candidates(&context.catalog, false).unwrap();
    let mut text = String::new();
    for columns in [60, 100, 200] {
        for name in ["sort", "question", "e"] {
            let ChosenSession::Several(several) = choose(name, &candidates) else {
                panic!("{name:?} is in several titles");
            };
            let look = look(columns, false);
            let (message, hint) = several.explained(name, &candidates, now(), &look);
            for line in message.lines().skip(1) {
                assert!(width(line) <= columns, "{columns} columns: {line}");
            }
            let columns = columns.to_string();
            text.extend([
                &columns,
                " columns: ",
                &message,
                "\n  hint: ",
                &hint,
                "\n\n",
            ]);
        }
    }
    compare("ambiguous", &text);
}
