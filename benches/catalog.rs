//! The session list on a small and on a large store: how long a page takes, cold and warm.
//!
//! Fails if the first page of 100,000 sessions takes more than three times that of 100.
#![expect(
    clippy::disallowed_methods,
    reason = "it makes logs by the thousand, without the store"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rejoin::index::{Catalog, Filter, Summary};
use rejoin::record::{FORMAT, Kind, line};
use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys, Timestamp};

struct Folder(PathBuf);

impl Folder {
    fn log(&self, id: &SessionId) -> PathBuf {
        self.0.join(format!("{id}.jsonl"))
    }

    /// A log of a header, a prompt and some updates: 2 kB.
    fn add(&self, id: &SessionId, at: Timestamp) {
        let mut log = Vec::new();
        let header = format!(
            r#"{{"format":{FORMAT},"sessionId":"{id}","cwd":"/work","engine":{{"name":"local"}},"protocolVersion":1}}"#
        );
        line::encode(&mut log, 0, at, Kind::Session, None, &header);
        let prompt = r#"{"prompt":[{"type":"text","text":"Why is the list so fast?"}]}"#;
        line::encode(&mut log, 1, at, Kind::Prompt, Some("msg_1"), prompt);
        let update =
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"It is."}}"#;
        for seq in 2..10 {
            line::encode(&mut log, seq, at, Kind::Update, None, update);
        }
        fs::write(self.log(id), log).expect("a writable folder");
    }
}

fn main() {
    let small = measure(100);
    let large = measure(100_000);
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    report("ratio of the first pages", &format!("{ratio:.2}"));
    assert!(ratio <= 3.0, "the list slows down with the store");
}

/// Measures a store of so many sessions; returns the time of a new process's first page.
fn measure(count: u64) -> Duration {
    report("sessions", &count.to_string());
    let dir = tempfile::tempdir().expect("a place for the store");
    let sys = Sys::real();
    let store = Store::open(dir.path(), sys.clone(), Durability::Os).expect("a new store");
    let logs = Folder(dir.path().join("sessions"));
    let ids: Vec<_> = (0..count).map(|_| sys.ids.session()).collect();
    let mut at = 1_700_000_000_000;
    for id in &ids {
        at += 7;
        logs.add(id, Timestamp::from_millis(at));
    }
    // So long ago that the names need no second comparison.
    std::thread::sleep(Duration::from_millis(2100));

    let path = dir.path().join("index.sqlite");
    let open = || Catalog::open(store.clone());
    let summary = |id: &SessionId| {
        let mut log = store.read(id).expect("a log");
        Summary::of(&log.scan().expect("a log that can be read"))
    };
    let page = |catalog: &Catalog, cwd: Option<&str>, cursor: Option<&str>| {
        let filter = Filter {
            cwd: cwd.map(str::to_owned),
            ..Filter::default()
        };
        let page = catalog.list(&filter, cursor, 50).expect("a page");
        assert_eq!(page.sessions.len(), 50);
        page.next_cursor
    };

    timed("rebuild and first page", 1, || {
        page(&open(), None, None);
    });
    let first = timed("first page of a new process", 50, || {
        page(&open(), None, None);
    });
    let catalog = open();
    timed("first page", 50, || {
        page(&catalog, None, None);
    });
    timed("first page of one folder", 50, || {
        page(&catalog, Some("/work"), None);
    });
    let mut cursor = None;
    timed(
        "second page and so on",
        usize::try_from(count / 50 - 1).unwrap_or(1).min(500),
        || {
            cursor = page(&catalog, None, cursor.as_deref());
        },
    );
    timed("mark before a prompt", 200, || catalog.opened(&ids[0]));
    let first_summary = summary(&ids[0]);
    timed("report of a prompt", 200, || {
        catalog.put(&ids[0], &first_summary);
    });
    timed("first page after our own new session", 20, || {
        let id = sys.ids.session();
        let before = catalog.before_change();
        logs.add(&id, sys.clock.now());
        catalog.created(&id, &summary(&id), before);
        page(&catalog, None, None);
    });
    timed("first page after somebody else's", 5, || {
        logs.add(&sys.ids.session(), sys.clock.now());
        page(&catalog, None, None);
    });
    timed("first page after a start of the system", 5, || {
        fs::remove_file(dir.path().join("index.sqlite.generation")).expect("a generation");
        page(&open(), None, None);
    });
    timed("audit", 1, || {
        let mut from = None;
        loop {
            from = catalog.audit(from.as_ref());
            if from.is_none() {
                break;
            }
        }
    });
    report("file", &size(&path));
    first
}

/// The median time of `times` runs.
fn timed(name: &str, times: usize, mut run: impl FnMut()) -> Duration {
    let mut took: Vec<_> = (0..times)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    took.sort();
    let median = took[took.len() / 2];
    report(name, &format!("{:.3} ms", median.as_secs_f64() * 1000.0));
    median
}

fn size(path: &Path) -> String {
    let len = fs::metadata(path).map_or(0, |file| file.len());
    format!("{} kB", len / 1024)
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn report(name: &str, value: &str) {
    println!("{name:40} {value:>14}");
}
