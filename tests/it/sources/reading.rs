//! What each source makes of files of its tool: the records, one on a line, in
//! `fixtures/sources/NAME.txt`. `UPDATE_FIXTURES=1` writes them anew.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fmt::Write;
use std::path::Path;

use rejoin::sources::SOURCES;

use super::{home, read_all};
use crate::support::env::update_fixtures;
use crate::support::systems::can_run;

#[test]
fn each_source_reads_every_kind_of_record_of_its_tool() {
    if !can_run("each_source_reads_every_kind_of_record_of_its_tool") {
        return;
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sources");
    let home = home();
    for source in &SOURCES {
        let mut text = String::new();
        for (found, conversation) in read_all(source, home.path()) {
            let name = found.path.file_name().unwrap().to_string_lossy();
            if conversation.entries.is_empty() {
                writeln!(text, "{name}: no conversation of its own\n").unwrap();
                continue;
            }
            let cwd = conversation.cwd.as_deref().unwrap_or("-");
            writeln!(
                text,
                "{name}: {} in {cwd}, {} unknown, {} damaged",
                conversation.id,
                conversation.unknown.total(),
                conversation.damage.len()
            )
            .unwrap();
            for entry in &conversation.entries {
                let id = entry.id.as_deref().unwrap_or("-");
                let (at, kind) = (entry.at, entry.kind.as_str());
                writeln!(text, "{at} {kind} {id} {}", entry.payload).unwrap();
            }
            text.push('\n');
        }
        let path = fixtures.join(format!("{}.txt", source.name));
        if update_fixtures() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        for (line, (is, expected)) in text.lines().zip(expected.lines()).enumerate() {
            assert_eq!(is, expected, "line {} of {}", line + 1, path.display());
        }
        assert_eq!(
            text.lines().count(),
            expected.lines().count(),
            "{}",
            path.display()
        );
    }
}
