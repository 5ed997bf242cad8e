//! The table in the documents of what becomes of each method and update of the protocol.

use std::collections::BTreeMap;

use agent_client_protocol_schema::{v1, v2};

use super::tree::SourceFile;

/// The heading of the part with the table.
const HEADING: &str = "## Each method and update";

/// A row: the names that it is about, and the conversations that show it.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    names: Vec<&'a str>,
    tests: Vec<String>,
}

/// The methods that the schema crate knows, of both versions.
pub(crate) fn methods() -> Vec<String> {
    let all = [
        format!("{:?}", v1::AGENT_METHOD_NAMES),
        format!("{:?}", v1::CLIENT_METHOD_NAMES),
        format!("{:?}", v2::AGENT_METHOD_NAMES),
        format!("{:?}", v2::CLIENT_METHOD_NAMES),
    ];
    let names = all
        .iter()
        .flat_map(|text| text.split('"').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

/// The text constants of a source file that look like names of the protocol.
pub(crate) fn constants(source: &SourceFile) -> Vec<String> {
    let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    let literals = code.lines().filter_map(|line| {
        let line = line.trim();
        let is_name = line.starts_with("pub const ");
        line.split('"').nth(1).filter(|_| is_name)
    });
    literals.map(str::to_owned).collect()
}

/// What is wrong with the table of `document`: a name without a row, or a row whose conversation does
/// not have the name in it.
pub(crate) fn untold(document: &SourceFile, names: &[String], files: &[SourceFile]) -> Vec<String> {
    let rows = rows(&document.text);
    let texts: BTreeMap<&str, &str> = files.iter().map(|f| (&*f.path, &*f.text)).collect();
    let path = &document.path;
    let has_row = |name: &str| rows.iter().any(|row| row.names.contains(&name));
    let missing = names.iter().filter(|name| !has_row(name));
    let mut wrong: Vec<_> = missing
        .map(|name| format!("{path}: `{name}` has no row in the table of methods and updates"))
        .collect();
    for row in &rows {
        let shown = |name: &&str| {
            let mut tests = row.tests.iter().filter_map(|test| texts.get(&**test));
            tests.any(|text| text.contains(*name))
        };
        let unshown = row.names.iter().filter(|name| !shown(name));
        wrong.extend(unshown.map(|name| format!("{path}: no test in the row of `{name}` has it")));
    }
    wrong
}

/// The rows of the tables below the heading, up to the next one.
fn rows(document: &str) -> Vec<Row<'_>> {
    let (_, part) = document.split_once(HEADING).unwrap_or_default();
    let part = part.split("\n## ").next().unwrap_or_default();
    let cells = |line: &'_ str| line.trim_matches('|').split(" | ").map(str::trim).count();
    let lines = part.lines().filter(|line| line.starts_with("| `"));
    lines
        .filter(|line| cells(line) == 3)
        .map(|line| {
            let mut cells = line.trim_matches('|').split(" | ");
            let (names, tests) = (cells.next().unwrap_or_default(), cells.nth(1));
            let tests = tests.unwrap_or_default();
            let named = tests.split('*').skip(1).step_by(2);
            let named = named.map(|name| format!("fixtures/wrap/{name}.acp"));
            let sources = tests.split('`').skip(1).step_by(2).map(str::to_owned);
            Row {
                names: names.split('`').skip(1).step_by(2).collect(),
                tests: named.chain(sources).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_row_or_a_test_are_reported() {
        let text = format!(
            "| `x/y` | a | *b/c* |\n{HEADING}\n| method | what | test |\n|---|---|---|\n\
             | `a/b`, `a/c` | passed | *load/twice* |\n| `d` | passed | `src/d.rs` |\n\n## More\n\
             | `e` | a | *b/c* |\n"
        );
        let document = SourceFile::new("docs/a.md", &text);
        let files = [
            SourceFile::new("fixtures/wrap/load/twice.acp", "a/b"),
            SourceFile::new("src/d.rs", "d"),
        ];
        let names = ["a/b", "a/c", "d", "e"].map(str::to_owned);
        assert_eq!(
            untold(&document, &names, &files),
            [
                "docs/a.md: `e` has no row in the table of methods and updates",
                "docs/a.md: no test in the row of `a/c` has it",
            ]
        );
    }

    #[test]
    fn constants_are_read() {
        let source = SourceFile::new(
            "a.rs",
            "/// \"no\"\npub const A: &str = \"a/b\";\n    x(\"no\")\n",
        );
        assert_eq!(constants(&source), ["a/b"]);
        assert!(methods().iter().any(|name| name == "session/prompt"));
    }
}
