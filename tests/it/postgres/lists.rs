//! Lists that the database answers are those of the catalog.
#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rejoin::conversation::Field;
use rejoin::history::rewind;
use rejoin::index::{Archived, Catalog, Filter, Order, Pattern, Query, Search, SessionPage};
use rejoin::record::metadata::MetadataChange;
use rejoin::record::{AgentSessionId, Kind, RewindTarget};
use rejoin::store::{Durability, Store, Sync};
use rejoin::sys::{SessionId, Sys};
use serde_json::json;
use tempfile::TempDir;

use crate::setup::Home;
use crate::support::terminal::Terminal;

use super::cluster;
use super::logs::{header, new_id};
use super::processes::{Process, load, prompt};

fn catalog(place: &Path) -> (Store, Catalog) {
    let store = Store::at(place, Sys::real(), Durability::Turn);
    (store.clone(), Catalog::open(store))
}

/// A store in a folder with what `fill` says to a process, and one in a database with a copy of it.
struct Both {
    folder: TempDir,
    place: PathBuf,
}

impl Both {
    fn filled(fill: impl FnOnce(&mut Process)) -> Option<Self> {
        let place = cluster::store()?;
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::start(folder.path());
        fill(&mut process);
        process.leave();
        let both = Self { folder, place };
        let ((files, _), (tables, _)) = both.catalogs();
        let ids = files.ids().unwrap();
        add_others(&files, &ids[0], &ids[1]);
        add_nested(&files);
        for id in files.ids().unwrap() {
            files.copy_to(&id, &tables, true).unwrap();
        }
        Some(both)
    }

    fn catalogs(&self) -> ((Store, Catalog), (Store, Catalog)) {
        (catalog(self.folder.path()), catalog(&self.place))
    }
}

