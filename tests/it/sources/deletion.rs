//! Which conversations their tools will delete soon, by the tools' own settings.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rejoin::index::Catalog;
use rejoin::sources::import::Importer;
use rejoin::sources::{LiveSources, SOURCES, ToolFolders, soon_deleted};
use rejoin::store::{Durability, Store};
use rejoin::sys::{Sys, Timestamp};
use serde_json::json;
use tempfile::TempDir;

use super::source;

const DAY: Duration = Duration::from_hours(24);

/// Writes a file that was changed so many days ago.
fn write(path: &Path, text: &str, days: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - days * DAY).unwrap();
}

/// A home folder with the conversations of a tool, one of each age in days.
struct Aged {
    home: TempDir,
    tool: &'static str,
}

impl Aged {
    fn new(tool: &'static str, ages: &[u32]) -> Self {
        let aged = Self {
            home: TempDir::new().unwrap(),
            tool,
        };
        for days in ages {
            let (path, text) = aged.conversation(*days);
            write(&aged.home.path().join(path), &text, *days);
        }
        aged
    }

    /// The folder of the conversations.
    fn project(&self) -> String {
        self.home
            .path()
            .join("project")
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn conversation(&self, days: u32) -> (String, String) {
        let at = "2026-01-01T00:00:00.000Z";
        let id = format!("00000000-0000-4000-8000-{days:012}");
        let cwd = self.project();
        match self.tool {
            "claude-code" | "openclaude" => {
                let folder = self.tool.trim_end_matches("-code");
                let prompt = json!({"type": "user", "uuid": "1", "parentUuid": null, "sessionId": id,
                    "cwd": cwd, "timestamp": at, "message": {"role": "user", "content": "hello"}});
                (
                    format!(".{folder}/projects/p/{id}.jsonl"),
                    format!("{prompt}\n"),
                )
            }
            "gemini" => {
                write(
                    &self.home.path().join(".gemini/tmp/p/.project_root"),
                    &cwd,
                    0,
                );
                let chat = json!({"sessionId": id, "startTime": at, "lastUpdated": at, "messages": [
                    {"id": "1", "timestamp": at, "type": "user", "content": "hello"}]});
                (
                    format!(".gemini/tmp/p/chats/session-{days}.json"),
                    chat.to_string(),
                )
            }
            "grok" => {
                let update = json!({"method": "session/update", "timestamp": 1, "params": {"sessionId": id,
                    "update": {"sessionUpdate": "user_message_chunk",
                        "content": {"type": "text", "text": "hello"}}}});
                let folder = format!(".grok/sessions/p/{id}");
                let summary = json!({"info": {"id": id, "cwd": cwd}});
                let summary_path = self.home.path().join(&folder).join("summary.json");
                write(&summary_path, &summary.to_string(), days);
                (format!("{folder}/updates.jsonl"), format!("{update}\n"))
            }
            "codex" => {
                let lines = [
                    json!({"timestamp": at, "type": "session_meta", "payload": {"id": id, "cwd": cwd}}),
                    json!({"timestamp": at, "type": "event_msg",
                        "payload": {"type": "user_message", "message": "hello"}}),
                ];
                let lines = lines.map(|line| line.to_string()).join("\n");
                (
                    format!(".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{id}.jsonl"),
                    lines,
                )
            }
            tool => panic!("{tool}"),
        }
    }

    fn set(&self, path: &str, text: &str) {
        write(&self.home.path().join(path), text, 0);
    }

    fn places(&self) -> ToolFolders {
        ToolFolders {
            home: self.home.path().to_owned(),
            system: Some(self.home.path().join("system")),
            ..ToolFolders::default()
        }
    }

    /// How many the tool will delete in the next 7 days.
    fn soon(&self) -> usize {
        let store =
            Store::open(&self.home.path().join("store"), Sys::real(), Durability::Os).unwrap();
        let live = Arc::new(LiveSources::new(SOURCES.iter().collect(), self.places()));
        let catalog = Catalog::with_tools(store.clone(), Some(live.clone()));
        live.scan(&store, &catalog).unwrap();
        let soon = soon_deleted(&live, Some(&catalog), Sys::real().clock.now(), 7 * DAY);
        let soon = soon.unwrap();
        assert!(soon.keys().all(|tool| *tool == self.tool), "{soon:?}");
        soon.get(self.tool).map_or(0, Vec::len)
    }
}

const AGES: [u32; 4] = [1, 22, 24, 300];

#[test]
fn claude_code_deletes_by_its_settings() {
    let claude = Aged::new("claude-code", &AGES);
    assert_eq!(claude.soon(), 2, "30 days are the default");
    let own = ".claude/settings.json";
    for (settings, number) in [
        (r#"{"cleanupPeriodDays": 365}"#, 0),
        (r#"{"cleanupPeriodDays": 28}"#, 3),
        (r#"{"other": 1}"#, 2),
        ("", 2),
        // It deletes nothing by what is wrong.
        (r#"{"cleanupPeriodDays": 0}"#, 0),
        (r#"{"cleanupPeriodDays": "9"}"#, 0),
        (r#"{"cleanupPeriodDays": 9"#, 0),
    ] {
        claude.set(own, settings);
        assert_eq!(claude.soon(), number, "{settings}");
    }
    // The strictest counts, since a session in any project deletes everywhere.
    claude.set(own, r#"{"cleanupPeriodDays": 365}"#);
    claude.set(
        "project/.claude/settings.json",
        r#"{"cleanupPeriodDays": 10}"#,
    );
    assert_eq!(claude.soon(), 3);
    claude.set(
        "project/.claude/settings.local.json",
        r#"{"cleanupPeriodDays": 400}"#,
    );
    assert_eq!(claude.soon(), 0);
    let managed = "system/etc/claude-code/managed-settings";
    if cfg!(target_os = "linux") {
        claude.set(&format!("{managed}.json"), r#"{"cleanupPeriodDays": 30}"#);
        assert_eq!(claude.soon(), 2);
        claude.set(
            &format!("{managed}.d/10-more.json"),
            r#"{"cleanupPeriodDays": 3}"#,
        );
        assert_eq!(claude.soon(), 4);
    }
}

#[test]
fn openclaude_deletes_by_its_settings() {
    let openclaude = Aged::new("openclaude", &AGES);
    assert_eq!(openclaude.soon(), 2, "30 days are the default");
    for (settings, number) in [
        (r#"{"cleanupPeriodDays": 365}"#, 0),
        (r#"{"cleanupPeriodDays": 28}"#, 3),
        (r#"{"cleanupPeriodDays": "9"}"#, 0),
    ] {
        openclaude.set(".openclaude/settings.json", settings);
        assert_eq!(openclaude.soon(), number, "{settings}");
    }
}

#[test]
fn claude_code_keeps_sessions_of_its_desktop_program() {
    let claude = Aged::new("claude-code", &AGES);
    // Those of 24 and 300 days, by what the first and the last record say.
    let by = |days: u32, programs: [&str; 2]| {
        let (path, text) = claude.conversation(days);
        let record =
            |program: &str| text.replacen('{', &format!(r#"{{"entrypoint":"{program}","#), 1);
        let text: String = programs.map(record).concat();
        write(&claude.home.path().join(path), &text, days);
    };
    for (programs, number) in [
        (["cli", "cli"], 2),
        (["claude-desktop", "cli"], 1),
        (["cli", "claude-desktop"], 1),
        (["local-agent", "local-agent"], 1),
    ] {
        by(300, programs);
        assert_eq!(claude.soon(), number, "{programs:?}");
    }
    by(24, ["claude-desktop", "cli"]);
    assert_eq!(claude.soon(), 0);
    for (settings, number) in [
        (r#"{"desktopSessionCleanupPeriodDays": 0}"#, 0),
        (r#"{"desktopSessionCleanupPeriodDays": 100}"#, 1),
        // The longer time counts.
        (r#"{"desktopSessionCleanupPeriodDays": 5}"#, 2),
        (
            r#"{"desktopSessionCleanupPeriodDays": 5, "cleanupPeriodDays": 100}"#,
            1,
        ),
        (r#"{"cleanupPeriodDays": 10}"#, 1),
    ] {
        claude.set(".claude/settings.json", settings);
        assert_eq!(claude.soon(), number, "{settings}");
    }
    claude.set(".claude/settings.json", "");
    // The user has deleted it in the desktop program.
    let (path, _) = claude.conversation(24);
    claude.set(&path.replace(".jsonl", ".desktop-released.json"), "{}");
    assert_eq!(claude.soon(), 1);
    if cfg!(target_os = "linux") {
        let managed = "system/etc/claude-code/managed-settings.json";
        claude.set(managed, r#"{"cleanupPeriodDays": 30}"#);
        assert_eq!(claude.soon(), 2);
    }
}

#[test]
fn gemini_cli_deletes_by_its_settings() {
    let gemini = Aged::new("gemini", &AGES);
    assert_eq!(gemini.soon(), 2, "30 days are the default");
    let own = ".gemini/settings.json";
    let of = |retention: &str| {
        format!("// Mine.\n{{\"general\": {{\"sessionRetention\": {retention},}}}}")
    };
    for (retention, number) in [
        (r#"{"enabled": false}"#, 0),
        (r#"{"maxAge": "10w"}"#, 1),
        (r#"{"maxAge": "28d"}"#, 3),
        (r#"{"maxAge": "48h"}"#, 4),
        (r#"{"maxAge": "1m"}"#, 2),
        (r#"{"maxCount": 1}"#, 3),
        (r#"{"maxAge": "99w", "maxCount": 3}"#, 1),
        // It deletes nothing by what is wrong.
        (r#"{"maxAge": "5 days"}"#, 0),
        (r#"{"maxAge": "0d"}"#, 0),
        (r#"{"maxAge": "2h"}"#, 0),
        (r#"{"maxAge": "2h", "minRetention": "1h"}"#, 4),
        (r#"{"maxCount": 0}"#, 0),
    ] {
        gemini.set(own, &of(retention));
        assert_eq!(gemini.soon(), number, "{retention}");
    }
    gemini.set(
        "project/.gemini/settings.json",
        &of(r#"{"enabled": true, "maxAge": "28d"}"#),
    );
    gemini.set(own, &of(r#"{"enabled": false}"#));
    assert_eq!(gemini.soon(), 3, "the project's settings count more");
    if cfg!(target_os = "linux") {
        gemini.set(
            "system/etc/gemini-cli/settings.json",
            &of(r#"{"enabled": false}"#),
        );
        assert_eq!(gemini.soon(), 0, "and those of the system most");
    }
}

#[test]
fn grok_build_deletes_by_its_settings() {
    let grok = Aged::new("grok", &AGES);
    assert_eq!(grok.soon(), 2, "30 days are the default");
    for (settings, number) in [
        ("[storage]\ncleanup_ttl_days = 365", 0),
        ("[storage]\ncleanup_ttl_days = 28", 3),
        ("[storage]\ncleanup_ttl_days = 0", 2),
        ("[ui]\ntheme = \"x\"", 2),
    ] {
        grok.set(".grok/config.toml", settings);
        assert_eq!(grok.soon(), number, "{settings}");
    }
}

#[test]
fn it_is_known_when_a_conversation_is_deleted() {
    let claude = Aged::new("claude-code", &AGES);
    claude.set(".claude/settings.json", r#"{"cleanupPeriodDays": 28}"#);
    let live = LiveSources::new(vec![source("claude-code")], claude.places());
    let now = Timestamp::of_system(SystemTime::now());
    let soon = soon_deleted(&live, None, now, 7 * DAY).unwrap();
    let day = i64::try_from(DAY.as_millis()).unwrap();
    // Half a day more, since the files were written before.
    let left = |due: Timestamp| due.as_millis() - now.as_millis() + day / 2;
    let due = soon["claude-code"]
        .iter()
        .map(|one| left(one.due).div_euclid(day));
    let mut due: Vec<_> = due.collect();
    due.sort_unstable();
    assert_eq!(due, [-272, 4, 6]);
}

#[test]
fn other_tools_delete_nothing_by_themselves() {
    assert_eq!(Aged::new("codex", &AGES).soon(), 0);
}

#[test]
fn a_conversation_with_a_copy_is_not_counted() {
    let claude = Aged::new("claude-code", &AGES);
    let store = Store::open(
        &claude.home.path().join("store"),
        Sys::real(),
        Durability::Os,
    )
    .unwrap();
    let catalog = Catalog::open(store.clone());
    let importer = Importer::new(&store, &catalog, claude.home.path()).unwrap();
    let tool = source("claude-code");
    let oldest = tool.find(&claude.places()).found.pop().unwrap();
    importer.import(tool, &oldest).unwrap();
    assert_eq!(claude.soon(), 1);
    // Before there is a store, each file counts.
    let live = LiveSources::new(vec![tool], claude.places());
    let now = Timestamp::of_system(SystemTime::now());
    let soon = soon_deleted(&live, None, now, 7 * DAY).unwrap();
    assert_eq!(soon["claude-code"].len(), 2);
}
