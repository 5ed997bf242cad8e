//! The files of tools as they are: parts of them, and where the records of a tool call are.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use memchr::memmem::Finder;

use crate::index::Catalog;
use crate::json;
use crate::sys::SessionId;

use super::import::ImportError;
use super::live::LiveSources;
use super::{FoundConversation, bytes, codex, open};

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file's name.
    pub path: String,
    /// The length of the whole in bytes; of a compressed file, of what it contains.
    pub size: u64,
    /// Where the part begins.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    /// Its text.
    pub text: String,
    /// Whether it has bytes that are no text, each of which is replaced by a mark.
    pub has_marks: bool,
}

impl LiveSources {
    /// A part of the file with this conversation, from the beginning of the character at `offset` on,
    /// or its end; none if it is in a database, or no listed tool has it.
    pub fn part(
        &self,
        catalog: &Catalog,
        id: &SessionId,
        offset: u64,
        length: usize,
    ) -> Result<Option<FilePart>, ImportError> {
        let Some(found) = self.file(catalog, id)? else {
            return Ok(None);
        };
        let (size, from, bytes) = cut(&found, offset, length)?;
        let (text, has_marks) = match String::from_utf8_lossy(&bytes) {
            std::borrow::Cow::Borrowed(text) => (text.to_owned(), false),
            std::borrow::Cow::Owned(text) => (text, true),
        };
        Ok(Some(FilePart {
            path: found.path.to_string_lossy().into_owned(),
            size,
            offset: from,
            end: from + bytes.len() as u64,
            text,
            has_marks,
        }))
    }

    /// Where the records about a tool call are in the file with this conversation.
    pub fn records_of_call(
        &self,
        catalog: &Catalog,
        id: &SessionId,
        call: &str,
    ) -> Result<Vec<Range<usize>>, ImportError> {
        match self.file(catalog, id)? {
            Some(found) => Ok(records(&plain(&found)?, call)),
            None => Ok(Vec::new()),
        }
    }

    /// The file that has this conversation and no other.
    fn file(
        &self,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<Option<FoundConversation>, ImportError> {
        let found = self.find(catalog, id)?.map(|(_, found)| found);
        Ok(found.filter(|found| found.key.is_none()))
    }
}

/// The content of a file, decompressed if it is compressed.
fn plain(found: &FoundConversation) -> io::Result<Vec<u8>> {
    let bytes = bytes(&found.path)?;
    if codex::is_compressed(&found.path) {
        return Ok(codex::plain(&found.path, &bytes).0.into_owned());
    }
    Ok(bytes)
}

/// The length of a file, and its bytes from about `offset` on: whole characters, at most `length`.
fn cut(found: &FoundConversation, offset: u64, length: usize) -> io::Result<(u64, u64, Vec<u8>)> {
    // The beginning of a character is at most this far away.
    let from = offset.saturating_sub(3);
    let wanted = length.saturating_add((offset - from) as usize);
    let (size, mut bytes) = if codex::is_compressed(&found.path) {
        let whole = plain(found)?;
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(whole.len());
        let end = start.saturating_add(wanted).min(whole.len());
        (whole.len() as u64, whole[start..end].to_vec())
    } else {
        let (mut file, size) = open(&found.path)?;
        let mut bytes = Vec::new();
        // Systems refuse places where no file can have anything.
        file.seek(SeekFrom::Start(from.min(size)))?;
        file.take(wanted as u64).read_to_end(&mut bytes)?;
        (size, bytes)
    };
    let before = bytes.len().min((offset - from) as usize);
    let is_inside = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    let mut start = before;
    while start > 0 && bytes.get(start).is_some_and(|byte| is_inside(*byte)) {
        start -= 1;
    }
    if let Err(error) = std::str::from_utf8(&bytes[start..])
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes.truncate(start + error.valid_up_to());
    }
    bytes.drain(..start);
    Ok((size, from + start as u64, bytes))
}

/// The records that name a tool call: lines, or messages of a file that is one object.
fn records(bytes: &[u8], call: &str) -> Vec<Range<usize>> {
    let name = json::quoted(call);
    let finder = Finder::new(name.as_bytes());
    let end = json::value_end(bytes, 0).map(|end| json::skip_space(bytes, end));
    let is_object = end == Some(bytes.len());
    let messages = json::member_elements(bytes, 0, "messages");
    if let Some(mut messages) = messages.filter(|_| is_object) {
        let mut found = Vec::new();
        while let Some(message) = messages.element() {
            if finder.find(&bytes[message.clone()]).is_some() {
                found.push(message);
            }
        }
        return found;
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in finder.find_iter(bytes) {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |line| line + 1);
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
        found.push(start..end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_call_are_lines_or_messages() {
        let lines = b"{\"a\":1}\n{\"id\":\"c1\",\"of\":\"c1\"}\n{\"id\":\"c12\"}\n{\"x\":\"c1\"}";
        assert_eq!(records(lines, "c1"), [8..29, 43..53]);
        let object = br#"{"messages":[{"id":"m"},{"toolCalls":[{"id":"c1"}]}],"n":"c1"}"#;
        assert_eq!(records(object, "c1").first(), Some(&(24..51)));
        assert!(records(b"", "c1").is_empty());
    }
}
