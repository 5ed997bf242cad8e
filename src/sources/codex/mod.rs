//! Codex: one file of JSON lines for each thread, its "rollout", below `sessions/YEAR/MONTH/DAY/`, or
//! in `archived_sessions/`.

mod command;
mod items;
mod patch;
mod tool;

use std::path::{Path, PathBuf};

use super::conversation::{Builder, Conversation};
use super::{Found, Places, has_extension, lines};

/// `$CODEX_HOME`, or `~/.codex`.
pub(super) fn root(places: &Places) -> PathBuf {
    places.folder("CODEX_HOME", ".codex")
}

/// `sessions/YEAR/MONTH/DAY/rollout-….jsonl` or `archived_sessions/rollout-….jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let parts = super::parts(path);
    let ["sessions" | "archived_sessions", .., name] = parts[..] else {
        return false;
    };
    name.starts_with("rollout-") && has_extension(name, &["jsonl"])
}

pub(super) fn read(_: &Found, bytes: &[u8]) -> Conversation {
    let lines = lines::objects(bytes);
    let mut reader = items::Reader::new(Builder::default(), &lines.objects);
    for record in &lines.objects {
        reader.record(record);
    }
    reader.finish().counted(0, lines.damaged)
}
