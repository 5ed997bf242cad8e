//! Which file imports which, read from the paths in the source.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens, without_tests};
use super::tree::SourceFile;

/// A module's place in the crate: `["store", "lock"]`; the crate itself is empty.
pub(crate) type ModulePath = Vec<String>;

/// One module file, taken apart.
#[derive(Debug)]
pub(crate) struct Module {
    /// The file's path.
    pub(crate) file: String,
    /// Its place in the crate.
    pub(crate) at: ModulePath,
    /// Whether only tests are compiled with it.
    pub(crate) test_only: bool,
    /// The children it declares with `mod name;`.
    pub(crate) children: BTreeSet<String>,
    /// The places of those that it declares for its tests, perhaps with a `#[path]`.
    pub(crate) test_children: BTreeSet<ModulePath>,
    /// Absolute paths that it names, those of re-exports only if it uses the name itself too.
    pub(crate) uses: BTreeSet<ModulePath>,
    /// Names it passes on, with the absolute path of each.
    reexports: BTreeMap<String, ModulePath>,
}

/// The modules of the library below `root` (such as `src`), whose crate file is `root/lib.rs`.
pub(crate) fn modules(root: &str, files: &[SourceFile]) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut test_roots = Vec::new();
    for file in files {
        let Some(at) = module_path(root, &file.path) else {
            continue;
        };
        let all = tokens(&file.text);
        let (kept, test_modules) = without_tests(&all);
        let mut test_children = BTreeSet::new();
        for module in test_modules {
            let beside = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let named = module.file.map(|name| format!("{beside}/{name}"));
            let named = named.and_then(|path| module_path(root, &path));
            let path = named.unwrap_or_else(|| {
                let mut path = at.clone();
                path.push(module.name);
                path
            });
            test_roots.push(path.clone());
            test_children.insert(path);
        }
        let mut found = Paths {
            module: Module {
                file: file.path.clone(),
                at,
                test_only: false,
                children: declared(&kept),
                test_children,
                uses: BTreeSet::new(),
                reexports: BTreeMap::new(),
            },
        };
        found.read(&kept);
        modules.push(found.module);
    }
    for module in &mut modules {
        module.test_only = test_roots.iter().any(|root| module.at.starts_with(root));
    }
    modules
}

/// The file that each module's imports lead to, without files that only tests have.
pub(crate) fn graph(modules: &[Module]) -> BTreeMap<&str, BTreeSet<&str>> {
    let by_path: BTreeMap<&[String], &Module> = modules
        .iter()
        .filter(|module| !module.test_only)
        .map(|module| (module.at.as_slice(), module))
        .collect();
    let mut graph = BTreeMap::new();
    for module in by_path.values() {
        let targets = module
            .uses
            .iter()
            .filter_map(|path| resolve(&by_path, path));
        let targets = targets.filter(|file| *file != module.file).collect();
        graph.insert(module.file.as_str(), targets);
    }
    graph
}

/// The same between folders that lie in one folder. Files of one folder are one module, and may
/// import each other as they like, as Rust itself sees it.
pub(crate) fn folders<'a>(
    files: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, targets) in files {
        for target in targets {
            if let Some((from, to)) = neighbours(file, target) {
                graph.entry(from).or_default().insert(to);
            }
        }
    }
    graph
}

/// The folders in which two files lie, below the last folder that has both; nothing if one of them
/// lies directly in that.
fn neighbours<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let shared = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let start = a[..shared].rfind('/').map_or(0, |at| at + 1);
    let folder = |path: &'a str| Some(&path[..start + path[start..].find('/')?]);
    Some((folder(a)?, folder(b)?))
}

/// Ways from a file or folder back to itself, one for each knot.
pub(crate) fn cycles(graph: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys() {
        let mut way = Vec::new();
        if let Some(round) = follow(graph, start, &mut way, &mut done) {
            // What else goes through these files is told once this way is gone.
            done.extend(way);
            found.push(round);
        }
    }
    found
}

fn follow<'a>(
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    node: &'a str,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<String>> {
    if let Some(begin) = way.iter().position(|seen| *seen == node) {
        let mut round: Vec<String> = way[begin..].iter().map(ToString::to_string).collect();
        round.push(node.to_owned());
        return Some(round);
    }
    if done.contains(node) {
        return None;
    }
    way.push(node);
    for next in graph.get(node).into_iter().flatten() {
        if let Some(found) = follow(graph, next, way, done) {
            return Some(found);
        }
    }
    way.pop();
    done.insert(node);
    None
}

fn module_path(root: &str, file: &str) -> Option<ModulePath> {
    let inner = file.strip_prefix(root)?.strip_prefix('/')?;
    let inner = inner.strip_suffix(".rs")?;
    let mut parts: ModulePath = inner.split('/').map(str::to_owned).collect();
    match parts.last()?.as_str() {
        // The binary is a crate of its own, above everything.
        "main" if parts.len() == 1 => return None,
        "lib" if parts.len() == 1 => parts.clear(),
        "mod" => parts.truncate(parts.len() - 1),
        _ => {}
    }
    Some(parts)
}

