//! Reads files of tools as a whole.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use memchr::memmem;
use serde_json::Value;

use super::lines::{LONGEST, TOO_LONG};
use super::{damage, has_extension};

/// The largest file that is read, in bytes.
pub(super) const LARGEST: u64 = 4 << 30;

/// Whether one of these texts is there.
pub(super) fn has_any(bytes: &[u8], texts: &[&str]) -> bool {
    let mut texts = texts.iter();
    texts.any(|text| memmem::find(bytes, text.as_bytes()).is_some())
}

/// The content of a file, which is held in memory as a whole.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let len = read_into(path, &mut bytes, &mut |_| {})?.len();
    bytes.truncate(len);
    Ok(bytes)
}

/// How much is read at once, in bytes: what a processor has at hand.
const AT_ONCE: usize = 128 * 1024;

/// Reads a file as a whole into a buffer that may be longer. `look` gets the lines, some at a time,
/// as soon as they are read. In a file of JSON lines, [`TOO_LONG`] is in the place of each line that is
/// too long to be a record.
pub(super) fn read_into<'b>(
    path: &Path,
    buffer: &'b mut Vec<u8>,
    look: &mut dyn FnMut(&[u8]),
) -> io::Result<&'b [u8]> {
    let (mut file, size) = open(path)?;
    if size > LARGEST {
        let message = format!("the file has {size} bytes, and at most {LARGEST} are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    // With room for one more byte, the end shows without another buffer.
    let room = usize::try_from(size).unwrap_or(0).saturating_add(1);
    if buffer.len() < room {
        *buffer = vec![0; room];
    }
    let is_of_lines = has_extension(path, &["jsonl"]);
    let (mut len, mut looked) = (0, 0);
    // Whether the rest of a line is left out.
    let mut is_left_out = false;
    loop {
        if len == buffer.len() {
            buffer.resize(2 * len, 0);
        }
        let end = buffer.len().min(len + AT_ONCE);
        let read = match file.read(&mut buffer[len..end]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let mut new = len..len + read;
        if is_left_out {
            let rest = memchr::memchr(b'\n', &buffer[new.clone()]);
            let rest = rest.map_or(read, |end| {
                is_left_out = false;
                end
            });
            buffer.copy_within(new.start + rest..new.end, new.start);
            new.end -= rest;
        }
        len = new.end;
        let lines = match memchr::memrchr(b'\n', &buffer[new.clone()]) {
            _ if read == 0 => len,
            Some(last) => new.start + last + 1,
            None => {
                if is_of_lines && len - looked > LONGEST {
                    let end = looked + TOO_LONG.len();
                    buffer[looked..end].copy_from_slice(TOO_LONG);
                    len = end;
                    is_left_out = true;
                }
                continue;
            }
        };
        look(&buffer[looked..lines]);
        looked = lines;
        if read == 0 {
            return Ok(&buffer[..len]);
        }
    }
}

/// Opens a file, and says how long it is. Anything else than a file is refused, without waiting:
/// reading a pipe would wait, and reading a device never end.
pub(super) fn open(path: &Path) -> io::Result<(fs::File, u64)> {
    #[cfg(unix)]
    let file: fs::File = {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())?.into()
    };
    #[cfg(not(unix))]
    let file = fs::File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(no_file());
    }
    Ok((file, about.len()))
}

pub(super) fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// The value in a file of JSON; null if no such file can be read.
pub(super) fn json_file(path: &Path) -> Value {
    let bytes = bytes(path).unwrap_or_default();
    damage::value_or_null(&String::from_utf8_lossy(&bytes)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a tool's file is no store")]
    fn a_line_that_is_too_long_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.jsonl");
        let long = "x".repeat(LONGEST + 3 * AT_ONCE);
        let shown = String::from_utf8(TOO_LONG.to_vec()).unwrap();
        for (text, kept) in [
            (
                format!("a\n{long}\nb\n{long}"),
                format!("a\n{shown}\nb\n{shown}"),
            ),
            (format!("{long}\n{long}\nb"), format!("{shown}\n{shown}\nb")),
        ] {
            fs::write(&path, text).unwrap();
            assert!(super::bytes(&path).unwrap() == kept.as_bytes());
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a tool's file is no store")]
    fn a_file_is_looked_at_in_whole_lines_that_have_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut buffer = Vec::new();
        let long = "x".repeat(AT_ONCE + 10);
        for text in [
            "",
            "a",
            "a\nb",
            &format!("a\n{long}\nb\n"),
            &format!("{long}{long}\na"),
            &"a line\n".repeat(AT_ONCE / 5),
        ] {
            fs::write(&path, text).unwrap();
            let mut looked = Vec::new();
            let bytes = read_into(&path, &mut buffer, &mut |lines| {
                let is_behind_a_line = looked.is_empty() || looked.ends_with(b"\n");
                assert!(is_behind_a_line || lines.is_empty());
                looked.extend_from_slice(lines);
            });
            assert_eq!(bytes.unwrap(), text.as_bytes());
            assert_eq!(looked, text.as_bytes());
            assert_eq!(super::bytes(&path).unwrap(), text.as_bytes());
        }
    }
}
