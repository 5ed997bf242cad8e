//! Puts rejoin in front of the agents of an editor's settings, and takes it away again.

use jsonc_parser::ast::ObjectProp;
use jsonc_parser::common::Ranged;

use rejoin::engine::known::{KnownAgent, known};
use rejoin::json;

use super::document::{AgentCommand, AgentEntry, Document, Edit, Node};

/// The option of `rejoin wrap` for the folder of an interpreter.
pub(super) const PATH: &str = "--path";

/// The suffix of entries that `setup` adds, behind the names of their agents.
const SUFFIX: &str = " (rejoin)";

/// The outcome for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryOutcome {
    /// The agent now runs behind rejoin.
    Wrapped,
    /// The agent now runs behind rejoin, but its program was not found.
    WrappedMissing,
    /// The entry is new: no agent was configured, and this one is on `PATH`.
    Added,
    /// The entry is new, beside that of an agent which the editor installs and starts by itself.
    AddedBeside,
    /// The editor installs the agent itself, and another entry starts the same one behind rejoin.
    HasOther,
    /// The agent ran behind rejoin already.
    Already,
    /// The agent ran behind rejoin already, but rejoin is elsewhere now.
    Corrected,
    /// The agent ran behind rejoin already, but an editor would not find its interpreter.
    InterpreterFound,
    /// The editor installs the agent itself, and its command is not known here.
    NoCommand,
    /// The entry's command has no known form.
    Unclear,
    /// The entry's command is known not to speak ACP.
    NoAcp,
    /// The agent no longer runs behind rejoin.
    Unwrapped,
    /// The entry was added by `setup`, and is gone.
    Removed,
}

/// Changed settings.
#[derive(Debug)]
pub(super) struct ChangedSettings {
    pub(super) text: String,
    pub(super) entries: Vec<(String, EntryOutcome)>,
}

/// How entries are wrapped.
pub(super) struct Wrapper<'a> {
    /// The path of rejoin.
    pub(super) rejoin: &'a str,
    /// Options of `rejoin wrap`.
    pub(super) options: &'a [String],
    /// Whether the editor needs the type of an entry.
    pub(super) typed: bool,
    /// The whole path of an agent's program, if it is found.
    pub(super) resolve: &'a dyn Fn(&str) -> Option<String>,
    /// The folder with the interpreter of the program with this path, if it is to be named.
    pub(super) interpreter: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a command is known not to speak ACP.
    pub(super) speaks_no_acp: &'a dyn Fn(&AgentCommand<'_>) -> bool,
    /// Whether there is no longer a program with this path.
    pub(super) is_gone: &'a dyn Fn(&str) -> bool,
    /// The command of an agent; the flag says whether it may be installed for this.
    pub(super) command: &'a dyn Fn(&KnownAgent, bool) -> Option<Vec<String>>,
}

