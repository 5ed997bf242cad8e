//! An editor's settings as text: JSON with comments, whose other text stays as it is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, StringLit, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::wrapping::PATH;
use crate::cli::agent_command;
use rejoin::engine::agent::AgentNames;
use rejoin::json;

/// The member with the agents, in Zed and JetBrains alike.
const AGENTS: &str = "agent_servers";
/// The mark with which a file may begin on Windows.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// An error in settings, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Broken {
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column, what) = (self.line, self.column, &self.what);
        write!(f, "line {line}, column {column}: {what}")
    }
}

/// Text that takes the place of a part of the settings.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Edit {
    pub(super) fn insert(at: usize, text: String) -> Self {
        let range = at..at;
        Self { range, text }
    }
}

/// A value to insert.
pub(super) enum Node {
    /// Text of a value.
    Raw(String),
    /// Members with their names.
    Object(Vec<(String, Self)>),
}

/// Settings, parsed.
#[derive(Debug)]
pub(in crate::cli) struct Document<'a> {
    mark: &'static str,
    pub(super) text: &'a str,
    root: Option<Object<'a>>,
}

impl<'a> Document<'a> {
    /// Parses settings. A file may be empty.
    pub(in crate::cli) fn parse(text: &'a str) -> Result<Self, Broken> {
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK, rest),
            None => ("", text),
        };
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_extended_string_escapes: false,
            allow_non_finite_numbers: false,
        };
        let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
        let parsed = parsed.map_err(|error| Broken {
            line: error.line_display(),
            column: error.column_display(),
            what: lower_first(&error.kind().to_string()),
        })?;
        let root = match parsed.value {
            None => None,
            Some(Value::Object(root)) => Some(root),
            Some(other) => return Err(broken(text, other.start(), "an object must be here")),
        };
        let document = Self { mark, text, root };
        if let Some(prop) = document.agents_member()
            && prop.value.as_object().is_none()
        {
            let at = prop.value.start();
            return Err(broken(
                text,
                at,
                "the value of `agent_servers` must be an object",
            ));
        }
        let objects = document.entries().filter_map(AgentEntry::object);
        if let Some(prop) = document
            .agents()
            .into_iter()
            .chain(objects)
            .find_map(repeated)
        {
            let what = format!("{:?} is here twice: remove one of them", prop.name.as_str());
            return Err(broken(text, prop.start(), &what));
        }
        Ok(document)
    }

    /// The object of all settings.
    pub(super) fn root(&self) -> Option<&Object<'a>> {
        self.root.as_ref()
    }

    /// The member with the agents. Of several with its name, the last one counts.
    pub(super) fn agents_member(&self) -> Option<&ObjectProp<'a>> {
        let members = &self.root.as_ref()?.properties;
        members.iter().rfind(|prop| prop.name.as_str() == AGENTS)
    }

    /// The object with the agents.
    pub(super) fn agents(&self) -> Option<&Object<'a>> {
        self.agents_member()?.value.as_object()
    }

    /// The agents, in the order of the file.
    pub(in crate::cli) fn entries(&self) -> impl Iterator<Item = AgentEntry<'_>> {
        let members = self.agents().map(|agents| &agents.properties[..]);
        members.unwrap_or_default().iter().map(AgentEntry::of)
    }

    /// The agent with this name.
    pub(super) fn entry(&self, name: &str) -> Option<AgentEntry<'_>> {
        self.entries().find(|entry| entry.name() == name)
    }

    /// The text after some edits, which must not overlap.
    pub(super) fn edited(&self, mut edits: Vec<Edit>) -> String {
        edits.sort_by_key(|edit| edit.range.start);
        let mut out = self.mark.to_owned();
        let mut at = 0;
        for edit in edits {
            out.push_str(&self.text[at..edit.range.start]);
            out.push_str(&edit.text);
            at = edit.range.end;
        }
        out.push_str(&self.text[at..]);
        out
    }

    /// The text of a part.
    pub(super) fn source(&self, part: &impl Ranged) -> &'a str {
        part.text(self.text)
    }

    /// The space before a part: a line break and an indentation, or one space.
    pub(super) fn gap(&self, at: usize) -> &'a str {
        let before = &self.text[..at];
        let space = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
        match space.rfind('\n') {
            Some(feed) => {
                let start = feed - usize::from(space[..feed].ends_with('\r'));
                &space[start..]
            }
            None => " ",
        }
    }

    /// Inserts members at the beginning of an object, where Zed inserts them, too.
    pub(super) fn insert(&self, object: &Object<'_>, members: &[(String, Node)]) -> Edit {
        let open = object.range.start + 1;
        let close = object.range.end - 1;
        let first = object.properties.first().map(|prop| prop.range.start);
        let start = &self.text[open..first.unwrap_or(close)];
        let outer = self.indent_at(object.range.start);
        let feed = self.line_break();
        if !start.contains('\n') {
            if let Some(first) = first {
                let mut text = String::new();
                for (name, node) in members {
                    text.extend([&json::quoted(name), ": ", &node.in_line(), ", "]);
                }
                return Edit::insert(first, text);
            }
            let text = self.members(members, &format!("{outer}{}", self.unit()));
            let end = if start.trim().is_empty() { close } else { open };
            return Edit {
                range: open..end,
                text: format!("{text}{feed}{outer}"),
            };
        }
        let inner = match first.map(|first| self.gap(first)) {
            Some(gap) if gap != " " => gap.trim_start_matches(['\r', '\n']).to_owned(),
            _ => format!("{outer}{}", self.unit()),
        };
        let mut text = self.members(members, &inner);
        if first.is_some() {
            text.push(',');
        }
        // A comment behind the brace stays there.
        let line = start.split(['\r', '\n']).next().unwrap_or_default();
        let comment = line.trim_end();
        let is_whole = comment.trim_start().starts_with("//") || comment.ends_with("*/");
        Edit::insert(open + if is_whole { comment.len() } else { 0 }, text)
    }

    /// The settings with these members alone, behind the comments of a file without settings.
    pub(super) fn create(&self, members: &[(String, Node)]) -> Edit {
        let feed = self.line_break();
        let head = if self.text.is_empty() || self.text.ends_with('\n') {
            ""
        } else {
            feed
        };
        let text = self.members(members, self.unit());
        Edit::insert(self.text.len(), format!("{head}{{{text}{feed}}}{feed}"))
    }

    /// Removes members of an object. If nothing is left in it, it gets the content `empty`.
    pub(super) fn remove(
        &self,
        object: &Object<'_>,
        is_removed: &dyn Fn(&ObjectProp<'_>) -> bool,
        empty: &str,
    ) -> Vec<Edit> {
        let members = &object.properties;
        if members.iter().all(is_removed) && !self.source(object).contains("//") {
            return vec![Edit {
                range: object.range.start..object.range.end,
                text: empty.to_owned(),
            }];
        }
        let removed = members
            .iter()
            .enumerate()
            .filter(|(_, prop)| is_removed(prop));
        let edit = |(number, prop): (usize, &ObjectProp<'_>)| {
            let (start, end) = (prop.range.start, prop.range.end);
            let gap = self.gap(start);
            let rest = &self.text[end..];
            let behind = rest.trim_start();
            let comma = behind
                .starts_with(',')
                .then(|| end + rest.len() - behind.len() + 1);
            let range = match (comma, number.checked_sub(1)) {
                (None, Some(before)) if !is_removed(&members[before]) => {
                    members[before].range.end..end
                }
                (comma, _) if gap != " " => start - gap.len()..comma.unwrap_or(end),
                (comma, _) => {
                    let end = comma.unwrap_or(end);
                    let rest = &self.text[end..];
                    start..end + rest.len() - rest.trim_start_matches([' ', '\t']).len()
                }
            };
            Edit {
                range,
                text: String::new(),
            }
        };
        removed.map(edit).collect()
    }

    /// Members on lines of their own, each begun with a line break.
    fn members(&self, members: &[(String, Node)], indent: &str) -> String {
        let feed = self.line_break();
        let lines = members.iter().map(|(name, node)| {
            let value = node.on_lines(feed, indent, self.unit());
            format!("{feed}{indent}{}: {value}", json::quoted(name))
        });
        lines.collect::<Vec<_>>().join(",")
    }

    fn line_break(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }

    /// The indentation of one level.
    fn unit(&self) -> &'a str {
        let first = self.root.as_ref().and_then(|root| root.properties.first());
        let gap = first.map_or("", |first| self.gap(first.range.start));
        match gap.trim_start_matches(['\r', '\n']) {
            unit if gap != unit && !unit.is_empty() => unit,
            _ => "  ",
        }
    }

    /// The indentation of the line with this place.
    fn indent_at(&self, at: usize) -> &'a str {
        let line = &self.text[self.text[..at].rfind('\n').map_or(0, |feed| feed + 1)..at];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }
}

