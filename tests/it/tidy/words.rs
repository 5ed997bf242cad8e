//! Rules about words: comments use terms that a reader can search for.

use super::tree::SourceFile;

/// Words of a private vocabulary, with the term to use.
const WORDS: [(&str, &str); 9] = [
    ("mend", "recover, retry or repair"),
    ("mends", "recovers, retries or repairs"),
    ("mended", "recovered, retried or repaired"),
    ("whoever", "the one who, the caller, the client ..."),
    ("is none", "is not one, does not exist"),
    ("any more", "no longer"),
    ("take back", "withdraw, undo"),
    ("takes back", "withdraws, undoes"),
    ("stands for", "is, means"),
];

/// Where the comments are in plain English already. A folder that is cleaned up comes here.
const FOLDERS: [&str; 11] = [
    "src/cli/",
    "src/history/",
    "src/index/",
    "src/replay/",
    "src/record/",
    "src/json/",
    "src/transport/",
    "src/sys/",
    "src/engine/demo/",
    "src/engine/proxy/",
    "src/engine/process/",
];

/// Comments with a word that is not the field's.
pub(crate) fn words(files: &[SourceFile]) -> Vec<String> {
    let cleaned = |file: &&SourceFile| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let mut wrong = Vec::new();
    for file in files.iter().filter(cleaned) {
        for (number, line) in file.text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            for (word, term) in WORDS {
                if has_word(&comment.to_lowercase(), word) {
                    let (path, number) = (&file.path, number + 1);
                    wrong.push(format!(
                        "{path}:{number}: `{word}` in a comment: say {term}"
                    ));
                }
            }
        }
    }
    wrong
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_word_is_found_in_comments_only() {
        for (line, count) in [
            ("/// Mends the log.", 1),
            ("let x = 1; // whoever reads it", 1),
            ("/// Recommends and amends.", 0),
            ("fn mend() {}", 0),
        ] {
            let file = SourceFile::new("src/sys/a.rs", line);
            assert_eq!(words(&[file]).len(), count, "{line}");
        }
    }
}
