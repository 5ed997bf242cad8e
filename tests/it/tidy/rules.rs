//! The rules themselves: each takes files and returns what is wrong with them.

use super::imports::{Module, cycles, folders, graph};
use super::tree::SourceFile;

/// The folders of both packages, from the top of the program to the bottom.
pub(crate) const ORDER: [&str; 20] = [
    "cli",
    "mcp",
    "server",
    "session",
    "engine",
    "export",
    "replay",
    "briefing",
    "history",
    "sources",
    "index",
    "store",
    "conversation",
    "record",
    "transport",
    "protocol",
    "redact",
    "json",
    "text",
    "sys",
];

/// Each file begins with a sentence that says what it is for.
pub(crate) fn purpose(files: &[SourceFile]) -> Vec<String> {
    let wrong = |file: &&SourceFile| {
        let paragraph = file
            .text
            .lines()
            .map_while(|line| line.strip_prefix("//! "));
        let text: Vec<&str> = paragraph.collect();
        let text = text.join(" ");
        !text.starts_with(char::is_alphanumeric) && !text.starts_with('`') || !text.ends_with('.')
    };
    let wrong = files.iter().filter(wrong);
    wrong
        .map(|file| {
            format!(
                "{}: begin it with `//! ` and one sentence, ending in a full stop, that says what \
                 the file is for",
                file.path
            )
        })
        .collect()
}

/// A folder imports only from those below it.
pub(crate) fn order(modules: &[Module]) -> Vec<String> {
    let rank = |name: &String| ORDER.iter().position(|folder| folder == name);
    let mut wrong = Vec::new();
    for module in modules.iter().filter(|module| !module.test_only) {
        let Some(own) = module.at.first() else {
            continue;
        };
        let Some(own_rank) = rank(own) else {
            wrong.push(format!(
                "{}: `{own}` has no place in the order of folders; give it one in {}",
                module.file,
                file!()
            ));
            continue;
        };
        for path in &module.uses {
            let above = path
                .first()
                .filter(|name| rank(name).is_some_and(|r| r < own_rank));
            if let Some(above) = above {
                wrong.push(format!(
                    "{}: imports `crate::{}`, but `{above}` stands above `{own}` (the order is \
                     {}); move what it needs down, or pass it in",
                    module.file,
                    path.join("::"),
                    ORDER.join(" > ")
                ));
            }
        }
    }
    wrong
}

/// Only `server` knows which version of the protocol a client speaks; `protocol` defines them.
pub(crate) fn versionless(modules: &[Module]) -> Vec<String> {
    let knows = |module: &&Module| {
        let folder = module.at.first().map(String::as_str);
        let mut uses = module.uses.iter();
        !matches!(folder, None | Some("server" | "protocol"))
            && uses
                .any(|path| path.starts_with(&["protocol", "ProtocolVersion"].map(str::to_owned)))
    };
    let knowing = modules.iter().filter(|module| !module.test_only);
    knowing
        .filter(knows)
        .map(|module| {
            format!(
                "{}: names `ProtocolVersion`; let `ClientView` convert, or make it a property of \
                 the request",
                module.file
            )
        })
        .collect()
}

/// No folder depends on itself by way of folders beside it.
pub(crate) fn acyclic(modules: &[Module]) -> Vec<String> {
    let rounds = cycles(&folders(&graph(modules)));
    let found = rounds.iter().map(|round| {
        format!(
            "folders import each other in a circle: {}; move what both need to a folder of its own",
            round.join(" -> ")
        )
    });
    found.collect()
}

/// Every file is part of the crate.
pub(crate) fn declared(modules: &[Module]) -> Vec<String> {
    let forgotten = |module: &&Module| {
        let Some((name, parent)) = module.at.split_last() else {
            return false;
        };
        !modules.iter().any(|other| {
            let child = other.at == parent && other.children.contains(name);
            child || other.test_children.contains(&module.at)
        })
    };
    let forgotten = modules.iter().filter(forgotten);
    forgotten
        .map(|module| {
            format!(
                "{}: no `mod` declares it, so it is never compiled; declare it or delete it",
                module.file
            )
        })
        .collect()
}