impl Node {
    fn in_line(&self) -> String {
        match self {
            Self::Raw(text) => text.clone(),
            Self::Object(members) => {
                let members = members.iter();
                let members = members
                    .map(|(name, node)| format!("{}: {}", json::quoted(name), node.in_line()));
                format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn on_lines(&self, feed: &str, indent: &str, unit: &str) -> String {
        match self {
            Self::Raw(text) => text.clone(),
            Self::Object(members) => {
                let inner = format!("{indent}{unit}");
                let members = members.iter().map(|(name, node)| {
                    let value = node.on_lines(feed, &inner, unit);
                    format!("{feed}{inner}{}: {value}", json::quoted(name))
                });
                let members = members.collect::<Vec<_>>().join(",");
                format!("{{{members}{feed}{indent}}}")
            }
        }
    }
}

/// An agent in the settings.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct AgentEntry<'d> {
    member: &'d ObjectProp<'d>,
}

/// The command in an entry.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct AgentCommand<'d> {
    pub(super) program: &'d StringLit<'d>,
    /// Where the member with the program begins.
    pub(super) member: usize,
    pub(super) arguments: Option<&'d ObjectProp<'d>>,
}

impl<'d> AgentEntry<'d> {
    fn of(member: &'d ObjectProp<'d>) -> Self {
        Self { member }
    }

