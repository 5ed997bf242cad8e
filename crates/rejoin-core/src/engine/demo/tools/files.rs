//! Reads and writes the user's own files.
//!
//! The user's files do not belong to the store: the simulated disk does not replace them, and their
//! permissions are the user's. So this is the only part of the engine that uses the file system
//! directly.

use std::io::{self, BufRead, BufReader, Read};

use super::confined::ConfinedFile;

/// How many bytes of a file are shown.
pub(super) const SHOWN: usize = 256 * 1024;

/// The longest text that is shown in a diff, in bytes; a longer one is written all the same.
pub(super) const COMPARED: usize = 1024 * 1024;

/// A part of a text file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileExcerpt {
    pub(super) text: String,
    /// How many lines the text has.
    pub(super) lines: u64,
    /// Whether the text was truncated because it would be too long.
    pub(super) cut: bool,
}

/// Reads lines of a text file: `count` of them from line `from` on, counted from 1.
pub(super) fn read(
    file: &ConfinedFile,
    from: u64,
    count: Option<u64>,
) -> Result<FileExcerpt, String> {
    let mut file = BufReader::new(file.open().map_err(|error| in_words(&error))?);
    let failed = |error: io::Error| in_words(&error);
    for _ in 1..from {
        if file.skip_until(b'\n').map_err(failed)? == 0 {
            break;
        }
    }
    let mut bytes = Vec::new();
    let mut lines = 0;
    while count.is_none_or(|count| lines < count) && bytes.len() <= SHOWN {
        let room = (SHOWN + 1 - bytes.len()) as u64;
        let read = (&mut file).take(room).read_until(b'\n', &mut bytes);
        if read.map_err(failed)? == 0 {
            break;
        }
        lines += 1;
    }
    let cut = bytes.len() > SHOWN;
    bytes.truncate(SHOWN);
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The limit truncated a character.
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Err(_) => return Err("it is not text in UTF-8".to_owned()),
    };
    Ok(FileExcerpt { text, lines, cut })
}

/// The content of a file before it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The file does not exist.
    Nothing,
    Text(String),
    /// The content cannot be shown, for this reason.
    Unshown(&'static str),
}

/// Reads the content of a file that is about to be written.
pub(super) fn before(file: &ConfinedFile) -> Before {
    let file = match file.open() {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Before::Nothing,
        Err(_) => return Before::Unshown("the old content could not be read"),
    };
    let mut bytes = Vec::new();
    match file.take(COMPARED as u64 + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > COMPARED => Before::Unshown("the old content is too long"),
        Ok(_) => match String::from_utf8(bytes) {
            Ok(text) => Before::Text(text),
            Err(_) => Before::Unshown("the old content is not text"),
        },
        Err(_) => Before::Unshown("the old content could not be read"),
    }
}

/// Replaces a file atomically: concurrent readers see the old content or the new one. `unique` is
/// for the name of a temporary file beside it.
pub(super) fn write(file: &ConfinedFile, text: &str, unique: &str) -> Result<(), String> {
    let beside = format!(".rejoin-{unique}");
    let written = file.replace(text.as_bytes(), &beside);
    written.map_err(|error| in_words(&error))
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files are the tests' own")]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn at(path: &Path) -> ConfinedFile {
        let root = path.parent().unwrap().canonicalize().unwrap();
        let path = root.join(path.file_name().unwrap());
        ConfinedFile::of(root, &path).unwrap()
    }

    fn excerpt(text: &str, lines: u64, cut: bool) -> FileExcerpt {
        FileExcerpt {
            text: text.to_owned(),
            lines,
            cut,
        }
    }

    #[test]
    fn lines_are_read_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "one\r\ntwo\n\nlast").unwrap();
        for (from, count, text, lines) in [
            (1, None, "one\r\ntwo\n\nlast", 4),
            (2, None, "two\n\nlast", 3),
            (2, Some(1), "two\n", 1),
            (4, Some(9), "last", 1),
            (1, Some(0), "", 0),
            (5, None, "", 0),
            (u64::MAX, None, "", 0),
        ] {
            let read = read(&at(&path), from, count).unwrap();
            assert_eq!(read, excerpt(text, lines, false), "{from} {count:?}");
        }
    }

    #[test]
    fn a_long_file_is_cut_between_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for (text, shown, cut) in [
            ("x".repeat(SHOWN), SHOWN, false),
            ("x".repeat(SHOWN + 1), SHOWN, true),
            (format!("x{}", "ü".repeat(SHOWN)), SHOWN - 1, true),
        ] {
            fs::write(&path, &text).unwrap();
            let read = read(&at(&path), 1, None).unwrap();
            assert_eq!(read, excerpt(&text[..shown], 1, cut));
        }
    }

    #[test]
    fn only_regular_text_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let missing = read(&at(&path), 1, None).unwrap_err();
        assert_eq!(missing, "no such file or folder");
        assert_eq!(before(&at(&path)), Before::Nothing);
        fs::write(&path, b"a\xFFb").unwrap();
        assert_eq!(
            read(&at(&path), 1, None).unwrap_err(),
            "it is not text in UTF-8"
        );
        assert_eq!(
            before(&at(&path)),
            Before::Unshown("the old content is not text")
        );
        let folder = at(folder.path());
        for error in [
            read(&folder, 1, None).unwrap_err(),
            write(&folder, "", "u").unwrap_err(),
        ] {
            assert_eq!(error, "it is not a regular file");
        }
    }

    #[cfg(unix)]
    #[test]
    fn writing_keeps_permissions_and_leaves_no_temporary_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write(&at(&path), "new", "1").unwrap();
        assert_eq!(before(&at(&path)), Before::Text("new".to_owned()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        write(&at(&path), "", "2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        let root = folder.path().canonicalize().unwrap();
        let none = ConfinedFile::of(root.clone(), &root.join("none/f")).unwrap();
        assert!(write(&none, "x", "3").is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(
            write(&at(&path), "x", "4").unwrap_err(),
            "it is write-protected"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
