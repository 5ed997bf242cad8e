//! Rules about the source tree that no compiler knows.

mod documents;
mod imports;
mod protocol;
mod rules;
pub(crate) mod tree;
mod words;

use std::sync::LazyLock;

use imports::Module;
use tree::{rust_files, tracked_files};

static MODULES: LazyLock<Vec<Module>> =
    LazyLock::new(|| imports::modules("src", &rust_files("src")));

#[track_caller]
fn check(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests/it", "benches"] {
        check(&rules::purpose(&rust_files(folder)));
    }
}

#[test]
fn no_file_is_too_long() {
    check(&rules::size(&rust_files("src")));
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
    let comments = words::in_comments(&rust_files("src"));
    let messages = words::in_messages(&MODULES);
    let documents = words::in_documents(&tracked_files());
    check(&[comments, messages, documents].concat());
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
    let (errors, document) = (file("src/server/error.rs"), file("docs/integration.md"));
    check(&documents::undocumented_errors(errors, document));
}

#[test]
fn the_document_tells_what_becomes_of_each_method_and_update() {
    let files = tracked_files();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let mut names = protocol::methods();
    for source in ["src/protocol/method.rs", "src/protocol/update.rs"] {
        names.extend(protocol::constants(file(source)));
    }
    let document = file("docs/wrapping.md");
    check(&protocol::untold(document, &names, &files));
}
