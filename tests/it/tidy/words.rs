//! Rules about words: comments, messages and documents use terms that a reader can search for.

use super::documents::{is_document, prose};
use super::imports::Module;
use super::tree::SourceFile;

/// Words of a private vocabulary, with the term to use.
const WORDS: [(&str, &str); 23] = [
    ("any more", "no longer"),
    ("as good as", "the exact relation"),
    ("has a say", "may decide"),
    ("is none", "is not one, does not exist"),
    ("lies", "is"),
    ("mend", "recover, retry or repair"),
    ("mended", "recovered, retried or repaired"),
    ("mends", "recovers, retries or repairs"),
    ("of old", "old, earlier"),
    ("once more", "again"),
    ("sees to it", "ensures"),
    ("stands", "is"),
    ("stands for", "is, means"),
    ("take back", "withdraw, undo"),
    ("taken back", "withdrawn, undone"),
    ("takes back", "withdraws, undoes"),
    ("telling", "notifying, reporting, sending"),
    ("tells", "notifies, reports, sends"),
    ("told", "notified, reported, sent"),
    ("untold", "not reported, not documented"),
    ("way back", "response, restore"),
    ("whoever", "the one who, the caller, the client ..."),
    ("without end", "unbounded, endless"),
];

/// Documents for readers of the project.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "README.md", "docs/"];

fn is_clean(path: &str) -> bool {
    path.starts_with("src/") || path.starts_with("crates/")
}

/// Comments with a word that is not the field's.
pub(crate) fn in_comments(files: &[SourceFile]) -> Vec<String> {
    let files = files.iter().filter(|file| is_clean(&file.path));
    let lines = files.flat_map(|file| {
        let lines = (1..).zip(file.text.lines());
        lines.filter_map(move |(number, line)| {
            let (_, comment) = line.split_once("//")?;
            Some((format!("{}:{number}", file.path), comment))
        })
    });
    lines
        .flat_map(|(place, text)| wrong(&place, text))
        .collect()
}

/// The same for messages: texts of more than one word.
pub(crate) fn in_messages(modules: &[Module]) -> Vec<String> {
    let modules = modules
        .iter()
        .filter(|module| is_clean(&module.file) && !module.test_only);
    let texts = modules.flat_map(|module| module.texts.iter().map(|text| (&module.file, text)));
    let texts = texts.filter(|(_, text)| text.contains(' '));
    texts.flat_map(|(file, text)| wrong(file, text)).collect()
}

/// The same for documents, outside of blocks of code.
pub(crate) fn in_documents(files: &[SourceFile]) -> Vec<String> {
    let documents = files.iter().filter(|file| {
        is_document(file) && DOCUMENTS.iter().any(|path| file.path.starts_with(path))
    });
    let lines = documents.flat_map(|file| {
        prose(&file.text).map(|(line, text)| (format!("{}:{line}", file.path), text))
    });
    lines
        .flat_map(|(place, text)| wrong(&place, text))
        .collect()
}

fn wrong(place: &str, text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let found = WORDS.iter().filter(|(word, _)| has_word(&lower, word));
    let found = found.map(|(word, term)| format!("{place}: `{word}` in {text:?}: say {term}"));
    found.collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::super::imports::modules;
    use super::*;

    #[test]
    fn private_words_are_found_in_prose_only() {
        for (line, comments, messages) in [
            ("/// Mends the log.\nfn f() {}", 1, 0),
            ("static X: u8 = 1; // whoever reads it", 1, 0),
            ("/// Recommends and amends.\nfn f() {}", 0, 0),
            ("fn mend() {}", 0, 0),
            ("static X: &str = \"mend\";", 0, 0),
            ("fn f() { warn!(log = %mend, \"mend {mend}\") }", 0, 1),
            ("#[error(\"the client is told\")] struct E;", 0, 1),
            (
                "#[cfg(test)] mod tests { static X: &str = \"told so\"; }",
                0,
                0,
            ),
        ] {
            let file = [SourceFile::new("src/sys/a.rs", line)];
            assert_eq!(in_comments(&file).len(), comments, "{line}");
            assert_eq!(
                in_messages(&modules("src", &file)).len(),
                messages,
                "{line}"
            );
        }
        let document = SourceFile::new("docs/a.md", "It mends.\n```text\nmend\n```\n");
        assert_eq!(in_documents(&[document]).len(), 1);
    }
}
