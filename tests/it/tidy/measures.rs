//! Measures of the source, each held at the number that was reached: it may fall and never rise.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Fields, ImplItem, Item, ItemImpl, Type};

use super::imports::{Module, attributes, graph, is_for_tests};
use super::tree::SourceFile;

/// A file with fewer lines of code than this is a satellite if only one other file imports it.
const SMALL: usize = 60;

/// Names that many modules may give to a type: each is used by its path, as `fork::Args`.
const IDIOMS: [&str; 5] = ["Args", "Error", "Options", "Params", "Result"];

/// Words that replace the noun with which a comment should begin.
const PRONOUNS: [&str; 7] = ["It", "One", "That", "Those", "The same", "These", "They"];

/// The most lines of code of a file: beyond them, what is new gets a file of its own.
const MOST_LINES: usize = 800;

/// What is measured of one file of `src` that is not for tests alone.
#[derive(Debug, Default)]
pub(crate) struct FileMeasures {
    /// Lines without tests, comments and blank lines.
    pub(crate) lines: usize,
    /// The names of the types that it defines, without those of tests.
    types: BTreeSet<String>,
    /// The numbers of named fields, by the names of their structures.
    fields: BTreeMap<String, usize>,
    /// The numbers of methods of types, by their names; those of traits are left out.
    methods: BTreeMap<String, usize>,
    /// Documentation that begins with a pronoun: the numbers of the lines.
    pronouns: Vec<usize>,
}

/// The measures of the whole source, by the paths of its files.
#[derive(Debug)]
pub(crate) struct Measures<'a> {
    files: BTreeMap<&'a str, FileMeasures>,
    imports: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// A type and the folder directly below `src` in which it is defined or extended.
type TypePlace<'a> = (&'a str, &'a str);

impl<'a> Measures<'a> {
    /// Measures these files, whose modules are known.
    pub(crate) fn of(files: &'a [SourceFile], modules: &'a [Module]) -> Self {
        let production = modules.iter().filter(|module| !module.test_only);
        let production: BTreeSet<_> = production.map(|module| &module.file).collect();
        let files = files.iter().filter(|file| production.contains(&file.path));
        Self {
            files: files
                .map(|file| (file.path.as_str(), measure(&file.text)))
                .collect(),
            imports: graph(modules),
        }
    }

    /// All lines of code.
    pub(crate) fn lines(&self) -> usize {
        self.files.values().map(|file| file.lines).sum()
    }

    /// The number of files.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Files with too many lines of code, with their numbers.
    pub(crate) fn long_files(&self) -> Vec<String> {
        let files = self.files.iter();
        let long = files.filter(|(_, file)| file.lines > MOST_LINES);
        long.map(|(path, file)| format!("{path}: {} lines of code", file.lines))
            .collect()
    }

    /// All names of types.
    pub(crate) fn type_names(&self) -> usize {
        let types = self.files.values().flat_map(|file| &file.types);
        types.collect::<BTreeSet<_>>().len()
    }

    /// Names of types that two or more files define, other than idioms.
    pub(crate) fn shared_type_names(&self) -> Vec<String> {
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (path, file) in &self.files {
            for name in &file.types {
                places.entry(name).or_default().push(path);
            }
        }
        let shared = places.into_iter();
        let shared = shared.filter(|(name, places)| places.len() > 1 && !IDIOMS.contains(name));
        shared
            .map(|(name, places)| format!("{name}: {}", places.join(", ")))
            .collect()
    }

    /// Types whose methods are spread over more than this many files.
    pub(crate) fn spread_types(&self, most: usize) -> Vec<String> {
        let spread = self.methods().into_iter();
        let spread = spread.filter(|(_, (_, files))| files.len() > most);
        spread
            .map(|((folder, name), (methods, files))| {
                format!(
                    "{folder}::{name}: {methods} methods in {} files",
                    files.len()
                )
            })
            .collect()
    }

    /// Types with more methods than this.
    pub(crate) fn types_of_many_methods(&self, most: usize) -> Vec<String> {
        let large = self.methods().into_iter();
        let large = large.filter(|(_, (methods, _))| *methods > most);
        large
            .map(|((folder, name), (methods, _))| format!("{folder}::{name}: {methods} methods"))
            .collect()
    }