impl Wrapper<'_> {
    /// Puts rejoin in front of all agents that start by a command, and adds an entry for each that
    /// the editor installs itself; if there is no agent, for each that is installed.
    pub(super) fn wrap(&self, document: &Document<'_>) -> ChangedSettings {
        let mut edits = Vec::new();
        let mut entries = Vec::new();
        let mut added = Vec::new();
        for entry in document.entries() {
            let name = entry.name().to_owned();
            if let Some(command) = entry.command() {
                let has_path = entry.has_variable("PATH");
                let folder = self.missing_folder(&command).filter(|_| !has_path);
                let is_gone = command.is_rejoin() && (self.is_gone)(command.program());
                let outcome = if is_gone || folder.is_some() {
                    let correction = is_gone.then(|| self.corrected(&command));
                    edits.extend(folder.into_iter().chain(correction));
                    if is_gone {
                        EntryOutcome::Corrected
                    } else {
                        EntryOutcome::InterpreterFound
                    }
                } else if command.starts_rejoin() {
                    EntryOutcome::Already
                } else if (self.speaks_no_acp)(&command) {
                    EntryOutcome::NoAcp
                } else {
                    let found = (self.resolve)(command.program());
                    let agent = found.as_deref().unwrap_or(command.program());
                    edits.extend(self.wrapped(document, &command, agent, has_path));
                    match found {
                        Some(_) => EntryOutcome::Wrapped,
                        None => EntryOutcome::WrappedMissing,
                    }
                };
                entries.push((name, outcome));
                continue;
            }
            let known = entry
                .is_installed_by_editor()
                .then(|| KnownAgent::called(&name));
            let Some(known) = known else {
                entries.push((name, EntryOutcome::Unclear));
                continue;
            };
            let new = known.filter(|_| !has_twin(document, entry));
            let env = entry.member("env").map(|env| document.source(&env.value));
            match (known, new.and_then(|new| self.entry_for(new, true, env))) {
                // Two entries may be the same agent by different names.
                (_, Some(new)) if added.iter().any(|(name, _)| *name == new.0) => {}
                (Some(known), Some(_)) if self.starts(document, known) => {
                    entries.push((name, EntryOutcome::HasOther));
                }
                (_, Some(new)) => added.push(new),
                (Some(_), None) if new.is_none() => {}
                _ => entries.push((name, EntryOutcome::NoCommand)),
            }
        }
        let outcome = if document.entries().next().is_some() {
            EntryOutcome::AddedBeside
        } else {
            EntryOutcome::Added
        };
        if outcome == EntryOutcome::Added {
            added.extend(
                known()
                    .iter()
                    .filter_map(|known| self.entry_for(known, false, None)),
            );
        }
        entries.extend(added.iter().map(|(name, _)| (name.clone(), outcome)));
        if !added.is_empty() {
            edits.push(added_to(document, added));
        }
        let text = document.edited(edits);
        ChangedSettings { text, entries }
    }

    /// Whether an entry with a command, which is behind rejoin then, starts this agent.
    fn starts(&self, document: &Document<'_>, known: &KnownAgent) -> bool {
        let commands = document.entries().filter_map(AgentEntry::command);
        let mut programs = commands.filter(|command| !(self.speaks_no_acp)(command));
        programs.any(|command| {
            let wrapped = command.wrapped();
            let program = wrapped.is_none().then_some(command.program()).into_iter();
            let arguments = (wrapped.unwrap_or(0)..).map_while(|at| command.argument(at));
            let mut words = program.chain(arguments).map(bare_name);
            // Runners of packages name the agent behind their own options.
            let name = words.find(|word| !word.starts_with('-') && !RUNNERS.contains(word));
            name.is_some_and(|name| known.is_called(name))
        })
    }

    /// The words before the agent's own arguments. `has_path`: whether the entry has a `PATH`.
    fn words(&self, agent: &str, has_path: bool) -> Vec<String> {
        let options = self.options.iter().map(String::as_str);
        let folder = (self.interpreter)(agent).filter(|_| !has_path);
        let path = folder.iter().flat_map(|folder| [PATH, folder.as_str()]);
        let words = ["wrap"]
            .into_iter()
            .chain(options)
            .chain(path)
            .chain(["--", agent]);
        words.map(json::quoted).collect()
    }

    /// The edit that names the folder with the interpreter of an agent that runs behind rejoin, if an
    /// editor does not find it.
    fn missing_folder(&self, command: &AgentCommand<'_>) -> Option<Edit> {
        let agent = command.argument(command.wrapped()?)?;
        if command.names_folder() {
            return None;
        }
        let folder = (self.interpreter)(agent)?;
        let at = command.elements().first()?.end();
        Some(Edit::insert(
            at,
            format!(", {}, {}", json::quoted(PATH), json::quoted(&folder)),
        ))
    }

    fn wrapped(
        &self,
        document: &Document<'_>,
        command: &AgentCommand<'_>,
        agent: &str,
        has_path: bool,
    ) -> Vec<Edit> {
        let words = self.words(agent, has_path);
        let program = command.program.range;
        let (at, text) = match (command.array(), command.elements().first()) {
            (Some(_), Some(first)) => {
                let at = first.start();
                let gap = document.gap(at);
                let text: Vec<_> = words.iter().map(|word| format!("{word},{gap}")).collect();
                (at, text.concat())
            }
            (Some(array), None) => (array.range.start + 1, words.join(", ")),
            (None, _) => {
                let gap = document.gap(command.member);
                (
                    program.end,
                    format!(",{gap}\"args\": [{}]", words.join(", ")),
                )
            }
        };
        vec![self.corrected(command), Edit::insert(at, text)]
    }

    /// The edit that starts rejoin, wherever it is now.
    fn corrected(&self, command: &AgentCommand<'_>) -> Edit {
        let program = command.program.range;
        Edit {
            range: program.start..program.end,
            text: json::quoted(self.rejoin),
        }
    }

    /// An entry for an agent.
    fn entry_for(
        &self,
        known: &KnownAgent,
        install: bool,
        env: Option<&str>,
    ) -> Option<(String, Node)> {
        let command = (self.command)(known, install)?;
        let (agent, arguments) = command.split_first()?;
        let mut words = self.words(agent, false);
        words.extend(arguments.iter().map(|word| json::quoted(word)));
        let mut members = Vec::new();
        let mut add = |name: &str, text: String| members.push((name.to_owned(), Node::Raw(text)));
        if self.typed {
            add("type", json::quoted("custom"));
        }
        add("command", json::quoted(self.rejoin));
        add("args", format!("[{}]", words.join(", ")));
        add("env", env.unwrap_or("{}").to_owned());
        Some((title(known), Node::Object(members)))
    }
}

