//! Programs on this machine: this one, and those that are found by `PATH`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rejoin::sys::program::find;

use super::exit::Failure;

/// This program, as other programs are to start it.
#[derive(Debug)]
pub(super) struct Rejoin {
    /// Its whole path.
    pub(super) path: String,
    /// The reason why the path may not stay, if there is one.
    pub(super) passing: Option<&'static str>,
}

impl Rejoin {
    /// This program. A link on `PATH` is preferred to what it links to, which updates may move.
    pub(super) fn this() -> Result<Self, Failure> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::new(format!("cannot determine the path of rejoin: {why}"))
        };
        let this = std::env::current_exe().map_err(|error| cannot(&error))?;
        let real = this.canonicalize().ok();
        let linked = on_path("rejoin").filter(|found| found.canonicalize().ok() == real);
        let path = linked.unwrap_or(this);
        let path = path.to_str().ok_or_else(|| cannot(&"it is not UTF-8"))?;
        Ok(Self {
            path: path.to_owned(),
            passing: passing(Path::new(path)),
        })
    }
}

/// Why a path may soon be gone.
fn passing(path: &Path) -> Option<&'static str> {
    let mut folders = path.iter().rev().skip(1);
    let is = |folder: Option<&OsStr>, names: &[&str]| {
        folder.is_some_and(|folder| names.iter().any(|name| folder == *name))
    };
    if is(folders.next(), &["debug", "release"]) && path.iter().any(|folder| folder == "target") {
        return Some(
            "it is in a build folder, and gone after `cargo clean`: run `cargo install --path .` first",
        );
    }
    if path.iter().any(|folder| folder == "_npx") {
        return Some("it is in the cache of npx, which npm empties: run `npm install -g` first");
    }
    let text = path.to_string_lossy();
    let uv = ["/uv/archive-v0/", "\\uv\\cache\\", "/uv/builds-v0/"];
    uv.iter()
        .any(|cache| text.contains(cache))
        .then_some("it is in the cache of uv, which uv empties: run `uv tool install` first")
}

/// A word as a shell takes it: in quotes, unless it has only characters that mean nothing there.
pub(super) fn quoted(word: &str) -> Cow<'_, str> {
    let plain =
        |c: char| c.is_alphanumeric() || "/._-:+,@%=".contains(c) || cfg!(windows) && c == '\\';
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    if cfg!(windows) {
        format!("\"{word}\"").into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    }
}

/// The whole path of a program in a folder of `PATH`. A folder that `fnm` has made for one shell is
/// gone with that shell, so the one that it leads to is taken.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let found = find(&std::env::var_os("PATH")?, &file_names(name))?;
    if !found.iter().any(|folder| folder == "fnm_multishells") {
        return Some(found);
    }
    let folder = found.parent()?.canonicalize().ok()?;
    Some(folder.join(found.file_name()?))
}

/// The folders of `PATH` that programs have which are started from a desktop.
const OF_DESKTOP: &str = if cfg!(target_os = "macos") {
    "/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
};

/// A folder with the interpreter of a script, which a program that is started from a desktop does not
/// find by itself.
#[derive(Debug)]
pub(super) struct InterpreterFolder {
    /// The interpreter, such as `node`.
    pub(super) name: String,
    pub(super) folder: String,
}

impl InterpreterFolder {
    /// The folder for the program with this path, if it needs one.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let name = interpreter(program)?;
        if cfg!(windows) || find(OsStr::new(OF_DESKTOP), std::slice::from_ref(&name)).is_some() {
            return None;
        }
        let folder = on_path(&name)?.parent()?.to_str()?.to_owned();
        Some(Self { name, folder })
    }
}

/// The interpreter that a script names without a path, as `#!/usr/bin/env node` does.
fn interpreter(script: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(script)
        .ok()?
        .take(FIRST_LINE)
        .read_to_end(&mut head)
        .ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    let mut words = words.next()?.ends_with("/env").then_some(words)?;
    // Options and variables may come first.
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    (!name.contains('/')).then(|| name.to_owned())
}

/// How long the first line of a script may be, in bytes.
const FIRST_LINE: u64 = 256;

/// The files that the system would start under a name.
fn file_names(name: &str) -> Vec<String> {
    if cfg!(not(windows)) || Path::new(name).extension().is_some() {
        return vec![name.to_owned()];
    }
    let endings = std::env::var_os("PATHEXT").unwrap_or_else(|| ".COM;.EXE;.BAT;.CMD".into());
    let endings = endings.to_string_lossy().to_lowercase();
    let names = endings.split(';').map(|ending| format!("{name}{ending}"));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use rejoin::sys::program::is_program;

    #[cfg(unix)]
    #[test]
    fn a_word_is_one_for_a_shell() {
        for word in [
            "",
            "plain",
            "/home/ada/a b",
            "it's",
            "$(x)`y`",
            "~",
            "a\\b\n",
            "-x=1",
            "修",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let shell = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            assert_eq!(shell.unwrap().stdout, word.as_bytes(), "{word:?}");
        }
        assert_eq!(quoted("/home/ada/a-b"), "/home/ada/a-b");
    }

    #[test]
    fn paths_that_do_not_stay_are_known() {
        for (path, word) in [
            ("/home/ada/rejoin/target/release/rejoin", "cargo clean"),
            ("/home/ada/.npm/_npx/1a2b/node_modules/x/rejoin", "npx"),
            ("/home/ada/.cache/uv/archive-v0/x/bin/rejoin", "uv"),
        ] {
            let why = passing(Path::new(path));
            assert!(why.is_some_and(|why| why.contains(word)), "{path}");
        }
        for path in [
            "/usr/local/bin/rejoin",
            "/home/ada/.cargo/bin/rejoin",
            "/home/ada/.local/share/uv/tools/rejoin/bin/rejoin",
            "/opt/release/rejoin",
        ] {
            assert_eq!(passing(Path::new(path)), None, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn programs_are_found_by_their_names() {
        let shell = on_path("sh").unwrap();
        assert!(shell.is_absolute() && is_program(&shell));
        assert_eq!(on_path("no-such-program-anywhere"), None);
        assert!(!is_program(Path::new("/")) && !is_program(Path::new("/etc/passwd")));
    }
}