/// Nothing prints past `cli/output.rs` and `cli/logging.rs`: macros that print panic if they cannot.
pub(crate) fn silent(files: &[SourceFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        // A lint that is expected is a macro that prints.
        if file.text.contains("clippy::print_std") {
            wrong.push(format!(
                "{}: print through `StandardError` or `Output`, which do not panic",
                file.path
            ));
        }
    }
    wrong
}

/// Processes are started in one place, which gives them the limit of descriptors that rejoin had.
pub(crate) fn starts(files: &[SourceFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let code = file.text.split("#[cfg(all(test").next().unwrap_or_default();
        if file.path != "crates/rejoin-core/src/sys/descriptors.rs" && code.contains(".spawn()") {
            wrong.push(format!(
                "{}: start processes by `sys::descriptors::spawn`",
                file.path
            ));
        }
    }
    wrong
}

/// Where the network is reached, by names that only code for that has: MCP servers that a client names,
/// and the database of a store. Nobody listens.
const NETWORK: [(&str, &[&str]); 5] = [
    ("reqwest::", &["crates/rejoin-core/src/engine/demo/mcp/"]),
    (
        "tokio_postgres::",
        &["crates/rejoin-core/src/store/postgres/"],
    ),
    (
        "TcpStream",
        &["crates/rejoin-core/src/store/postgres/connect.rs"],
    ),
    ("TcpListener", &[]),
    ("UdpSocket", &[]),
];

/// The network is reached in two folders.
pub(crate) fn network(files: &[SourceFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (name, folders) in NETWORK {
            let may = folders.iter().any(|folder| file.path.starts_with(folder));
            if !may && code.contains(name) {
                let path = &file.path;
                wrong.push(format!("{path}: `{name}` reaches the network"));
            }
        }
    }
    wrong
}

/// Nothing names the machine it was written on.
pub(crate) fn machine(files: &[SourceFile]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        // A lock file names its registry by design.
        if file.path == "Cargo.lock" {
            continue;
        }
        for (line, text) in file.text.lines().enumerate() {
            if let Some(found) = place(text) {
                wrong.push(format!(
                    "{}:{}: `{found}` belongs to one machine or one registry; say it without",
                    file.path,
                    line + 1
                ));
            }
        }
    }
    wrong
}

/// The first machine path or registry host of a line. The words are spelt in halves, or this file
/// would break its own rule.
fn place(line: &str) -> Option<&'static str> {
    const PATHS: [&str; 3] = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/tm", "p/"),
    ];
    const HOSTS: [&str; 6] = [
        concat!("registry.np", "mjs"),
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("index.cra", "tes.io"),
        concat!("static.cra", "tes.io"),
        concat!("deb.deb", "ian.org"),
    ];
    let path = PATHS.into_iter().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            // `a/tmp/b` is any folder; only one at the root is the machine's.
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-}*)$>".contains(c))
        })
    });
    path.or_else(|| HOSTS.into_iter().find(|host| line.contains(host)))
}

#[cfg(test)]
mod tests {
    use super::super::imports::modules;
    use super::*;

    fn source(files: &[(&str, &str)]) -> Vec<SourceFile> {
        let files = files.iter();
        files
            .map(|(path, text)| SourceFile::new(path, text))
            .collect()
    }

    #[test]
    fn file_without_a_sentence() {
        for (text, right) in [
            ("//! Reads a file.\n", true),
            ("//! The `rejoin`\n//! command.\n\nuse x;", true),
            (
                "//! Reads a file.\n//!\n//! ```text\n//! a\n//! ```\n",
                true,
            ),
            ("//! Reads a file\n", false),
            ("//!\n//! Reads a file.\n", false),
            ("//! # Files.\n", false),
            ("// Reads a file.\n", false),
            ("\n//! Reads a file.\n", false),
            ("/// Reads a file.\nfn f() {}", false),
            ("", false),
        ] {
            let found = purpose(&source(&[("src/a.rs", text)]));
            assert_eq!(found.is_empty(), right, "{text:?}: {found:?}");
        }
    }

