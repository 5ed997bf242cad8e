//! Parses the path of a file, and checks whether it is in the session's folders.

use std::io;
use std::path::{Path, PathBuf};

use crate::engine::demo::args::skip_space;
use crate::record::header::Workspace;
use crate::sys::path::normalize;
use crate::text::shortened;

use super::confined::ConfinedFile;

/// A file that a command names.
#[derive(Debug)]
pub(super) struct NamedFile {
    /// Its absolute path, as the client would write it.
    pub(super) path: String,
    /// The rest of the command.
    pub(super) rest: String,
}

impl NamedFile {
    /// The path for users: inside of the working directory it is relative.
    pub(super) fn short(&self, cwd: &str) -> String {
        let path = Path::new(&self.path);
        let short = path.strip_prefix(cwd).unwrap_or(path).to_string_lossy();
        shortened(if short.is_empty() { &self.path } else { &short }, 200)
    }
}

/// Parses a path at the start of a command's arguments: a word, or a text in double quotes. One
/// white space character or line break after it belongs to neither.
pub(super) fn named(rest: &str, cwd: &str) -> Option<NamedFile> {
    let rest = rest.trim_start_matches([' ', '\t']);
    let (path, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
    };
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    Some(NamedFile {
        path: normalize(&Path::new(cwd).join(path).to_string_lossy()),
        rest: skip_space(rest).to_owned(),
    })
}

/// The resolved path, if it is in one of the session's folders. A file that does not exist yet is
/// located where it would be created.
pub(super) fn inside(workspace: &Workspace, path: &str) -> io::Result<Option<ConfinedFile>> {
    let real = real(Path::new(path))?;
    let found = roots(workspace).filter_map(|root| {
        // A folder that cannot be resolved contains no accessible file.
        ConfinedFile::of(self::real(Path::new(root)).ok()?, &real)
    });
    // From the outermost folder, so that each component below it is checked on use.
    Ok(found.min_by_key(ConfinedFile::depth))
}

/// The error for a file that is in none of the session's folders.
pub(super) fn outside(workspace: &Workspace, path: &str) -> String {
    let roots: Vec<_> = roots(workspace).map(|root| format!("`{root}`")).collect();
    format!(
        "`{path}` is outside of the session's folders ({})",
        roots.join(", ")
    )
}

fn roots(workspace: &Workspace) -> impl Iterator<Item = &str> {
    let more = workspace.additional_directories.iter().map(String::as_str);
    std::iter::once(workspace.cwd.as_str()).chain(more)
}

fn real(path: &Path) -> io::Result<PathBuf> {
    for known in path.ancestors() {
        match known.canonicalize() {
            Ok(mut real) => {
                // A path without `..`, so the rest can be appended.
                if let Ok(rest) = path.strip_prefix(known)
                    && !rest.as_os_str().is_empty()
                {
                    real.push(rest);
                }
                return Ok(real);
            }
            // A missing path is only resolved further up if it is not a dangling link.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !known.is_symlink() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("`{}` is a dangling link", known.display()),
                ));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_is_a_word_or_in_quotes() {
        for (rest, expected) in [
            ("a.txt", Some(("/w/a.txt", ""))),
            ("  a.txt  b ", Some(("/w/a.txt", " b "))),
            ("a.txt\nb", Some(("/w/a.txt", "b"))),
            ("a.txt\r\nb", Some(("/w/a.txt", "b"))),
            ("/x/../y b", Some(("/y", "b"))),
            ("../y", Some(("/y", ""))),
            ("\"a b\" c", Some(("/w/a b", "c"))),
            ("\"a b\"c", Some(("/w/a b", "c"))),
            ("\"a b", None),
            ("\"\" c", None),
            ("", None),
            (" ", None),
            ("a\0b", None),
        ] {
            let named = named(rest, "/w");
            let named = named
                .as_ref()
                .map(|it| (it.path.as_str(), it.rest.as_str()));
            assert_eq!(named, expected, "{rest:?}");
        }
    }

    #[test]
    fn links_do_not_lead_outside() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
        for made in ["root/sub", "more", "else"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        symlink(at("else"), at("root/out")).unwrap();
        symlink(at("root/sub"), at("else/in")).unwrap();
        symlink(at("root"), at("alias")).unwrap();
        let place = |cwd: &str| Workspace {
            cwd: at(cwd),
            additional_directories: vec![at("more")],
            mcp_servers: Vec::new(),
        };
        for (path, expected) in [
            ("root", true),
            ("root/a", true),
            ("root/new/b", true),
            ("more/a", true),
            ("root/out", false),
            ("root/out/a", false),
            ("else/in/a", true),
            ("alias/a", true),
            ("else/a", false),
            ("rootling/a", false),
            ("gone/a", false),
        ] {
            for cwd in ["root", "alias"] {
                let is_inside = inside(&place(cwd), &at(path)).unwrap().is_some();
                assert_eq!(is_inside, expected, "{path} in {cwd}");
            }
        }
        // A dangling link is rejected: it is unknown where it would create a file.
        symlink(at("else/new"), at("root/dangling")).unwrap();
        for path in ["root/dangling", "root/dangling/a"] {
            let error = inside(&place("root"), &at(path)).unwrap_err().to_string();
            assert!(error.ends_with("is a dangling link"), "{error}");
        }
        let gone = place("gone");
        assert!(inside(&gone, &at("gone/a")).unwrap().is_some());
        let error = outside(&gone, "/x");
        assert!(
            error.contains("`/x`") && error.contains(&at("more")),
            "{error}"
        );
    }
}
