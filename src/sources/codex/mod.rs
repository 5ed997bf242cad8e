//! Codex: one file of JSON lines for each thread, its "rollout", below `sessions/YEAR/MONTH/DAY/`, or
//! in `archived_sessions/`.

mod command;
mod items;
mod patch;
mod tool;

use std::io::Read;
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;

use super::conversation::{Builder, Conversation};
use super::{Found, Places, has_extension, lines};

/// `$CODEX_HOME`, or `~/.codex`.
pub(super) fn root(places: &Places) -> PathBuf {
    places.folder("CODEX_HOME", ".codex")
}

/// The most that is decompressed, in bytes.
const LARGEST: u64 = 1 << 30;

/// `sessions/YEAR/MONTH/DAY/rollout-….jsonl` or `archived_sessions/rollout-….jsonl`, or the same
/// compressed, as `.jsonl.zst`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let parts = super::parts(path);
    let ["sessions" | "archived_sessions", .., name] = parts[..] else {
        return false;
    };
    let name_of_plain = name.strip_suffix(".zst").unwrap_or(name);
    name.starts_with("rollout-") && has_extension(name_of_plain, &["jsonl"])
}

pub(super) fn read(found: &Found, bytes: &[u8]) -> Conversation {
    if !has_extension(&found.path, &["zst"]) {
        return of_lines(bytes);
    }
    // A file that is being compressed or decompressed is there twice.
    if found.path.with_extension("").exists() {
        return Conversation::default();
    }
    let mut plain = Vec::new();
    let decoder = StreamingDecoder::new(bytes);
    let decoded = decoder.map(|decoder| decoder.take(LARGEST).read_to_end(&mut plain));
    let is_whole = decoded.is_ok_and(|read| read.is_ok_and(|len| (len as u64) < LARGEST));
    of_lines(&plain).counted(0, usize::from(!is_whole))
}

fn of_lines(bytes: &[u8]) -> Conversation {
    let lines = lines::objects(bytes);
    let mut reader = items::Reader::new(Builder::default(), &lines.objects);
    for record in &lines.objects {
        reader.record(record);
    }
    reader.finish().counted(0, lines.damaged)
}