    #[test]
    fn import_upwards() {
        for (file, text, right) in [
            ("src/store/a.rs", "use crate::record::Kind;", true),
            ("src/store/a.rs", "use crate::store::b::B;", true),
            ("src/store/a.rs", "use crate::index::Catalog;", false),
            (
                "src/store/mod.rs",
                "use crate::{sys, session::Handle};",
                false,
            ),
            (
                "src/store/a.rs",
                "fn f() -> super::super::cli::Exit { x }",
                false,
            ),
            (
                "src/store/a.rs",
                "#[cfg(test)] mod tests { use crate::cli::x; }",
                true,
            ),
            ("src/store/a.rs", "/// See [`crate::cli`].\nfn f() {}", true),
            ("src/main.rs", "mod cli; use crate::cli::run;", true),
            (
                "src/lib.rs",
                "pub mod sys; pub use crate::sys::Clock;",
                true,
            ),
            ("src/cli/a.rs", "use rejoin::store::Store;", true),
            ("src/store/a.rs", "use rejoin::index::Catalog;", false),
            ("src/util/a.rs", "", false),
        ] {
            let found = order(&modules("src", &source(&[(file, text)])));
            assert_eq!(found.is_empty(), right, "{file}: {text}: {found:?}");
        }
    }

    #[test]
    fn version_below_the_server() {
        for (file, text, right) in [
            (
                "src/session/a.rs",
                "use crate::protocol::ProtocolVersion;",
                false,
            ),
            (
                "src/engine/a.rs",
                "use crate::protocol::{Ids, ProtocolVersion as V};",
                false,
            ),
            ("src/session/a.rs", "use crate::protocol::ClientView;", true),
            (
                "src/server/a.rs",
                "use crate::protocol::ProtocolVersion;",
                true,
            ),
        ] {
            let found = versionless(&modules("src", &source(&[(file, text)])));
            assert_eq!(found.is_empty(), right, "{file}: {text}: {found:?}");
        }
    }

    #[test]
    fn import_cycle() {
        let files = source(&[
            ("src/sys/mod.rs", "mod a; mod b; mod c;"),
            ("src/sys/a/mod.rs", "mod x;"),
            ("src/sys/a/x.rs", "use crate::sys::b;"),
            ("src/sys/b/mod.rs", "mod y; use crate::sys::c;"),
            ("src/sys/c.rs", "use super::b;"),
            ("src/sys/b/y.rs", "use crate::sys::a;"),
        ]);
        let found = acyclic(&modules("src", &files));
        assert!(
            found[0].contains("src/sys/a -> src/sys/b -> src/sys/a"),
            "{found:?}"
        );
        // A file beside the folders belongs to the folder around them.
        assert!(acyclic(&modules("src", &files[..5])).is_empty());
    }

    #[test]
    fn undeclared_file() {
        let files = source(&[
            ("src/lib.rs", "pub mod sys;"),
            ("src/sys/mod.rs", "mod a; #[cfg(test)] mod fakes; mod c {}"),
            (
                "src/sys/a.rs",
                "#[cfg(test)] #[path = \"a_tests.rs\"] mod tests;",
            ),
            ("src/sys/b.rs", ""),
            ("src/sys/c.rs", ""),
            ("src/sys/fakes.rs", ""),
            ("src/sys/a_tests.rs", ""),
        ]);
        let found = declared(&modules("src", &files));
        let names: Vec<_> = found
            .iter()
            .filter_map(|text| text.split(':').next())
            .collect();
        assert_eq!(names, ["src/sys/b.rs", "src/sys/c.rs"]);
    }

    #[test]
    fn path_of_a_machine() {
        for (text, right) in [
            (concat!("see /ro", "ot/.cargo"), false),
            (concat!("\"/tm", "p/x\""), false),
            (concat!("cwd: /wo", "rk/main"), false),
            (concat!("https://registry.np", "mjs.example/x"), false),
            (concat!("${dir}/tm", "p/x and target/tm", "p/x"), true),
            (concat!("${TMPDIR:-/tm", "p}"), true),
            ("/home/me/project", true),
        ] {
            let found = machine(&source(&[("docs/a.md", text)]));
            assert_eq!(found.is_empty(), right, "{text}: {found:?}");
            assert!(machine(&source(&[("Cargo.lock", text)])).is_empty());
        }
    }
}
