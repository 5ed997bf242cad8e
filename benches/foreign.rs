//! Conversations of other tools: 10,000 files of 1 GB, made of the files in `../shared/samples`, or
//! else of `fixtures/sources/home`. How long the first list takes and a further one, how fast words
//! are indexed, how long searches take, a scan without the index against `rg -F` or `grep -F` on the
//! same files, and how fast a conversation is imported. `cargo bench --bench foreign -- COUNT` makes
//! another number of files.
#![expect(
    clippy::disallowed_methods,
    reason = "it makes files by the thousand, and takes time from the machine"
)]
#![expect(
    clippy::cast_precision_loss,
    reason = "lengths here are far below 2^52"
)]

mod usage;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rejoin::index::{Catalog, Filter, Pattern, Query, Search};
use rejoin::sources::import::Importer;
use rejoin::sources::{FoundConversation, LiveSources, SOURCES, Source, ToolFolders};
use rejoin::store::{Durability, Store};
use rejoin::sys::Sys;

use usage::{of_stat, peak_memory, processor_time};

/// A file of a tool, and where copies of it are.
struct Template {
    bytes: Vec<u8>,
    /// The conversation's id, which each copy has in another form.
    id: String,
    /// The copy's path; `{id}` and `{folder}` vary.
    path: &'static str,
}

/// The tools whose conversations are a file each: the folder of samples, what comes before an id, and
/// where a file belongs.
const TOOLS: [(&str, &str, &str, &str); 6] = [
    (
        "claude-code",
        ".claude",
        "\"sessionId\"",
        ".claude/projects/-w-{folder}/{id}.jsonl",
    ),
    (
        "codex",
        ".codex",
        "\"id\"",
        ".codex/sessions/2026/01/{folder}/rollout-2026-01-01T00-00-00-{id}.jsonl",
    ),
    (
        "copilot",
        ".copilot",
        "\"sessionId\"",
        ".copilot/session-state/{id}/events.jsonl",
    ),
    (
        "gemini",
        ".gemini",
        "\"sessionId\"",
        ".gemini/tmp/{folder}/chats/session-2026-01-01T00-00-{id}.json",
    ),
    (
        "pi",
        ".pi",
        "\"id\"",
        ".pi/agent/sessions/--w-{folder}--/2026_{id}.jsonl",
    ),
    (
        "qwen",
        ".qwen",
        "\"sessionId\"",
        ".qwen/projects/-w-{folder}/chats/{id}.jsonl",
    ),
];

/// How many files there are by default.
const COUNT: usize = 10_000;

fn main() {
    let count = std::env::args().find_map(|argument| argument.parse().ok());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place for the files");
    let home = folder.path().join("home");
    let bytes = fill(&home, &templates(), count.unwrap_or(COUNT));
    let megabytes = bytes as f64 / 1e6;
    let sys = Sys::real();
    let store =
        Store::open(&folder.path().join("store"), sys, Durability::Os).expect("a new store");
    let live =
        |places: &ToolFolders| Arc::new(LiveSources::new(SOURCES.iter().collect(), places.clone()));
    let places = ToolFolders {
        home: home.clone(),
        ..ToolFolders::default()
    };
    let sources = live(&places);
    let catalog = Catalog::with_tools(store.clone(), Some(sources.clone()));
    let list = || {
        sources.scan(&store, &catalog).expect("a look at all files");
        catalog.list(&Filter::default(), None, 50).expect("a list")
    };
    report(
        "files",
        &format!("{} of {megabytes:.0} MB", count.unwrap_or(COUNT)),
    );
    let total = measured("first list ever", || list().total);
    report("conversations", &total.unwrap_or_default().to_string());
    timed("a further list", || drop(list()));
    let other = live(&places);
    measured("first list of a process", || {
        other.scan(&store, &catalog).expect("a look");
    });
    let (start, busy) = (Instant::now(), processor_time());
    while sources.count_some(&catalog).expect("words") {}
    let (took, busy) = (start.elapsed().as_secs_f64(), processor_time() - busy);
    report("index of all words", &format!("{took:.2} s"));
    report(
        "the same, processor time",
        &format!("{busy:.2} s, {:.0} MB/s", megabytes / busy),
    );
    let index = fs::metadata(folder.path().join("store/index.sqlite")).map_or(0, |file| file.len());
    report("index file", &format!("{} kB", index / 1024));
    report("peak memory", &peak_memory());
    for text in [
        "readme",
        "\"go test\"",
        "config error",
        "func",
        "nothingofthekind",
    ] {
        let query = Query::new(Pattern::Words(Search::parse(text).expect("words")));
        timed(&format!("places of `{text}`"), || {
            catalog.hits(&query, None, &|| false).expect("hits");
        });
    }
    scan(&catalog, &home);
    commands(&folder.path().join("store"), &home);
    imports(&store, &catalog, &home, &places);
    report("peak memory", &peak_memory());
}

