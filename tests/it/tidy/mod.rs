//! Rules about the source tree that no compiler knows.

mod documents;
mod imports;
mod measures;
mod protocol;
mod rules;
pub(crate) mod tree;
mod words;

use std::sync::LazyLock;

use imports::Module;
use measures::Measures;
use rejoin::protocol::UpdateKind;
use tree::{SourceFile, rust_files, tracked_files};

/// The source folders of both packages, from the top of the program to the bottom.
const SOURCES: [&str; 2] = ["src", "crates/rejoin-core/src"];

static MODULES: LazyLock<Vec<Module>> = LazyLock::new(|| {
    let modules = SOURCES.map(|root| imports::modules(root, &rust_files(root)));
    modules.into_iter().flatten().collect()
});

/// The files of both packages.
fn sources() -> Vec<SourceFile> {
    SOURCES.into_iter().flat_map(rust_files).collect()
}

#[track_caller]
fn check(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in [SOURCES[0], SOURCES[1], "tests/it", "benches"] {
        check(&rules::purpose(&rust_files(folder)));
    }
}

#[test]
fn imports_go_downwards() {
    assert!(MODULES.len() > 10, "the source was not found: {MODULES:?}");
    check(&rules::order(&MODULES));
}

#[test]
fn only_the_server_knows_the_clients_version() {
    check(&rules::versionless(&MODULES));
}

#[test]
fn folders_have_no_import_cycles() {
    check(&rules::acyclic(&MODULES));
}

#[test]
fn every_file_is_compiled() {
    check(&rules::declared(&MODULES));
}

#[test]
fn prose_uses_the_fields_terms() {
    let comments = words::in_comments(&sources());
    let messages = words::in_messages(&MODULES);
    let documents = words::in_documents(&tracked_files());
    check(&[comments, messages, documents].concat());
}

#[test]
fn no_macro_prints() {
    check(&rules::silent(&sources()));
}

#[test]
fn processes_are_started_in_one_place() {
    check(&rules::starts(&sources()));
}

#[test]
fn the_network_is_reached_in_two_folders() {
    check(&rules::network(&sources()));
}

#[test]
fn every_promise_about_security_has_a_test() {
    let files = tracked_files();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let (promises, tests) = (file("SECURITY.md"), file("docs/guarantees.md"));
    check(&documents::untested(promises, tests));
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let files = tracked_files();
    assert!(files.len() > 10, "the tree was not found");
    check(&rules::machine(&files));
}

#[test]
fn documents_name_existing_files_only() {
    check(&documents::missing(&tracked_files()));
}

#[test]
fn every_error_is_documented() {
    let files = tracked_files();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let (errors, document) = (
        file("crates/rejoin-core/src/server/error.rs"),
        file("docs/integration.md"),
    );
    check(&documents::undocumented_errors(errors, document));
}

#[test]
fn the_document_tells_what_becomes_of_each_method_and_update() {
    let files = tracked_files();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let mut names = protocol::methods();
    names.extend(protocol::constants(file(
        "crates/rejoin-core/src/protocol/method.rs",
    )));
    names.extend(UpdateKind::all().map(|kind| kind.name().to_owned()));
    let document = file("docs/wrapping.md");
    check(&protocol::untold(document, &names, &files));
}

/// Measures may fall and must not rise: whoever makes one smaller lowers its number here.
#[test]
fn measures_do_not_rise() {
    let files = sources();
    let measures = Measures::of(&files, &MODULES);
    let ratchets = [
        (
            "type names that two or more files define",
            1,
            measures.shared_type_names(),
        ),
        (
            "types with methods in more than 3 files",
            5,
            measures.spread_types(3),
        ),
        (
            "types with more than 40 methods",
            3,
            measures.types_of_many_methods(40),
        ),
        (
            "types with more than 12 fields",
            14,
            measures.types_of_many_fields(12),
        ),
        (
            "small files that one file imports",
            22,
            measures.satellites(),
        ),
        (
            "circles of more than 3 files that import each other",
            7,
            measures.circles(3),
        ),
        ("comments that begin with a pronoun", 3, measures.pronouns()),
        (
            "files with too many lines of code",
            0,
            measures.long_files(),
        ),
    ];
    let mut wrong = Vec::new();
    println!(
        "{} lines of code in {} files, {} names of types",
        measures.lines(),
        measures.files(),
        measures.type_names()
    );
    for (name, most, found) in ratchets {
        println!("{name}: {}\n  {}", found.len(), found.join("\n  "));
        if found.len() > most {
            wrong.push(format!(
                "{name}: {} and no more than {most} before:\n  {}",
                found.len(),
                found.join("\n  ")
            ));
        }
    }
    check(&wrong);
}