fn resolve<'a>(by_path: &BTreeMap<&[String], &'a Module>, path: &[String]) -> Option<&'a str> {
    let mut path = path.to_vec();
    // Re-exports of re-exports: more steps than this nobody writes, and a ring of them ends here.
    for _ in 0..8 {
        let len = (0..=path.len())
            .rev()
            .find(|len| by_path.contains_key(&path[..*len]))?;
        let module = by_path[&path[..len]];
        let next = path.get(len).and_then(|name| module.reexports.get(name));
        let Some(next) = next else {
            // The crate file is only a map: naming it imports nothing.
            return (!module.at.is_empty()).then_some(module.file.as_str());
        };
        path.clone_from(next);
    }
    None
}

fn declared(tokens: &[Token]) -> BTreeSet<String> {
    let modules = tokens.windows(3).filter_map(|window| match window {
        [keyword, Token::Word(name), Token::Mark(';')] if keyword.is_word("mod") => Some(name),
        _ => None,
    });
    modules.cloned().collect()
}

/// Collects the paths of one file.
struct Paths {
    module: Module,
}

impl Paths {
    fn read(&mut self, tokens: &[Token]) {
        let mut inner: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [keyword, Token::Word(name), Token::Mark('{'), ..] if keyword.is_word("mod") => {
                    inner.push((name.clone(), depth));
                    at += 2;
                }
                [Token::Mark('{'), ..] => {
                    depth += 1;
                    at += 1;
                }
                [Token::Mark('}'), ..] => {
                    depth -= 1;
                    if inner.last().is_some_and(|(_, opened)| *opened == depth) {
                        inner.pop();
                    }
                    at += 1;
                }
                [Token::Word(word), Token::Sep, ..] if !follows_path(tokens, at) => {
                    let scope: Vec<&str> = inner.iter().map(|(name, _)| name.as_str()).collect();
                    let Some(base) = self.base(word, &scope) else {
                        at += 1;
                        continue;
                    };
                    let public = is_public_use(&tokens[..at]);
                    let mut leaves = Vec::new();
                    at += 2 + branch(&tokens[at + 2..], base, &mut leaves);
                    for (name, path) in leaves {
                        self.found(tokens, name, path, public && inner.is_empty());
                    }
                }
                _ => at += 1,
            }
        }
    }

    fn found(&mut self, tokens: &[Token], name: String, path: ModulePath, public: bool) {
        let path = drop_supers(path);
        let used = tokens.iter().filter(|token| token.is_word(&name)).count() > 1;
        if !public || used {
            self.module.uses.insert(path.clone());
        }
        if public {
            self.module.reexports.insert(name, path);
        }
    }

    /// What the first word of a path stands for; none if it leaves the crate or is a type.
    fn base(&self, word: &str, scope: &[&str]) -> Option<ModulePath> {
        let mut here = self.module.at.clone();
        here.extend(scope.iter().map(ToString::to_string));
        match word {
            "crate" => Some(Vec::new()),
            "self" => Some(here),
            "super" => {
                here.pop();
                Some(here)
            }
            child if scope.is_empty() && self.module.children.contains(child) => {
                here.push(child.to_owned());
                Some(here)
            }
            _ => None,
        }
    }
}

fn follows_path(tokens: &[Token], at: usize) -> bool {
    at > 0 && tokens[at - 1] == Token::Sep
}

/// Whether the tokens end in `pub use` or `pub(…) use`.
fn is_public_use(before: &[Token]) -> bool {
    let [rest @ .., keyword] = before else {
        return false;
    };
    let public = |token: Option<&Token>| token.is_some_and(|token| token.is_word("pub"));
    keyword.is_word("use")
        && match rest {
            [.., Token::Mark(')')] => {
                let open = rest.iter().rposition(|token| *token == Token::Mark('('));
                open.is_some_and(|open| open > 0 && public(rest.get(open - 1)))
            }
            _ => public(rest.last()),
        }
}

