//! Codex: one file of JSON lines for each thread, its "rollout", below `sessions/YEAR/MONTH/DAY/`, or
//! in `archived_sessions/`.

mod agents;
mod command;
mod items;
mod patch;
mod tool;

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;

use super::conversation::{ConversationBuilder, ToolConversation};
use super::{FoundConversation, ToolFolders, Wanted, has_any, has_extension, lines};

/// `$CODEX_HOME`, or `~/.codex`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
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

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    // A file that is being compressed or decompressed is there twice.
    if is_compressed(&found.path) && found.path.with_extension("").exists() {
        return ToolConversation::default();
    }
    let (bytes, is_whole) = plain(&found.path, bytes);
    let lines = lines::objects(&bytes);
    let mut reader = items::CodexReader::new(ConversationBuilder::default(), &lines.objects);
    for record in &lines.objects {
        reader.record(record);
    }
    if let Some(wanted) = wanted.filter(|_| has_any(&bytes, &MARKS)) {
        wanted.extend(agents::read(found, reader.threads(), &lines.objects));
    }
    let conversation = reader.finish();
    conversation.counted(0, lines.damaged + usize::from(!is_whole))
}

/// All ways to start a subagent have one of these in their names.
pub(super) const MARKS: [&str; 2] = ["spawn_", "_spawn"];

/// The files of subagents; none if one of the files is compressed.
pub(super) fn others(
    found: &FoundConversation,
    bytes: &[u8],
    is_marked: bool,
) -> Option<Vec<PathBuf>> {
    if is_compressed(&found.path) {
        return None;
    }
    if is_marked {
        return agents::others(found, bytes);
    }
    Some(Vec::new())
}

/// Whether a file is compressed.
pub(super) fn is_compressed(path: &Path) -> bool {
    has_extension(path, &["zst"])
}

/// The content of a file, decompressed as far as possible, and whether that is all of it.
pub(super) fn plain<'a>(path: &Path, bytes: &'a [u8]) -> (Cow<'a, [u8]>, bool) {
    if !is_compressed(path) {
        return (Cow::Borrowed(bytes), true);
    }
    let mut plain = Vec::new();
    let decoder = StreamingDecoder::new(bytes);
    let decoded = decoder.map(|decoder| decoder.take(LARGEST).read_to_end(&mut plain));
    let is_whole = decoded.is_ok_and(|read| read.is_ok_and(|len| (len as u64) < LARGEST));
    (Cow::Owned(plain), is_whole)
}
