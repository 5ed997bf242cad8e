//! Search on a store of 500 sessions and 130 MB: how fast words are indexed, how long a search
//! takes, and a scan without the index against `grep -F` on the same files.
#![expect(
    clippy::disallowed_methods,
    reason = "it makes logs by the thousand, without the store"
)]

mod usage;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rejoin::index::{Catalog, Filter, Pattern, Query, Search};
use rejoin::record::{FORMAT, Kind, line};
use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys, Timestamp};

use usage::{peak_memory, processor_time};

const SESSIONS: usize = 500;
/// How many turns a session has.
const TURNS: usize = 5;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A text of about `len` bytes, from 20,000 words of which a few are frequent.
    fn text(&mut self, len: usize) -> String {
        let mut text = String::new();
        while text.len() < len {
            let rank = 1 << self.below(15);
            let word = self.below(rank) * 7919;
            let written = match word % 11 {
                0 => write!(text, "read{word}Config"),
                1 => write!(text, "src/mod_{word}/file{}.rs\\n", word % 13),
                _ => write!(text, "word{word:x}"),
            };
            written.expect("a string takes everything");
            text.push(' ');
        }
        text
    }
}

/// The log of a session: in each turn a prompt, a thought and an answer in chunks, and four tool
/// calls of which two read files of 20 kB.
fn log(id: &SessionId, at: Timestamp, numbers: &mut Numbers) -> Vec<u8> {
    let mut log = Vec::new();
    let mut seq = 0;
    let mut add = |kind, id: Option<&str>, payload: &str| {
        line::encode(&mut log, seq, at, kind, id, payload);
        seq += 1;
    };
    let header = format!(
        r#"{{"format":{FORMAT},"sessionId":"{id}","cwd":"/w","engine":{{"name":"local"}},"protocolVersion":1}}"#
    );
    add(Kind::Session, None, &header);
    for turn in 0..TURNS {
        let prompt = numbers.text(200);
        let prompt = format!(r#"{{"prompt":[{{"type":"text","text":"{prompt}"}}]}}"#);
        add(Kind::Prompt, Some(&format!("msg_{turn}")), &prompt);
        for (name, chunks) in [("thought", 6), ("message", 12)] {
            for _ in 0..chunks {
                let text = numbers.text(60);
                let chunk = format!(
                    r#"{{"sessionUpdate":"agent_{name}_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"{name}-{turn}"}}"#
                );
                add(Kind::Update, None, &chunk);
            }
        }
        for call in 0..4 {
            let title = numbers.text(20);
            let begun = format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"{turn}-{call}","title":"{title}","kind":"read","status":"pending","rawInput":{{"file_path":"{title}","limit":2000}},"locations":[{{"path":"{title}"}}]}}"#
            );
            add(Kind::Update, None, &begun);
            let output = numbers.text(if call < 2 { 20_000 } else { 600 });
            let done = format!(
                r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{turn}-{call}","status":"completed","content":[{{"type":"content","content":{{"type":"text","text":"{output}"}}}}]}}"#
            );
            add(Kind::Update, None, &done);
        }
        add(Kind::End, None, r#"{"stopReason":"end_turn"}"#);
    }
    log
}

fn main() {
    let dir = tempfile::tempdir().expect("a place for the store");
    let sys = Sys::real();
    let store = Store::open(dir.path(), sys.clone(), Durability::Os).expect("a new store");
    let folder = dir.path().join("sessions");
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut bytes = 0.0;
    for n in 0..SESSIONS {
        let id = sys.ids.session();
        let at = Timestamp::from_millis(1_700_000_000_000 + 7000 * i64::try_from(n).unwrap_or(0));
        let log = log(&id, at, &mut numbers);
        bytes += f64::from(u32::try_from(log.len()).unwrap_or(u32::MAX));
        fs::write(folder.join(format!("{id}.jsonl")), log).expect("a writable folder");
    }
    let megabytes = bytes / 1e6;
    report("logs", &format!("{megabytes:.0} MB"));
    let catalog = Catalog::open(store);
    catalog.list(&Filter::default(), None, 1).expect("a list");
    let (start, busy) = (Instant::now(), processor_time());
    while !catalog.read_words(usize::MAX).expect("words") {}
    let took = start.elapsed().as_secs_f64();
    report("index of all words", &format!("{took:.2} s"));
    let busy = processor_time() - busy;
    let rate = format!("{busy:.2} s, {:.0} MB/s", megabytes / busy);
    report("the same, processor time", &rate);
    report("index file", &size(&dir.path().join("index.sqlite")));
    report("peak memory", &peak_memory());
    list(&catalog);
    hits(&catalog);
    scan(&catalog, &folder);
}

/// A text that no log has.
const NEEDLE: &str = "needle in a haystack";

/// Places with words, from all sessions.
fn hits(catalog: &Catalog) {
    for text in ["word1eef", "config word0", "\"word0 word0\"", "nothing"] {
        let query = Query::new(Pattern::Words(Search::parse(text).expect("words")));
        timed(&format!("places of `{text}`"), || {
            catalog.hits(&query, None, &|| false).expect("hits");
        });
    }
}

/// A text that no log has, found without the index, and by `grep -F`.
fn scan(catalog: &Catalog, folder: &Path) {
    let query = Query::new(Pattern::Substring(NEEDLE.to_owned()));
    timed("a text in the logs", || {
        let page = catalog.hits(&query, None, &|| false).expect("hits");
        assert!(page.hits.is_empty());
    });
    let query = Query::new(Pattern::regex("needle in .* haystack").expect("a pattern"));
    timed("a pattern in the logs", || {
        catalog.hits(&query, None, &|| false).expect("hits");
    });
    timed("the same text with `grep -F`", || {
        let mut grep = Command::new("grep");
        grep.args(["-rlF", NEEDLE]).arg(folder);
        grep.output().expect("grep");
    });
}

/// The list of sessions that match a search.
fn list(catalog: &Catalog) {
    for text in ["word1eef", "read7919config", "mod_7919", "word0", "nothing"] {
        let filter = Filter {
            search: Search::parse(text),
            ..Filter::default()
        };
        timed(&format!("list of `{text}`"), || {
            catalog.list(&filter, None, 50).expect("a list");
        });
    }
}

/// The median and the 95th percentile of 20 runs.
fn timed(name: &str, mut run: impl FnMut()) {
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    took.sort();
    let millis = |at: usize| took[at].as_secs_f64() * 1000.0;
    report(
        name,
        &format!("{:.2} ms, p95 {:.2} ms", millis(10), millis(18)),
    );
}

fn size(path: &Path) -> String {
    let len = fs::metadata(path).map_or(0, |file| file.len());
    format!("{} kB", len / 1024)
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn report(name: &str, value: &str) {
    println!("{name:30} {value:>28}");
}