    /// Its name.
    pub(in crate::cli) fn name(self) -> &'d str {
        self.member.name.as_str()
    }

    fn object(self) -> Option<&'d Object<'d>> {
        self.member.value.as_object()
    }

    /// The member of the entry with this name.
    pub(super) fn member(self, name: &str) -> Option<&'d ObjectProp<'d>> {
        self.object()?.get(name)
    }

    /// Whether it sets this environment variable.
    pub(in crate::cli) fn has_variable(self, name: &str) -> bool {
        let env = self.member("env").and_then(|env| env.value.as_object());
        env.is_some_and(|env| env.get(name).is_some())
    }

    /// Its command; none if the editor knows the agent by its name, or the entry has no known form.
    pub(in crate::cli) fn command(self) -> Option<AgentCommand<'d>> {
        let member = self.member("command")?;
        let arguments = self.member("args");
        if arguments.is_some_and(|arguments| arguments.value.as_array().is_none()) {
            return None;
        }
        let program = member.value.as_string_lit()?;
        if program.value.trim().is_empty() {
            return None;
        }
        Some(AgentCommand {
            program,
            member: member.range.start,
            arguments,
        })
    }

    /// Whether the editor installs the agent itself.
    pub(super) fn is_installed_by_editor(self) -> bool {
        self.object()
            .is_some_and(|object| object.get("command").is_none())
    }
}

impl<'d> AgentCommand<'d> {
    /// The program.
    pub(in crate::cli) fn program(&self) -> &'d str {
        &self.program.value
    }

    /// The array of its arguments.
    pub(super) fn array(&self) -> Option<&'d Array<'d>> {
        self.arguments?.value.as_array()
    }

    /// The arguments.
    pub(super) fn elements(&self) -> &'d [Value<'d>] {
        self.array()
            .map(|array| &array.elements[..])
            .unwrap_or_default()
    }

    /// An argument, if it is a text.
    pub(in crate::cli) fn argument(&self, number: usize) -> Option<&'d str> {
        self.elements()
            .get(number)?
            .as_string_lit()
            .map(|text| &*text.value)
    }

    /// Whether the program is rejoin.
    pub(in crate::cli) fn is_rejoin(&self) -> bool {
        let program = self.program();
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name) == "rejoin"
    }

    /// Whether the command starts rejoin, perhaps by way of other programs, such as `npx`.
    pub(in crate::cli) fn starts_rejoin(&self) -> bool {
        self.is_rejoin() || AgentNames::starts(&self.words(), "rejoin")
    }

    /// The command to use instead if this one is known not to speak ACP, in words.
    pub(in crate::cli) fn instead(&self) -> Option<String> {
        // A user who names the agent knows it.
        let behind = self.wrapped().unwrap_or(0);
        let is_name = |number| {
            self.argument(number)
                .is_some_and(|word| word.starts_with("--name"))
        };
        if (0..behind).any(is_name) {
            return None;
        }
        agent_command::meant(&self.words())
    }

    /// Whether the arguments of rejoin name a folder to search for programs.
    pub(in crate::cli) fn names_folder(&self) -> bool {
        let options = 0..self.wrapped().unwrap_or(0);
        let mut options = options.filter_map(|number| self.argument(number));
        options.any(|option| option.split('=').next() == Some(PATH))
    }

    /// The words of the agent's command.
    fn words(&self) -> Vec<OsString> {
        self.agent().map(OsString::from).collect()
    }

    /// Where the command of the wrapped agent begins in the arguments; none if none is wrapped.
    pub(in crate::cli) fn wrapped(&self) -> Option<usize> {
        if !self.is_rejoin() || self.argument(0) != Some("wrap") {
            return None;
        }
        let mut numbers = 0..self.elements().len();
        let separator = numbers.find(|number| self.argument(*number) == Some("--"))?;
        (separator + 1 < self.elements().len()).then_some(separator + 1)
    }

    /// The agent's program and its arguments: what rejoin wraps, or what the editor starts.
    pub(in crate::cli) fn agent(&self) -> impl Iterator<Item = &'d str> {
        let wrapped = self.wrapped();
        let program = wrapped.is_none().then_some(self.program());
        let numbers = wrapped.unwrap_or(0)..self.elements().len();
        let arguments = numbers.filter_map(|number| self.argument(number));
        program.into_iter().chain(arguments)
    }
}

/// A member with the name of an earlier one: programs differ in which of them counts.
fn repeated<'d, 'a>(object: &'d Object<'a>) -> Option<&'d ObjectProp<'a>> {
    let mut names = BTreeSet::new();
    let mut members = object.properties.iter();
    members.find(|prop| !names.insert(prop.name.as_str()))
}

fn broken(text: &str, at: usize, what: &str) -> Broken {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    Broken {
        line: before.matches('\n').count() + 1,
        column: line.chars().count() + 1,
        what: what.to_owned(),
    }
}

fn lower_first(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(rest).collect()
}
