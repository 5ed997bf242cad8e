//! Reads just enough of a conversation for an entry of a list: of a file of JSON lines, the first
//! ones and the last ones.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::file::read_into;
use super::grown::ReadEnd;
use super::{FoundConversation, Source, SourceReader, ToolConversation, has_extension, open};

/// How much of the beginning is read, in bytes: more only if there is no prompt in it. Some tools
/// write long instructions first, and a prompt may have pictures.
pub(super) const HEADS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 512 << 10, 8 << 20];

/// How much of the end is read, in bytes: more only if no whole line is in it.
const TAILS: [u64; 4] = [4 << 10, 32 << 10, 256 << 10, 8 << 20];

/// How many messages of a conversation in a database have a prompt among them.
const MESSAGES: i64 = 4;

/// The largest file that is read as a whole for its entry and its words, in bytes.
pub const LARGEST: u64 = 32 << 20;

/// A part of a conversation.
#[derive(Debug)]
pub(super) struct Glance {
    /// Its beginning and end, as one.
    pub(super) conversation: ToolConversation,
    /// Whether it is all of it.
    pub(super) is_whole: bool,
    /// The end of the file, if it can be read on from there.
    pub(super) end: Option<ReadEnd>,
}

impl Source {
    /// Reads the beginning and the end of a conversation.
    pub(super) fn glance(&self, found: &FoundConversation) -> io::Result<Glance> {
        let read = match &self.reader {
            SourceReader::Files(reader) => reader.read,
            SourceReader::Database { read, .. } => {
                let conversation = read(found, MESSAGES)?;
                let is_whole = false;
                return Ok(Glance {
                    conversation,
                    is_whole,
                    end: None,
                });
            }
        };
        if has_extension(&found.path, &["jsonl"]) {
            let (mut file, size) = open(&found.path)?;
            for head in HEADS {
                if head + TAILS[0] >= size {
                    break;
                }
                let conversation = read(found, &ends(&mut file, head, size)?, None);
                if !conversation.entries.is_empty() {
                    let is_whole = false;
                    return Ok(Glance {
                        conversation,
                        is_whole,
                        end: None,
                    });
                }
            }
        }
        self.read_if_small(found, &mut Vec::new())
    }

    /// Reads a whole conversation, unless it is so long that it would take much memory. The file is read
    /// into `buffer`.
    pub(super) fn read_if_small(
        &self,
        found: &FoundConversation,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Glance> {
        if found.size > LARGEST {
            let error = "the conversation is too long to be read for a list";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        let (conversation, end) = match &self.reader {
            SourceReader::Files(reader) => {
                let bytes = read_into(&found.path, buffer, &mut |_| {})?;
                let end = ReadEnd::of(reader, found, bytes);
                (reader.whole(found, bytes), end)
            }
            SourceReader::Database { read, .. } => (read(found, -1)?, None),
        };
        Ok(Glance {
            conversation,
            is_whole: true,
            end,
        })
    }
}

/// The complete lines in the first bytes and in the last ones.
fn ends(file: &mut File, head: u64, size: u64) -> io::Result<Vec<u8>> {
    // With room for all, it is read at once.
    let mut bytes = Vec::with_capacity((head + TAILS[0]) as usize);
    file.rewind()?;
    file.take(head).read_to_end(&mut bytes)?;
    let complete = bytes.iter().rposition(|byte| *byte == b'\n');
    bytes.truncate(complete.map_or(0, |end| end + 1));
    let mut lines = Vec::new();
    for tail in TAILS.into_iter().filter(|tail| head + tail < size) {
        let mut last = Vec::with_capacity(tail as usize);
        file.seek(SeekFrom::Start(size - tail))?;
        file.take(tail).read_to_end(&mut last)?;
        let first = last.iter().position(|byte| *byte == b'\n');
        lines = last.split_off(first.map_or(last.len(), |at| at + 1));
        // The last line may be half written.
        if lines.contains(&b'\n') {
            break;
        }
    }
    bytes.append(&mut lines);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_whole_line_is_read_before_one_that_is_half_written() {
        let mut file = tempfile::tempfile().unwrap();
        let line = format!("{}\n", "x".repeat(7000));
        for _ in 0..20 {
            file.write_all(line.as_bytes()).unwrap();
        }
        file.write_all(b"half").unwrap();
        let size = file.metadata().unwrap().len();
        let read = ends(&mut file, HEADS[0], size).unwrap();
        assert!(read.ends_with(format!("{line}half").as_bytes()));
    }
}