    /// Structures with more named fields than this.
    pub(crate) fn types_of_many_fields(&self, most: usize) -> Vec<String> {
        let mut large = Vec::new();
        for (path, file) in &self.files {
            for (name, fields) in file.fields.iter().filter(|(_, fields)| **fields > most) {
                large.push(format!("{path}: {name} has {fields} fields"));
            }
        }
        large
    }

    /// Files of few lines that only one other file imports. The methods of the protocol and the
    /// subcommands have a file each.
    pub(crate) fn satellites(&self) -> Vec<String> {
        let mut importers: BTreeMap<&str, usize> = BTreeMap::new();
        for targets in self.imports.values() {
            for target in targets {
                *importers.entry(target).or_default() += 1;
            }
        }
        let small = self.files.iter().filter(|(path, file)| {
            let has_own_file = path.contains("src/server/methods/")
                || path.starts_with("src/cli/")
                || path.ends_with("/mod.rs");
            file.lines < SMALL && !has_own_file && importers.get(*path) == Some(&1)
        });
        small
            .map(|(path, file)| format!("{path}: {} lines of code", file.lines))
            .collect()
    }

    /// More files than this that import each other, perhaps by way of others.
    pub(crate) fn circles(&self, most: usize) -> Vec<String> {
        let reach = |start: &'a str| {
            let mut reached = BTreeSet::new();
            let mut next = vec![start];
            while let Some(file) = next.pop() {
                for target in self.imports.get(file).into_iter().flatten() {
                    if reached.insert(*target) {
                        next.push(target);
                    }
                }
            }
            reached
        };
        let files = self.imports.keys();
        let reached: BTreeMap<_, _> = files.map(|file| (*file, reach(file))).collect();
        let mut circles = BTreeSet::new();
        for (file, targets) in reached.iter().filter(|(file, all)| all.contains(**file)) {
            let together = targets.iter().filter(|other| {
                let back = reached.get(**other);
                back.is_some_and(|back| back.contains(file))
            });
            circles.insert(together.copied().collect::<Vec<_>>());
        }
        let large = circles.into_iter().filter(|circle| circle.len() > most);
        large.map(|circle| circle.join(", ")).collect()
    }

    /// Documentation whose first word is a pronoun.
    pub(crate) fn pronouns(&self) -> Vec<String> {
        let files = self.files.iter();
        let places = files.flat_map(|(path, file)| {
            let lines = file.pronouns.iter();
            lines.map(move |line| format!("{path}:{line}"))
        });
        places.collect()
    }

    /// The methods of each type, and the files that have them.
    fn methods(&self) -> BTreeMap<TypePlace<'_>, (usize, BTreeSet<&str>)> {
        let mut types: BTreeMap<TypePlace<'_>, (usize, BTreeSet<&str>)> = BTreeMap::new();
        for (path, file) in &self.files {
            let folder = path.split('/').nth(1).unwrap_or_default();
            for (name, methods) in &file.methods {
                let entry = types.entry((folder, name)).or_default();
                entry.0 += methods;
                entry.1.insert(path);
            }
        }
        types
    }
}

fn measure(text: &str) -> FileMeasures {
    let syntax = syn::parse_file(text).expect("a file of the source can be parsed");
    let mut reader = Reader::default();
    reader.visit_file(&syntax);
    let is_code = |(number, line): &(usize, &str)| {
        let line = line.trim();
        let in_tests = reader
            .tests
            .iter()
            .any(|(first, last)| (first..=last).contains(&number));
        !line.is_empty() && !line.starts_with("//") && !in_tests
    };
    let mut measures = reader.measures;
    measures.lines = (1..).zip(text.lines()).filter(is_code).count();
    measures.pronouns = pronouns(text);
    measures
}

/// The lines on which a comment begins with a pronoun.
fn pronouns(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_in_comment = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let comment = ["/// ", "//! ", "// "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let first = comment.filter(|_| !is_in_comment).unwrap_or_default();
        let begins = |word: &&str| {
            let rest = first.strip_prefix(*word);
            rest.is_some_and(|rest| rest.starts_with([' ', ',', ':']))
        };
        if PRONOUNS.iter().any(begins) {
            found.push(number);
        }
        is_in_comment = comment.is_some();
    }
    found
}

#[derive(Default)]
struct Reader {
    measures: FileMeasures,
    /// The first and the last line of what is only compiled for tests.
    tests: Vec<(usize, usize)>,
}

