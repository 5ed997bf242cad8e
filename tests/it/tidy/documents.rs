//! Rules about the documents: what they name is there.

use std::collections::BTreeSet;
use std::path::Path;

use super::tree::SourceFile;

/// The folders of the conversations, which documents name as `*topic/name*`.
const FIXTURES: [&str; 4] = [
    "fixtures/transcripts/",
    "fixtures/wrap/",
    "fixtures/mcp/",
    "fixtures/agent/",
];

/// Whether a file is a document.
pub(super) fn is_document(file: &SourceFile) -> bool {
    Path::new(&file.path)
        .extension()
        .is_some_and(|extension| extension == "md")
}

/// Files, links and conversations that a document names and that are not there.
pub(crate) fn missing(files: &[SourceFile]) -> Vec<String> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let documents = files.iter().filter(|file| is_document(file));
    let mut wrong = Vec::new();
    for document in documents {
        let folder = document
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for (line, text) in prose(&document.text) {
            let gone = named(text).filter(|name| !is_there(name, folder, &paths));
            wrong.extend(gone.map(|name| {
                let path = &document.path;
                format!("{path}:{line}: names {name:?}, which is not there")
            }));
        }
    }
    wrong
}

/// Promises, which are in bold, that have no row with a test in the table of another document, and rows
/// of that table which are no promises.
pub(crate) fn untested(promises: &SourceFile, tests: &SourceFile) -> Vec<String> {
    let bold = |text: &str| {
        let parts = text.split("**").skip(1).step_by(2);
        parts.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (_, behind) = tests.text.split_once("\n## Security\n").unwrap_or_default();
    let table = behind.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| **"));
    let is_tested = |row: &&str| {
        let folders = ["`tests/", "`src/", "`crates/", "`fixtures/"];
        folders.iter().any(|folder| row.contains(folder))
    };
    let tested: BTreeSet<_> = rows.filter(is_tested).flat_map(bold).collect();
    let promised = bold(&promises.text);
    let missing = promised.difference(&tested).map(|promise| {
        let (promises, tests) = (&promises.path, &tests.path);
        format!("{tests}: has no test of what {promises} promises: {promise:?}")
    });
    let superfluous = tested.difference(&promised).map(|row| {
        let (promises, tests) = (&promises.path, &tests.path);
        format!("{tests}: {row:?} is not a promise of {promises}")
    });
    missing.chain(superfluous).collect()
}

/// Names of errors that clients can get and the table of errors does not have.
pub(crate) fn undocumented_errors(errors: &SourceFile, readme: &SourceFile) -> Vec<String> {
    // Every second part is between quotes. A name has an underscore and no capital.
    let literals = errors.text.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.contains('_') && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    let names: BTreeSet<_> = literals.filter(is_name).collect();
    let untold = |name: &&str| !readme.text.contains(&format!("`{name}` |"));
    let untold = names.into_iter().filter(untold);
    let missing = untold.map(|name| {
        let (errors, readme) = (&errors.path, &readme.path);
        format!("{errors}: {name:?} is not in the table of errors of {readme}")
    });
    missing.collect()
}

/// What a name in a document means.
#[derive(Debug, PartialEq, Eq)]
enum Name<'a> {
    /// The target of a link, from the document's folder.
    Link(&'a str),
    /// A source file, in backticks.
    Source(&'a str),
    /// A conversation, in italics.
    Transcript(&'a str),
}

/// The lines outside of blocks of code, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    lines.map(|(line, text)| (line + 1, text))
}

fn named(line: &str) -> impl Iterator<Item = Name<'_>> {
    let links = line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#']).next()?;
        (!target.is_empty() && !target.contains("://")).then_some(Name::Link(target))
    });
    let sources = line.split('`').skip(1).step_by(2).filter_map(|text| {
        let path = text.strip_suffix('/').unwrap_or(text);
        let kinds = [".rs", ".mjs", ".py", ".acp"];
        let is_file = kinds.iter().any(|kind| path.ends_with(kind));
        let is_folder = [
            "src/",
            "crates/",
            "tests/",
            "fixtures/",
            "benches/",
            "docs/",
        ]
        .iter()
        .any(|folder| path.starts_with(folder));
        let plain = !path.contains([' ', '*', '<']);
        (plain && (is_file || is_folder)).then_some(Name::Source(path))
    });
    let transcripts = line.split('*').skip(1).step_by(2).filter_map(|text| {
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_/".contains(&b);
        (text.contains('/') && text.bytes().all(is_name)).then_some(Name::Transcript(text))
    });
    links.chain(sources).chain(transcripts)
}

fn is_there(name: &Name<'_>, folder: &str, paths: &BTreeSet<&str>) -> bool {
    let exists = |path: &str| {
        let below = format!("{path}/");
        paths.contains(path) || paths.iter().any(|other| other.starts_with(&below))
    };
    match name {
        Name::Link(target) => {
            let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in target.split('/').filter(|part| !part.is_empty()) {
                if part == ".." {
                    path.pop();
                } else {
                    path.push(part);
                }
            }
            exists(&path.join("/"))
        }
        Name::Transcript(name) => FIXTURES
            .iter()
            .any(|folder| exists(&format!("{folder}{name}.acp"))),
        Name::Source(path) => {
            let end = format!("/{path}");
            // The end of a path will do, and in the text of a section a file's own name.
            exists(path) || paths.iter().any(|other| other.ends_with(&end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_reported() {
        let text = "See [a](format.md#x), [b](../README.md), [c](https://example.org) and `wire/line.rs`,\n\
                    `line.rs`, `src/wire`, *load/twice*, *word*, `acp.json`.\n\
                    ```text\n`gone.rs`\n```\n\
                    [d](gone.md) `src/gone/` `wire/gone.rs` `gone.rs` *load/gone*\n";
        let files = [
            SourceFile::new("README.md", ""),
            SourceFile::new("docs/a.md", text),
            SourceFile::new("docs/format.md", ""),
            SourceFile::new(
                "docs/more/b.md",
                "[up](../a.md) [out](../../README.md) [off](../more.md)\n",
            ),
            SourceFile::new("src/wire/line.rs", ""),
            SourceFile::new("fixtures/transcripts/load/twice.acp", ""),
        ];
        let wrong = missing(&files);
        assert_eq!(wrong.len(), 6, "{wrong:?}");
        let (last, others) = wrong.split_last().unwrap();
        assert!(
            others
                .iter()
                .all(|missing| missing.starts_with("docs/a.md:6: "))
        );
        assert!(last.starts_with("docs/more/b.md:1: names Link(\"../more.md\")"));
    }

    #[test]
    fn undocumented_errors_are_reported() {
        let errors = SourceFile::new(
            "error.rs",
            r#"with(-1, text, "one_of_two"); f("two_of_two", "Other")"#,
        );
        let readme = SourceFile::new("README.md", "| -1 | `one_of_two` | it means |");
        let wrong = undocumented_errors(&errors, &readme);
        assert_eq!(
            wrong,
            ["error.rs: \"two_of_two\" is not in the table of errors of README.md"]
        );
    }
}
