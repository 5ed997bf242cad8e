//! Which file imports which, and what its messages say, read from the syntax of the source.
//!
//! What is only compiled for tests is left out: tests may import what they like.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ImplItem, Item, ItemMod, ItemUse, Lit, LitStr, Macro, Meta, Path, UseTree,
    VisRestricted, Visibility,
};

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
    /// Its string literals.
    pub(crate) texts: Vec<String>,
    /// Names that it re-exports, with the absolute path of each.
    reexports: BTreeMap<String, ModulePath>,
}

/// The modules of the crate below `root` (such as `src`), whose crate file is `root/main.rs` or `root/lib.rs`.
pub(crate) fn modules(root: &str, files: &[SourceFile]) -> Vec<Module> {
    let mut modules: Vec<Module> = files
        .iter()
        .filter_map(|file| Some(read(root, file, module_path(root, &file.path)?)))
        .collect();
    let test_roots: Vec<ModulePath> = modules
        .iter()
        .flat_map(|module| module.test_children.iter().cloned())
        .collect();
    for module in &mut modules {
        module.test_only = test_roots.iter().any(|root| module.at.starts_with(root));
    }
    modules
}

fn read(root: &str, file: &SourceFile, at: ModulePath) -> Module {
    let syntax = syn::parse_file(&file.text);
    let syntax = syntax.unwrap_or_else(|error| panic!("{}: {error}", file.path));
    let mut reader = Reader {
        at: at.clone(),
        children: BTreeSet::new(),
        scope: Vec::new(),
        uses: BTreeSet::new(),
        reexports: Vec::new(),
        words: BTreeSet::new(),
        texts: Vec::new(),
    };
    let mut test_children = BTreeSet::new();
    for item in &syntax.items {
        let Item::Mod(module) = item else { continue };
        if module.content.is_some() {
            continue;
        }
        let name = module.ident.to_string();
        if is_for_tests(&module.attrs) {
            let beside = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let named = path_attribute(&module.attrs);
            let named = named.and_then(|name| module_path(root, &format!("{beside}/{name}")));
            test_children.insert(named.unwrap_or_else(|| [&at[..], &[name]].concat()));
        } else {
            reader.children.insert(name);
        }
    }
    reader.visit_file(&syntax);
    let mut reexports = BTreeMap::new();
    for (name, path) in reader.reexports {
        if reader.words.contains(&name) {
            reader.uses.insert(path.clone());
        }
        reexports.insert(name, path);
    }
    Module {
        file: file.path.clone(),
        at,
        test_only: false,
        children: reader.children,
        test_children,
        uses: reader.uses,
        texts: reader.texts,
        reexports,
    }
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
/// is directly in that.
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
            // Other ways through these files are reported once this one is gone.
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
        "main" | "lib" if parts.len() == 1 => parts.clear(),
        "mod" => parts.truncate(parts.len() - 1),
        _ => {}
    }
    Some(parts)
}

fn resolve<'a>(by_path: &BTreeMap<&[String], &'a Module>, path: &[String]) -> Option<&'a str> {
    let mut path = path.to_vec();
    // Re-exports of re-exports: the bound ends a ring of them.
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

/// Collects the paths and texts of one file.
struct Reader {
    at: ModulePath,
    children: BTreeSet<String>,
    /// The inline modules around the item that is read.
    scope: ModulePath,
    uses: BTreeSet<ModulePath>,
    reexports: Vec<(String, ModulePath)>,
    /// Names in the code, other than in imports.
    words: BTreeSet<String>,
    texts: Vec<String>,
}

impl Visit<'_> for Reader {
    fn visit_item(&mut self, item: &Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        let for_tests = match item {
            ImplItem::Fn(item) => is_for_tests(&item.attrs),
            ImplItem::Const(item) => is_for_tests(&item.attrs),
            _ => false,
        };
        if !for_tests {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &ItemMod) {
        self.scope.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        let public = !matches!(item.vis, Visibility::Inherited) && self.scope.is_empty();
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (name, path) in leaves {
            match self.absolute(&path) {
                Some(path) if public => self.reexports.push((name, path)),
                Some(path) => _ = self.uses.insert(path),
                None => {}
            }
        }
    }

    fn visit_path(&mut self, path: &Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.path(&names.collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    /// The paths in `pub(in …)` and `pub(super)` import nothing.
    fn visit_vis_restricted(&mut self, _: &VisRestricted) {}

    fn visit_lit_str(&mut self, text: &LitStr) {
        self.texts.push(text.value());
    }

    fn visit_macro(&mut self, call: &Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    /// Documentation is no code; messages of errors are.
    fn visit_attribute(&mut self, attribute: &Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}

impl Reader {
    /// Reads what a macro is given, which may be of any form.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            if let TokenTree::Punct(mark) = &token
                && mark.as_char() == ':'
            {
                colons += 1;
                continue;
            }
            if colons != 2 {
                self.path(&std::mem::take(&mut path));
            }
            colons = 0;
            match token {
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Lit::Str(text) = Lit::new(literal) {
                        self.texts.push(text.value());
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
        self.path(&path);
    }

    fn path(&mut self, path: &[String]) {
        self.words.extend(path.first().cloned());
        if path.len() > 1
            && let Some(path) = self.absolute(path)
        {
            self.uses.insert(path);
        }
    }

    /// Where a path leads in the crate; none if it leaves the crate or begins with a type.
    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let here = || [&self.at[..], &self.scope].concat();
        let mut absolute = match first.as_str() {
            "crate" | "rejoin" => Vec::new(),
            "self" => here(),
            "super" => {
                let mut here = here();
                here.pop();
                here
            }
            child if self.scope.is_empty() && self.children.contains(child) => {
                [&self.at[..], &path[..1]].concat()
            }
            _ => return None,
        };
        for part in rest {
            match part.as_str() {
                "super" => drop(absolute.pop()),
                "self" => {}
                _ => absolute.push(part.clone()),
            }
        }
        Some(absolute)
    }
}

/// The ends of an import: the name that each gets here, and its path.
fn flatten(tree: &UseTree, path: &mut ModulePath, leaves: &mut Vec<(String, ModulePath)>) {
    let mut leaf = |name: String, end: Option<String>| {
        leaves.push((name, path.iter().cloned().chain(end).collect()));
    };
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, leaves);
            path.pop();
        }
        UseTree::Name(name) => leaf(name.ident.to_string(), Some(name.ident.to_string())),
        UseTree::Rename(name) => leaf(name.rename.to_string(), Some(name.ident.to_string())),
        UseTree::Glob(_) => leaf("*".to_owned(), None),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, leaves);
            }
        }
    }
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether there is a `#[cfg(test)]` or `#[cfg(all(test, …))]`.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    let conditions = attributes.iter().filter(|attr| attr.path().is_ident("cfg"));
    let conditions = conditions.filter_map(|attr| attr.meta.require_list().ok());
    let mut conditions = conditions.map(|list| list.tokens.to_string());
    conditions.any(|text| {
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        text == "test" || words.next() == Some("all") && words.any(|word| word == "test")
    })
}

/// The file that a `#[path = "…"]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let path = attributes
        .iter()
        .find(|attr| attr.path().is_ident("path"))?;
    match &path.meta.require_name_value().ok()?.value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(file) => Some(file.value()),
            _ => None,
        },
        _ => None,
    }
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
    fn reexported_name_leads_to_its_file() {
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
    fn cycles_are_found() {
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
    fn parent_that_uses_a_reexport_depends_on_it() {
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
    fn test_files_may_import_anything() {
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