/// Whether an entry that the editor installs has one with rejoin beside it.
pub(in crate::cli) fn has_twin(document: &Document<'_>, entry: AgentEntry<'_>) -> bool {
    let known = KnownAgent::called(entry.name()).filter(|_| entry.is_installed_by_editor());
    known.is_some_and(|known| document.entry(&title(known)).is_some())
}

/// Programs that run packages.
const RUNNERS: [&str; 4] = ["npx", "uvx", "bunx", "pnpx"];

/// The name of a program or a package, without its folder or scope, its ending and its version.
fn bare_name(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name.split('@').next().unwrap_or(name);
    let ending = [".exe", ".cmd"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    ending.unwrap_or(name)
}

fn title(known: &KnownAgent) -> String {
    format!("{}{SUFFIX}", known.name)
}

/// Adds entries at the place for them, and makes that place if it does not exist.
fn added_to(document: &Document<'_>, added: Vec<(String, Node)>) -> Edit {
    if let Some(agents) = document.agents() {
        return document.insert(agents, &added);
    }
    let agents = [("agent_servers".to_owned(), Node::Object(added))];
    match document.root() {
        Some(root) => document.insert(root, &agents),
        None => document.create(&agents),
    }
}

/// Takes rejoin away from the agents that it wraps. What was there before `setup` is taken from the
/// files that `setup` has kept, the newest first.
pub(super) fn unwrap(document: &Document<'_>, kept: &[Document<'_>]) -> ChangedSettings {
    let mut edits = Vec::new();
    let mut entries = Vec::new();
    let mut removed = Vec::new();
    for entry in document.entries() {
        let Some(command) = entry.command() else {
            continue;
        };
        let Some(agent) = command.wrapped() else {
            continue;
        };
        let name = entry.name();
        let before: Vec<_> = kept.iter().map(|kept| (kept, kept.entry(name))).collect();
        if let Some((_, Some(oldest))) = before.last()
            && is_wrapped(*oldest)
        {
            // The user has written it.
            continue;
        }
        let mut before = before.into_iter();
        let plain = before.find_map(|(kept, entry)| {
            let entry = entry.filter(|entry| !is_wrapped(*entry))?;
            Some((kept, entry.command()?))
        });
        if plain.is_none() && name.ends_with(SUFFIX) {
            removed.push(name);
            entries.push((name.to_owned(), EntryOutcome::Removed));
        } else {
            edits.extend(unwrapped(document, &command, agent, plain));
            entries.push((name.to_owned(), EntryOutcome::Unwrapped));
        }
    }
    if !removed.is_empty() {
        edits.extend(without(document, &removed, kept));
    }
    let text = document.edited(edits);
    ChangedSettings { text, entries }
}

