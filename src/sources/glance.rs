//! Reads just enough of a conversation for an entry of a list: of a file of JSON lines, the first
//! ones and the last ones.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::{Conversation, Found, Reader, Source, has_extension};

/// How much of the beginning is read, in bytes: more only if there is no prompt in it. Some tools
/// write long instructions first.
const HEADS: [u64; 3] = [8 << 10, 64 << 10, 512 << 10];

/// How much of the end is read, in bytes.
const TAIL: u64 = 8 << 10;

/// How many messages of a conversation in a database have a prompt among them.
const MESSAGES: i64 = 4;

/// The largest file that is read as a whole for its entry, in bytes.
pub(super) const LARGEST: u64 = 32 << 20;

/// A part of a conversation.
#[derive(Debug)]
pub(super) struct Glance {
    /// Its beginning and end, as one.
    pub(super) conversation: Conversation,
    /// Whether it is all of it.
    pub(super) is_whole: bool,
}

impl Source {
    /// Reads the beginning and the end of a conversation.
    pub(super) fn glance(&self, found: &Found) -> io::Result<Glance> {
        let read = match &self.reader {
            Reader::Files { read, .. } => read,
            Reader::Database { read, .. } => {
                let conversation = read(found, MESSAGES)?;
                let is_whole = false;
                return Ok(Glance {
                    conversation,
                    is_whole,
                });
            }
        };
        if has_extension(&found.path, &["jsonl"]) {
            let mut file = File::open(&found.path)?;
            let size = file.metadata()?.len();
            for head in HEADS {
                if head + TAIL >= size {
                    break;
                }
                let conversation = read(found, &ends(&mut file, head, size)?);
                if !conversation.entries.is_empty() {
                    let is_whole = false;
                    return Ok(Glance {
                        conversation,
                        is_whole,
                    });
                }
            }
        }
        self.read_if_small(found)
    }

    /// Reads a whole conversation, unless it is so long that it would take much memory.
    pub(super) fn read_if_small(&self, found: &Found) -> io::Result<Glance> {
        if found.size > LARGEST {
            let error = "the conversation is too long to be read for a list";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        let conversation = self.read(found)?;
        let is_whole = true;
        Ok(Glance {
            conversation,
            is_whole,
        })
    }
}

/// The complete lines in the first bytes and in the last ones.
fn ends(file: &mut File, head: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(head).read_to_end(&mut bytes)?;
    let complete = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(complete.map_or(0, |end| end + 1));
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    file.take(TAIL).read_to_end(&mut tail)?;
    let first = tail.iter().position(|byte| *byte == b'\n');
    bytes.extend_from_slice(&tail[first.map_or(tail.len(), |at| at + 1)..]);
    Ok(bytes)
}