/// Reads what follows `base::`: a name, a longer path or a list. Adds each end of it with the name
/// it gets here; returns how many tokens it took.
fn branch(tokens: &[Token], base: ModulePath, leaves: &mut Vec<(String, ModulePath)>) -> usize {
    match tokens {
        [Token::Mark('{'), rest @ ..] => {
            let mut at = 0;
            while at < rest.len() && rest[at] != Token::Mark('}') {
                let taken = branch(&rest[at..], base.clone(), leaves);
                at += taken.max(1);
            }
            at + 2
        }
        [Token::Word(word), rest @ ..] => {
            let mut path = base;
            if word != "self" {
                path.push(word.clone());
            }
            match rest {
                [Token::Sep, rest @ ..] => 2 + branch(rest, path, leaves),
                [keyword, Token::Word(alias), ..] if keyword.is_word("as") => {
                    leaves.push((alias.clone(), path));
                    3
                }
                _ => {
                    let name = path.last().cloned().unwrap_or_default();
                    leaves.push((name, path));
                    1
                }
            }
        }
        [Token::Mark('*'), ..] => {
            leaves.push(("*".to_owned(), base));
            1
        }
        // `,` in a list, or generics: the path ended before.
        _ => {
            if !matches!(tokens.first(), Some(Token::Mark(','))) {
                leaves.push((String::new(), base));
            }
            0
        }
    }
}

/// `["store", "super", "record"]` is `["record"]`.
fn drop_supers(path: ModulePath) -> ModulePath {
    let mut out = ModulePath::new();
    for part in path {
        if part == "super" {
            out.pop();
        } else {
            out.push(part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Vec<Module> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile::new(path, text))
            .collect();
        modules("src", &files)
    }

    fn uses(at: &str, text: &str) -> Vec<String> {
        let found = tree(&[(at, text)]);
        found[0].uses.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn every_way_to_write_a_path_is_read() {
        for (text, expected) in [
            ("use crate::record::Kind;", vec!["record::Kind"]),
            (
                "use crate::{sys::{self, Clock as C}, record::*};",
                vec!["record", "sys", "sys::Clock"],
            ),
            ("use super::index::Catalog;", vec!["store::index::Catalog"]),
            ("use super::super::wire;", vec!["wire"]),
            ("fn f() { crate::wire::send(&x) }", vec!["wire::send"]),
            (
                "impl crate::engine::Engine for X {}",
                vec!["engine::Engine"],
            ),
            ("mod deep; use deep::X;", vec!["store::lock::deep::X"]),
            (
                "mod deep; fn f() { self::deep::g() }",
                vec!["store::lock::deep::g"],
            ),
            ("mod inner { use super::super::x::Y; }", vec!["store::x::Y"]),
            ("pub(crate) fn f() {} use std::fs; // crate::wire", vec![]),
            ("#[cfg(test)] mod tests { use crate::cli::run; }", vec![]),
            ("fn f() { let s = \"crate::cli::run\"; }", vec![]),
        ] {
            assert_eq!(uses("src/store/lock.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn a_name_passed_on_leads_to_the_file_that_has_it() {
        let found = tree(&[
            ("src/lib.rs", "pub mod sys;"),
            (
                "src/sys/mod.rs",
                "mod clock; mod disk; pub use clock::{Clock as Time, Zone};",
            ),
            ("src/sys/clock.rs", ""),
            ("src/sys/disk.rs", "use super::Time;"),
        ]);
        let graph = graph(&found);
        assert_eq!(
            graph["src/sys/disk.rs"],
            BTreeSet::from(["src/sys/clock.rs"])
        );
        assert!(graph["src/sys/mod.rs"].is_empty());
        assert!(cycles(&graph).is_empty());
    }

    #[test]
    fn a_cycle_is_found_and_told() {
        let found = tree(&[
            (
                "src/store/mod.rs",
                "mod a; mod b; mod c; pub use a::A; fn f(_: A) {}",
            ),
            ("src/store/a.rs", "use super::b::B;"),
            ("src/store/b.rs", "use crate::store::c::C;"),
            ("src/store/c.rs", "use super::A;"),
        ]);
        let round = [
            "src/store/a.rs",
            "src/store/b.rs",
            "src/store/c.rs",
            "src/store/a.rs",
        ];
        assert_eq!(cycles(&graph(&found)), [round.map(str::to_owned)]);
    }

    #[test]
    fn a_parent_that_uses_what_it_passes_on_depends_on_it() {
        let found = tree(&[
            (
                "src/engine/mod.rs",
                "mod outlet; pub use outlet::Outlet; fn f(_: Outlet) {} pub struct E;",
            ),
            ("src/engine/outlet.rs", "use super::E;"),
        ]);
        assert_eq!(cycles(&graph(&found)).len(), 1);
    }

    #[test]
    fn files_only_tests_have_may_import_anything() {
        let found = tree(&[
            (
                "src/store/mod.rs",
                "mod lock; #[cfg(test)] mod tests; pub struct S;",
            ),
            (
                "src/store/lock.rs",
                "#[cfg(test)] #[path = \"lock_tests.rs\"] mod tests;",
            ),
            ("src/store/lock_tests.rs", "use crate::cli::run;"),
            ("src/store/tests.rs", "use super::S; use crate::cli::run;"),
        ]);
        let files: Vec<_> = graph(&found).into_keys().collect();
        assert_eq!(files, ["src/store/lock.rs", "src/store/mod.rs"]);
    }
}
