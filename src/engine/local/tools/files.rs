//! The user's own files, read and written here.
//!
//! They are not the store's: no simulated disk stands in for them, and their permissions are the
//! user's. So this is the one place of the engine that uses the file system as it is.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// The most that is shown of a file, in bytes.
pub(super) const SHOWN: usize = 256 * 1024;

/// A file as it was before it is written, if it is to be shown; a longer one is not, in bytes.
const COMPARED: u64 = 1024 * 1024;

/// A part of a text file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// How many lines it is.
    pub(super) lines: u64,
    /// Whether it ends earlier than it was to, since it would be too long.
    pub(super) cut: bool,
}

/// Reads lines of a text file: `count` of them from number `from` on, which begins with 1.
pub(super) fn read(path: &Path, from: u64, count: Option<u64>) -> Result<Excerpt, String> {
    let mut file = BufReader::new(open(path).map_err(|error| in_words(&error))?);
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
        // The cut went through a character.
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Err(_) => return Err("it is no text in UTF-8".to_owned()),
    };
    Ok(Excerpt { text, lines, cut })
}

/// What is in a file before it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There is none.
    Nothing,
    Text(String),
    /// It cannot be shown, for this reason.
    Unshown(&'static str),
}

/// Looks at a file that is to be written.
pub(super) fn before(path: &Path) -> Before {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Before::Nothing,
        Err(_) => return Before::Unshown("what was there could not be read"),
    };
    let mut bytes = Vec::new();
    match file.take(COMPARED + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > COMPARED => Before::Unshown("what was there is too long"),
        Ok(_) => match String::from_utf8(bytes) {
            Ok(text) => Before::Text(text),
            Err(_) => Before::Unshown("what was there is no text"),
        },
        Err(_) => Before::Unshown("what was there could not be read"),
    }
}

/// Writes a file as a whole: whoever reads it meanwhile sees what was there before. One that was
/// there keeps its permissions. `unique` is for the name of a file that stands beside it for a
/// moment.
#[expect(
    clippy::disallowed_methods,
    reason = "the file is the user's and no part of the store"
)]
pub(super) fn write(path: &Path, text: &str, unique: &str) -> Result<(), String> {
    let permissions = match fs::metadata(path) {
        Ok(known) if known.is_file() => Some(known.permissions()),
        Ok(_) => return Err("it is no file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(in_words(&error)),
    };
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err("it is write-protected".to_owned());
    }
    let beside = path.with_file_name(format!(".rejoin-{unique}"));
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // If it was never made, there is nothing to be removed.
        fs::remove_file(&beside).ok();
        in_words(&error)
    })
}

/// Opens what is a file: anything else might never end, or wait for ever.
fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::other("it is no file"))
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files are the tests' own")]
mod tests {
    use super::*;

    fn excerpt(text: &str, lines: u64, cut: bool) -> Excerpt {
        Excerpt {
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
            let read = read(&path, from, count).unwrap();
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
            let read = read(&path, 1, None).unwrap();
            assert_eq!(read, excerpt(&text[..shown], 1, cut));
        }
    }

    #[test]
    fn what_is_no_text_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let missing = read(&path, 1, None).unwrap_err();
        assert_eq!(missing, "there is no such file or folder");
        assert_eq!(before(&path), Before::Nothing);
        fs::write(&path, b"a\xFFb").unwrap();
        assert_eq!(read(&path, 1, None).unwrap_err(), "it is no text in UTF-8");
        assert_eq!(before(&path), Before::Unshown("what was there is no text"));
        assert_eq!(read(folder.path(), 1, None).unwrap_err(), "it is no file");
        assert_eq!(write(folder.path(), "", "u").unwrap_err(), "it is no file");
    }

    #[cfg(unix)]
    #[test]
    fn writing_keeps_permissions_and_leaves_nothing_behind() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        write(&path, "new", "1").unwrap();
        assert_eq!(before(&path), Before::Text("new".to_owned()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        write(&path, "", "2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        assert!(write(&folder.path().join("none/f"), "x", "3").is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(write(&path, "x", "4").unwrap_err(), "it is write-protected");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