impl Reader {
    fn type_name(&mut self, name: &syn::Ident) {
        self.measures.types.insert(name.to_string());
    }

    fn for_tests(&mut self, code: &impl Spanned) {
        let span = code.span();
        self.tests.push((span.start().line, span.end().line));
    }
}

impl Visit<'_> for Reader {
    fn visit_item(&mut self, item: &Item) {
        if is_for_tests(attributes(item)) {
            return self.for_tests(item);
        }
        match item {
            Item::Struct(item) => {
                self.type_name(&item.ident);
                if let Fields::Named(fields) = &item.fields {
                    let count = fields.named.len();
                    self.measures.fields.insert(item.ident.to_string(), count);
                }
            }
            Item::Enum(item) => self.type_name(&item.ident),
            Item::Trait(item) => self.type_name(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, item: &ItemImpl) {
        let methods = item.items.iter().filter(|item| match item {
            ImplItem::Fn(method) => !is_for_tests(&method.attrs),
            _ => false,
        });
        let methods = methods.count();
        if item.trait_.is_none()
            && methods > 0
            && let Type::Path(path) = &*item.self_ty
            && let Some(name) = path.path.segments.last()
        {
            *self
                .measures
                .methods
                .entry(name.ident.to_string())
                .or_default() += methods;
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        match item {
            ImplItem::Fn(method) if is_for_tests(&method.attrs) => self.for_tests(method),
            ImplItem::Const(constant) if is_for_tests(&constant.attrs) => self.for_tests(constant),
            _ => visit::visit_impl_item(self, item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::imports::modules;
    use super::*;

    fn measured(files: &[(&str, &str)], check: impl Fn(&Measures<'_>)) {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile::new(path, text))
            .collect();
        check(&Measures::of(&files, &modules("src", &files)));
    }

    #[test]
    fn lines_of_tests_and_comments_do_not_count() {
        let text = "//! A file.\n\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        measured(&[("src/sys/a.rs", text)], |measures| {
            assert_eq!(measures.lines(), 3);
        });
    }

    #[test]
    fn names_and_methods_are_counted_where_they_are() {
        let one = "struct State { a: u8, b: u8 } impl State { fn f() {} } struct Args;";
        let two = "enum State {} impl super::a::State { fn g() {} fn h() {} } struct Args;";
        let files = [("src/sys/a.rs", one), ("src/sys/b.rs", two)];
        measured(&files, |measures| {
            let shared = measures.shared_type_names();
            assert_eq!(shared, ["State: src/sys/a.rs, src/sys/b.rs"]);
            let spread = measures.spread_types(1);
            assert_eq!(spread, ["sys::State: 3 methods in 2 files"]);
            assert_eq!(measures.types_of_many_methods(2), ["sys::State: 3 methods"]);
            let fields = measures.types_of_many_fields(1);
            assert_eq!(fields, ["src/sys/a.rs: State has 2 fields"]);
        });
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("src/sys/mod.rs", "mod a; mod b; mod c;"),
            ("src/sys/a.rs", "use super::b::f;"),
            ("src/sys/b.rs", "use super::a::g;"),
            ("src/sys/c.rs", "use super::a::g;"),
        ];
        measured(&files, |measures| {
            assert_eq!(measures.circles(1), ["src/sys/a.rs, src/sys/b.rs"]);
        });
    }

    #[test]
    fn a_comment_begins_with_a_noun() {
        for (text, lines) in [
            ("/// It is one.\nfn f() {}", vec![1]),
            ("/// The same for lines.\nfn f() {}", vec![1]),
            ("/// The log.\n/// It is one.\nfn f() {}", vec![]),
            ("/// Items of it.\n\n// That was it.\n", vec![3]),
        ] {
            assert_eq!(pronouns(text), lines, "{text}");
        }
    }

    #[test]
    fn a_small_file_of_one_importer_is_a_satellite() {
        let files = [
            ("src/sys/mod.rs", "mod a; mod b;"),
            ("src/sys/a.rs", "use super::b::f;"),
            ("src/sys/b.rs", "pub fn f() {}"),
        ];
        measured(&files, |measures| {
            assert_eq!(measures.satellites(), ["src/sys/b.rs: 1 lines of code"]);
        });
    }
}