/// Files of tools that a copy can be made of.
fn templates() -> Vec<Template> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let samples = project.join("../shared/samples");
    let mut found = Vec::new();
    for (tool, folder, before_id, path) in TOOLS {
        let real = samples.join(tool);
        let own = project.join("fixtures/sources/home").join(folder);
        let mut files = Vec::new();
        collect(if real.is_dir() { &real } else { &own }, &mut files);
        let fits = |file: &PathBuf| {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let ending = if tool == "gemini" { ".json" } else { ".jsonl" };
            name.ends_with(ending) && !name.starts_with("agent-")
        };
        for file in files.iter().filter(|file| fits(file)) {
            let bytes = fs::read(file).expect("a sample");
            let text = String::from_utf8_lossy(&bytes);
            let behind = text.split_once(before_id).map(|(_, behind)| behind);
            let Some(id) = behind.and_then(|behind| behind.split('"').nth(1)) else {
                continue;
            };
            let id = id.to_owned();
            found.push(Template { bytes, id, path });
        }
    }
    found
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of samples");
    let mut entries: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Writes copies of the templates in turn, each with an id of its own. Returns their length.
fn fill(home: &Path, templates: &[Template], count: usize) -> usize {
    let mut bytes = 0;
    for number in 0..count {
        let template = &templates[number % templates.len()];
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let path = template.path.replace("{id}", &id);
        let path = home.join(path.replace("{folder}", &(number % 300).to_string()));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let text = replaced(&template.bytes, template.id.as_bytes(), id.as_bytes());
        fs::write(&path, &text).expect("a file");
        bytes += text.len();
    }
    bytes
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for found in memchr::memmem::find_iter(bytes, from) {
        out.extend_from_slice(&bytes[at..found]);
        out.extend_from_slice(to);
        at = found + from.len();
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

/// A text that no file has.
const NEEDLE: &str = "needle in a haystack";

/// The times of processes that were waited for.
const OF_OTHERS: usize = 13;

/// A text that no file has, found without the index, and by others.
fn scan(catalog: &Catalog, home: &Path) {
    let query = Query::new(Pattern::Substring(NEEDLE.to_owned()));
    measured("a text in all files", || {
        let mut cursor = None;
        loop {
            let page = catalog.hits(&query, cursor.as_deref(), &|| false);
            cursor = page.expect("hits").next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    });
    for (program, arguments) in [("rg", "-uuulF"), ("grep", "-rlF")] {
        let name = format!("the same with `{program}`");
        process(
            &name,
            Command::new(program).args([arguments, NEEDLE]).arg(home),
        );
    }
}

/// Commands of the program, each in a process of its own.
fn commands(store: &Path, home: &Path) {
    for (name, arguments) in [
        (
            "`sessions list`",
            &["sessions", "list", "--source", "all"][..],
        ),
        (
            "`sessions search readme`",
            &["sessions", "search", "readme"],
        ),
        ("`stats`", &["stats", "--json"]),
        ("`stats` again", &["stats", "--json"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command.args(arguments).arg("--store").arg(store);
        command.env("HOME", home).env("REJOIN_SOURCES", "all");
        for name in ToolFolders::names() {
            command.env_remove(name);
        }
        process(name, &mut command);
    }
}

/// Runs a process, and reports what it has used.
fn process(name: &str, command: &mut Command) {
    let (start, busy) = (Instant::now(), of_stat(OF_OTHERS));
    let Ok(ran) = command.output() else {
        return report(name, "is not here");
    };
    let took = start.elapsed().as_secs_f64();
    let busy = of_stat(OF_OTHERS) - busy;
    // `rg` and `grep` end with 1 if there is nothing.
    let failed = if ran.status.code() <= Some(1) {
        ""
    } else {
        "failed: "
    };
    report(name, &format!("{failed}{took:.2} s, processor {busy:.2} s"));
}

/// Imports the longest conversation of each tool.
fn imports(store: &Store, catalog: &Catalog, home: &Path, places: &ToolFolders) {
    let importer = Importer::new(store, catalog, home).expect("an import");
    let mut longest: BTreeMap<&str, (&Source, FoundConversation)> = BTreeMap::new();
    for source in &SOURCES {
        for found in source.find(places).found {
            let known = longest.get(source.name);
            if known.is_none_or(|(_, known)| known.size < found.size) {
                longest.insert(source.name, (source, found));
            }
        }
    }
    for (name, (source, found)) in longest {
        let busy = processor_time();
        let rounds = (20_000_000 / found.size.max(1)).clamp(1, 200);
        for _ in 0..rounds {
            drop(source.read(&found).expect("a conversation"));
        }
        let busy = (processor_time() - busy).max(0.001) / rounds as f64;
        let size = found.size as f64 / 1e6;
        let rate = size / busy;
        let imported = Instant::now();
        importer.import(source, &found).expect("an import");
        let import = imported.elapsed().as_secs_f64() * 1000.0;
        report(
            &format!("{name}, {size:.1} MB"),
            &format!("read {rate:.0} MB/s, imported in {import:.0} ms"),
        );
    }
}

/// The result of `run`, whose time is reported.
fn measured<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let (start, busy) = (Instant::now(), processor_time());
    let result = run();
    let took = start.elapsed().as_secs_f64();
    let busy = processor_time() - busy;
    report(name, &format!("{took:.2} s, processor {busy:.2} s"));
    result
}

/// The median and the 95th percentile of 20 runs.
fn timed(name: &str, mut run: impl FnMut()) {
    let busy = processor_time();
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    took.sort();
    let busy = (processor_time() - busy) / 20.0 * 1000.0;
    let millis = |at: usize| took[at].as_secs_f64() * 1000.0;
    let text = format!(
        "{:.2} ms, p95 {:.2} ms, processor {busy:.1} ms",
        millis(10),
        millis(18)
    );
    report(name, &text);
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn report(name: &str, value: &str) {
    println!("{name:30} {value:>48}");
}