fn is_wrapped(entry: AgentEntry<'_>) -> bool {
    entry
        .command()
        .is_some_and(|command| command.wrapped().is_some())
}

/// The edits that start the agent itself, which is the argument with this number.
fn unwrapped(
    document: &Document<'_>,
    command: &AgentCommand<'_>,
    agent: usize,
    before: Option<(&Document<'_>, AgentCommand<'_>)>,
) -> Vec<Edit> {
    let elements = command.elements();
    // The user may wrap another program now.
    let wraps = |before: &AgentCommand<'_>| {
        command
            .agent()
            .next()
            .is_some_and(|now| is_same(now, before.program()))
    };
    let program = match &before {
        Some((kept, before)) if wraps(before) => kept.source(before.program),
        _ => document.source(&elements[agent]),
    };
    let start = elements[0].start();
    let mut range = match elements.get(agent + 1) {
        Some(next) => start..next.start(),
        None => start..elements[agent].end(),
    };
    if elements.len() == agent + 1 {
        let had_none = before.is_some_and(|(_, before)| before.arguments.is_none());
        let member = command.arguments.filter(|_| had_none);
        if let Some(member) = member.filter(|member| member.range.start > command.program.range.end)
        {
            let text = &document.text[..member.range.start];
            let comma = text.trim_end().strip_suffix(',');
            range = comma.map_or(member.range.start, str::len)..member.range.end;
        } else {
            let rest = &document.text[range.end..];
            let behind = rest.trim_start();
            if behind.starts_with(',') {
                range.end += rest.len() - behind.len() + 1;
            }
        }
    }
    let place = command.program.range;
    vec![
        Edit {
            range: place.start..place.end,
            text: program.to_owned(),
        },
        Edit {
            range,
            text: String::new(),
        },
    ]
}

/// Whether a program is what `setup` has made of another one, of which it writes the whole path.
fn is_same(now: &str, before: &str) -> bool {
    let name = |program: &str| {
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        name.to_lowercase()
    };
    now == before || name(now) == name(before)
}

/// The edits that remove the entries with these names, and the place for agents if that was made
/// for them.
fn without(document: &Document<'_>, names: &[&str], kept: &[Document<'_>]) -> Vec<Edit> {
    let Some(agents) = document.agents() else {
        return Vec::new();
    };
    let is_removed = |name: &str| names.contains(&name);
    let oldest = kept.last();
    let all = agents
        .properties
        .iter()
        .all(|prop| is_removed(prop.name.as_str()));
    let had_place = oldest.is_some_and(|oldest| oldest.agents().is_some());
    let place = document.agents_member().filter(|_| all && !had_place);
    let (object, removed): (_, &dyn Fn(&ObjectProp<'_>) -> bool) = match (document.root(), place) {
        (Some(root), Some(place)) => {
            let alone = root.properties.len() == 1;
            let text = oldest.filter(|oldest| alone && oldest.root().is_none());
            let ours = document.source(root);
            let is_ours = |before: &&Document<'_>| {
                let rest = document.text.strip_prefix(before.text);
                let has_comments = ours.contains("//") || ours.contains("/*");
                rest.is_some_and(|rest| rest.trim() == ours && !has_comments)
            };
            if let Some(before) = text.filter(is_ours) {
                // There was nothing but comments, and nothing has come since.
                return vec![Edit {
                    range: before.text.len()..document.text.len(),
                    text: String::new(),
                }];
            }
            (root, &|prop| prop.range.start == place.range.start)
        }
        _ => (agents, &|prop| is_removed(prop.name.as_str())),
    };
    let before = oldest.and_then(|oldest| {
        let object = if place.is_some() {
            oldest.root()
        } else {
            oldest.agents()
        };
        let object = object.filter(|object| object.properties.is_empty())?;
        Some(oldest.source(object))
    });
    document.remove(object, removed, before.unwrap_or("{}"))
}
