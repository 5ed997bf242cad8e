//! Rules about the source tree that no compiler knows.

mod documents;
mod imports;
mod rules;
mod tokens;
mod tree;
mod words;

use tree::{rust_files, tracked_files};

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
    let modules = imports::modules("src", &rust_files("src"));
    assert!(modules.len() > 10, "the source was not found: {modules:?}");
    check(&rules::order(&modules));
}

#[test]
fn folders_do_not_import_each_other_in_a_circle() {
    check(&rules::acyclic(&imports::modules(
        "src",
        &rust_files("src"),
    )));
}

#[test]
fn every_file_is_compiled() {
    check(&rules::declared(&imports::modules(
        "src",
        &rust_files("src"),
    )));
}

#[test]
fn comments_use_the_fields_terms() {
    check(&words::words(&rust_files("src")));
}

#[test]
fn no_file_tells_of_the_machine_it_was_written_on() {
    let files = tracked_files();
    assert!(files.len() > 10, "the tree was not found");
    check(&rules::machine(&files));
}

#[test]
fn documents_name_only_what_is_there() {
    check(&documents::missing(&tracked_files()));
}

#[test]
fn every_error_is_documented() {
    let files = tracked_files();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let (errors, document) = (file("src/server/error.rs"), file("docs/integration.md"));
    check(&documents::undocumented_errors(errors, document));
}