/// Adds sessions of which a list knows more: agents have ids for them, one of which is that of another
/// session here, and one is archived, one was renamed, one restored, and one was never prompted. One
/// names `earlier` as its agent's, which was prompted before it existed.
fn add_others(store: &Store, other: &SessionId, earlier: &SessionId) {
    let agents = [
        ("codex", Some("theirs-1")),
        ("codex", Some(other.as_str())),
        ("goose", Some("theirs-2")),
        ("goose", None),
        ("goose", None),
    ];
    for (n, (agent, known_as)) in agents.into_iter().enumerate() {
        let id = known_as.map_or_else(new_id, |name| SessionId::of_foreign(agent, name));
        let mut header = header(&id);
        header.known_as = known_as.map(str::to_owned);
        agent.clone_into(&mut header.engine.name);
        let mut log = store.create(&id, &header).unwrap();
        let mut append = |kind, id, payload: &str| {
            log.append(kind, id, payload, Sync::Buffered).unwrap();
        };
        let inner = if n == 4 { earlier.as_str() } else { "inner" };
        let inner = AgentSessionId::of_tool(inner, agent, None);
        append(Kind::AgentSessionId, None, &inner);
        if n != 3 {
            let prompt = r#"{"prompt":[{"type":"text","text":"to an agent"}]}"#;
            append(Kind::Prompt, Some("msg_1"), prompt);
            append(Kind::End, None, r#"{"stopReason":"end_turn"}"#);
        }
        let change = match n {
            0 => MetadataChange::Archived(true),
            _ => MetadataChange::title("another title").unwrap(),
        };
        append(Kind::Info, None, &change.payload());
        drop(log);
        if n == 2 {
            assert!(store.trash(&id).unwrap());
            store.restore(&id).unwrap();
        }
    }
}

/// Adds a session whose turn its agent keeps a second time in the same store.
fn add_nested(store: &Store) {
    let (outer, inner) = (new_id(), new_id());
    let names = AgentSessionId::of_tool(inner.as_str(), "rejoin", None);
    let mut outside = store.create(&outer, &header(&outer)).unwrap();
    let mut inside = store.create(&inner, &header(&inner)).unwrap();
    outside
        .append(Kind::AgentSessionId, None, &names, Sync::Buffered)
        .unwrap();
    let prompt = r#"{"prompt":[{"type":"text","text":"nested"}]}"#;
    let end = r#"{"stopReason":"end_turn"}"#;
    for log in [&mut inside, &mut outside] {
        for (kind, id, payload) in [
            (Kind::Prompt, Some("msg_1"), prompt),
            (Kind::End, None, end),
        ] {
            log.append(kind, id, payload, Sync::Buffered).unwrap();
        }
    }
}

/// What finds sessions with these words.
fn with_words(words: &str) -> Filter {
    Filter {
        search: Search::parse(words),
        ..Filter::default()
    }
}

/// All pages of a list.
fn all(catalog: &Catalog, filter: &Filter, limit: usize) -> Vec<SessionPage> {
    let mut pages = vec![catalog.list(filter, None, limit).unwrap()];
    while let Some(cursor) = pages.last().unwrap().next_cursor.clone() {
        pages.push(catalog.list(filter, Some(&cursor), limit).unwrap());
    }
    for page in &mut pages {
        catalog.add_agent_ids(&mut page.sessions).unwrap();
    }
    pages
}

#[test]
fn both_catalogs_answer_alike() {
    let both = Both::filled(|process| {
        for n in 0..12 {
            let cwd = ["/work", "/a", "/b"][n % 3];
            let made = process.ask("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
            let id = made.unwrap()["sessionId"].as_str().unwrap().to_owned();
            if n % 5 != 4 {
                let text = format!("the question number {n}");
                process.ask("session/prompt", &prompt(&id, &text)).unwrap();
            }
        }
    });
    let Some(both) = both else {
        return;
    };
    let ((files, ours), (tables, theirs)) = both.catalogs();
    let listed = ours.list(&Filter::default(), None, 100).unwrap().sessions;
    let named = |name: &str| ours.known_as(name).unwrap().unwrap();
    let hidden = files.ids().unwrap().into_iter().filter(|id| {
        let named_by = SessionId::of_foreign("codex", id.as_str());
        listed.iter().any(|listed| listed.id == named_by)
    });
    let hidden: Vec<_> = hidden.collect();
    assert_eq!(hidden.len(), 1);
    assert!(listed.iter().all(|listed| listed.id != hidden[0]));
    let nested = listed
        .iter()
        .filter(|listed| listed.summary.title.as_deref() == Some("nested"));
    assert_eq!(nested.count(), 1, "it is listed once");
    assert_ne!(named(hidden[0].as_str()), hidden[0]);
    let filters = [
        Filter::default(),
        Filter {
            since: listed[5].summary.updated_at.clone(),
            ..Filter::default()
        },
        Filter {
            agents: vec!["codex".to_owned()],
            archived: Archived::Include,
            ..Filter::default()
        },
        Filter {
            agents: vec!["goose".to_owned()],
            ..with_words("another")
        },
        Filter {
            order: Order::Prompted,
            ..Filter::default()
        },
        Filter {
            cwd: Some("/work".to_owned()),
            ..Filter::default()
        },
        Filter {
            cwd: Some("/work".to_owned()),
            worktrees: Some(vec!["/b".to_owned()]),
            archived: Archived::Include,
            ..Filter::default()
        },
        Filter {
            archived: Archived::Only,
            ..Filter::default()
        },
        Filter {
            agents: vec!["none".to_owned()],
            ..Filter::default()
        },
        Filter {
            since: Some("2020-01-01T00:00:00.000Z".to_owned()),
            ..Filter::default()
        },
    ];
    for filter in &filters {
        for limit in [1, 3, 100] {
            assert_eq!(
                all(&theirs, filter, limit),
                all(&ours, filter, limit),
                "{filter:?}"
            );
        }
        for offset in [0, 3, 100] {
            let page = |catalog: &Catalog| {
                let mut page = catalog.list_at(filter, offset, 4).unwrap();
                catalog.add_agent_ids(&mut page.sessions).unwrap();
                page
            };
            assert_eq!(page(&theirs), page(&ours), "{filter:?} {offset}");
        }
    }
    assert_eq!(theirs.every(None).unwrap(), ours.every(None).unwrap());
    assert_eq!(theirs.behind().unwrap(), ours.behind().unwrap());
    let ids = files.ids().unwrap();
    for id in &ids {
        assert_eq!(theirs.find(id), ours.find(id));
        assert_eq!(theirs.agent_ids(id), ours.agent_ids(id));
    }
    let named = ids.iter().map(|id| id.as_str().to_owned());
    let named: Vec<_> = named
        .chain(["inner", "theirs-1", "theirs-2", "nobody's"].map(str::to_owned))
        .collect();
    for agent in ["codex", "goose", "none"] {
        let of = |catalog: &Catalog| catalog.ours(agent, &named).unwrap();
        assert_eq!(of(&theirs), of(&ours), "{agent}");
        for name in &named {
            let of = |catalog: &Catalog| catalog.of_inner(agent, name).unwrap();
            assert_eq!(of(&theirs), of(&ours), "{agent} {name}");
        }
    }
    for name in &named {
        let known = |catalog: &Catalog| catalog.known_as(name).unwrap();
        assert_eq!(known(&theirs), known(&ours), "{name}");
    }
    let (id, last) = (&files.ids().unwrap()[0], &files.ids().unwrap()[1]);
    assert!(tables.trash(id).unwrap());
    assert_eq!(theirs.find(id), None);
    assert!(theirs.find(last).is_some());
}

#[test]
fn both_catalogs_distinguish_equal_titles() {
    let both = Both::filled(|process| {
        for (cwd, rest) in [
            // The list does not show this one, see `add_others`.
            ("/work", "the parser drops a comma"),
            ("/work", "the parser drops a comma"),
            ("/work", "the parser drops a colon"),
            ("/elsewhere", "the parser drops a colon"),
            ("/work", "the parser drops a comma"),
        ] {
            let made = process.ask("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
            let id = made.unwrap()["sessionId"].as_str().unwrap().to_owned();
            let text = format!("# Fix the following\n{rest}");
            process.ask("session/prompt", &prompt(&id, &text)).unwrap();
        }
    });
    let Some(both) = both else {
        return;
    };
    let ((_, ours), (tables, theirs)) = both.catalogs();
    let shown = |catalog: &Catalog| {
        let page = catalog.list(&Filter::default(), None, 100).unwrap();
        let titles = page.sessions.into_iter().filter_map(|one| {
            let title = one.summary.title?;
            title.starts_with("Fix").then_some((one.id, title))
        });
        titles.collect::<Vec<_>>()
    };
    let listed = shown(&theirs);
    let titles: Vec<_> = listed.iter().map(|(_, title)| title.as_str()).collect();
    let expected = [
        "Fix the following (2)",
        "Fix the following",
        "Fix the following · colon",
        "Fix the following",
    ];
    assert_eq!(titles, expected);
    assert_eq!(listed, shown(&ours));
    let second = theirs.find(&listed[2].0).unwrap();
    let since = Filter {
        since: second.updated_at.clone(),
        ..Filter::default()
    };
    for filter in [Filter::default(), since, with_words("colon")] {
        for limit in [1, 2, 100] {
            let (here, there) = (all(&ours, &filter, limit), all(&theirs, &filter, limit));
            assert_eq!(there, here, "{filter:?}");
        }
    }
    // The session itself has its title as it is.
    assert_eq!(second.title.as_deref(), Some("Fix the following"));
    // The next one becomes the oldest.
    assert!(tables.trash(&listed[3].0).unwrap());
    assert_eq!(shown(&theirs)[1].1, "Fix the following");
}

#[test]
fn both_catalogs_find_the_same() {
    let both = Both::filled(|process| {
        for text in [
            "the Redis cache times out",
            "it timed out in MyRedisConfig, v1.2.3",
            "les données du café",
            "看日本語 and more 🚀",
            "in der Straße: don't \\ 'quote' it",
            &format!("a needle {} timed, out", "the hay ".repeat(3000)),
        ] {
            let id = process.new_session();
            process
                .ask("session/prompt", &prompt(&id, &format!("/echo {text}")))
                .unwrap();
        }
    });
    let Some(both) = both else {
        return;
    };
    let ((_, ours), (tables, theirs)) = both.catalogs();
    for words in [
        "redis",
        "red",
        "RedisC",
        "config",
        "\"timed out\"",
        "\"out timed\"",
        "timed out",
        "CAFE donn",
        "日本",
        "本日",
        "🚀",
        "STRASSE",
        "don't",
        "2.3",
        "1.3",
        "needle timed",
        "\"the hay timed\"",
        "\"hay the hay\"",
        "nowhere",
        "\\ ' \"",
        "???",
    ] {
        let filter = with_words(words);
        for limit in [1, 100] {
            let (here, there) = (all(&ours, &filter, limit), all(&theirs, &filter, limit));
            assert_eq!(there, here, "{words}");
        }
        let Some(search) = Search::parse(words) else {
            continue;
        };
        let places = |catalog: &Catalog, pattern: Pattern, fields: &[Field]| {
            let query = Query {
                fields: fields.to_vec(),
                limit: 1000,
                ..Query::new(pattern)
            };
            let found = catalog.hits(&query, None, &|| false).unwrap();
            assert!(found.complete);
            let places = found.hits.into_iter();
            let places = places.map(|hit| (hit.session.id, hit.offset, hit.snippet));
            places.collect::<BTreeSet<_>>()
        };
        for fields in [&[][..], &[Field::Prompt], &[Field::Thought]] {
            let words_of = |catalog| places(catalog, Pattern::Words(search.clone()), fields);
            assert_eq!(words_of(&theirs), words_of(&ours), "{words} {fields:?}");
        }
        let text = |catalog| places(catalog, Pattern::Substring(words.to_owned()), &[]);
        assert_eq!(text(&theirs), text(&ours), "{words}");
    }
    // What is added is found, and what is deleted is not.
    let found = |words: &str| {
        let found = theirs.list(&with_words(words), None, 10);
        found.unwrap().sessions.len()
    };
    let id = &tables.ids().unwrap()[0];
    for n in 0..3 {
        let mut process = Process::start(&both.place);
        process
            .ask("session/load", &load(id.as_str(), false))
            .unwrap();
        // So long that the next one is in another piece of the index.
        let text = format!("/echo addition number{n} {}", "hay ".repeat(10_000));
        process
            .ask("session/prompt", &prompt(id.as_str(), &text))
            .unwrap();
        process.leave();
        assert_eq!(found(&format!("number{n}")), 1);
        assert_eq!(found("addition"), 1);
    }
    // What was undone is not found, and is found when it is brought back.
    for (target, sessions) in [(RewindTarget::Turns(0), 0), (RewindTarget::Undo, 1)] {
        rewind(&tables, Some(&theirs), id, &target, "test").unwrap();
        assert_eq!(found("addition"), sessions, "{target:?}");
    }
    assert!(tables.trash(id).unwrap());
    assert_eq!(found("addition"), 0);
}

#[test]
fn a_list_shows_what_another_process_does() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut process = Process::start(&place);
    let session = process.new_session();
    let (_, catalog) = catalog(&place);
    let list = || catalog.list(&Filter::default(), None, 10).unwrap().sessions;
    assert_eq!(list().len(), 0);
    process
        .ask("session/prompt", &prompt(&session, "what is listed"))
        .unwrap();
    let listed = list();
    assert_eq!(listed[0].summary.title.as_deref(), Some("what is listed"));
    assert_eq!(listed[0].summary.prompts, 1);
    process
        .ask("session/prompt", &prompt(&session, "more"))
        .unwrap();
    process.leave();
    assert_eq!(list()[0].summary.prompts, 2);
    let found = catalog.list(&with_words("listed"), None, 10);
    assert_eq!(found.unwrap().sessions.len(), 1);
}

#[test]
fn what_a_tool_will_delete_is_known_beside_a_database() {
    let Some(place) = cluster::store() else {
        return;
    };
    let home = Home::new();
    let folder = home.path(".claude/projects/p");
    std::fs::create_dir_all(&folder).unwrap();
    let old = folder.join("00000000-0000-4000-8000-000000000001.jsonl");
    let prompt = json!({"type": "user", "uuid": "1", "parentUuid": null, "cwd": "/srv",
        "sessionId": "00000000-0000-4000-8000-000000000001", "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": "hello"}});
    std::fs::write(&old, format!("{prompt}\n")).unwrap();
    let file = std::fs::File::options().append(true).open(&old).unwrap();
    let age = std::time::Duration::from_hours(25 * 24);
    file.set_modified(std::time::SystemTime::now() - age)
        .unwrap();
    let run = |words: &[&str]| {
        let place = place.to_str().unwrap();
        let mut command = home.command(&[&["--store", place], words].concat());
        let output = command.env("REJOIN_SOURCES", "claude-code").output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = run(&["doctor", "--no-agents"]);
    let warning = "Claude Code will delete 1 conversation in the next 7 days";
    assert!(text.contains(warning), "{text}");
    // The list says so, too, which has only the sessions of the database.
    let said =
        json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Hi"}});
    let talk = home.path("talk.jsonl");
    std::fs::write(&talk, said.to_string()).unwrap();
    run(&["import", talk.to_str().unwrap()]);
    let terminal = Terminal::new();
    let size = ["cols", "100", "rows", "20"];
    let size = Command::new("stty")
        .args(size)
        .stdin(terminal.open())
        .status();
    assert!(size.unwrap().success());
    let mut list = home.command(&["--store", place.to_str().unwrap()]);
    list.env("REJOIN_SOURCES", "claude-code")
        .env("NO_COLOR", "1");
    list.stdin(terminal.open()).stdout(terminal.open());
    let mut list = list.stderr(terminal.open()).spawn().unwrap();
    for (text, keys) in [
        ("in the next 7 days: `rejoin import` keeps all", "w"),
        ("No conversation of this list will be deleted", "q"),
    ] {
        let mut shown = String::new();
        while !shown.contains(text) {
            let more = terminal.read();
            assert!(!more.is_empty(), "{shown:?}");
            shown.push_str(&String::from_utf8_lossy(&more));
        }
        terminal.press(keys);
    }
    assert!(list.wait().unwrap().success());
    run(&["import", "claude-code"]);
    let text = run(&["doctor", "--no-agents"]);
    assert!(text.contains("no other tool will delete one"), "{text}");
}
