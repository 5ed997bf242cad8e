//! Which conversations their tools will delete, by the tools' own settings.
//!
//! Tools delete when they are started, by the age of files or by their number. The rule of a tool is in the
//! tool's own file, which `table.rs` names. Nothing is read here but settings: the times of conversations
//! are those of the list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::Value;

use crate::index::{Catalog, ConversationFile, Filter, ListError};
use crate::sys::Timestamp;

use super::live::LiveSources;
use super::{Source, ToolFolders};

/// A day, in milliseconds.
pub(super) const DAY: i64 = 24 * 60 * 60 * 1000;

/// How a tool deletes conversations.
#[derive(Debug)]
pub(super) struct ToolDeletion {
    /// The rule for conversations in a project's folder; without one, that of the user's settings.
    pub(super) rule: fn(&ToolFolders, Option<&Path>, &mut SettingsFiles) -> DeletionRule,
    /// The rule for the conversation in a file of a project's folder, if another one counts for it.
    pub(super) of_file:
        fn(&ToolFolders, Option<&Path>, &Path, &mut SettingsFiles) -> Option<DeletionRule>,
    /// Whether the tool deletes everywhere by the rule of the project in which it is started: then the
    /// strictest one counts for all.
    pub(super) everywhere: bool,
}

/// Of tools that delete all conversations by the same rule.
pub(super) fn no_rule_of_file(
    _: &ToolFolders,
    _: Option<&Path>,
    _: &Path,
    _: &mut SettingsFiles,
) -> Option<DeletionRule> {
    None
}

/// Which conversations a tool deletes. Without any limit, it deletes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletionRule {
    /// The age after which a conversation that does not change is deleted, in milliseconds.
    pub(super) age: Option<i64>,
    /// How many conversations of a project stay: the ones that were changed last.
    pub(super) most: Option<usize>,
}

impl DeletionRule {
    /// The rule of a tool that deletes by age alone, after so many days; never without a number.
    pub(super) fn after_days(days: Option<i64>) -> Self {
        Self {
            age: days.map(|days| days.saturating_mul(DAY)),
            most: None,
        }
    }
}

/// A conversation that its tool will delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueConversation {
    /// The id that its session has or would have; none before there is a store.
    pub session: Option<String>,
    /// The time from which on the tool deletes it when it is started.
    pub due: Timestamp,
}

/// The conversations that each tool of `live` will delete if it is started within this time from now, of
/// which there is no copy in the store. Tools that delete none are left out. Without a catalog there is no
/// store, and each file counts.
pub fn soon_deleted(
    live: &LiveSources,
    catalog: Option<&Catalog>,
    now: Timestamp,
    within: Duration,
) -> Result<BTreeMap<&'static str, Vec<DueConversation>>, ListError> {
    let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    let then = now.as_millis().saturating_add(within);
    if let Some(catalog) = catalog {
        // A list brings the catalog up to date with the logs.
        catalog.list(&Filter::default(), None, 1)?;
    }
    let mut soon = BTreeMap::new();
    for source in &live.sources {
        let Some(deletion) = &source.deletion else {
            continue;
        };
        let files = match catalog {
            Some(catalog) => catalog.tool_files().conversations(source.name)?,
            None => found_files(source, &live.places),
        };
        let mut deleted = deleted_by(deletion, &live.places, &files, then);
        if let Some(catalog) = catalog.filter(|catalog| catalog.is_in_database()) {
            // The files do not tell which of them have a copy there.
            let names = deleted.iter().flat_map(|(file, _)| file.names.clone());
            let ours = catalog.ours(source.agent, &names.collect::<Vec<_>>())?;
            deleted.retain(|(file, _)| file.names.iter().all(|name| !ours.contains(name)));
        }
        if !deleted.is_empty() {
            let deleted = deleted.into_iter().map(|(file, due)| DueConversation {
                session: file.names.first().cloned(),
                due: Timestamp::from_millis(due),
            });
            soon.insert(source.name, deleted.collect());
        }
    }
    Ok(soon)
}

impl Source {
    /// For how many days the tool keeps a conversation that does not change, by the user's settings; none
    /// if it deletes none by its age.
    pub fn days_kept(&self, places: &ToolFolders) -> Option<usize> {
        let mut settings = SettingsFiles::default();
        let rule = (self.deletion.as_ref()?.rule)(places, None, &mut settings);
        usize::try_from(rule.age? / DAY).ok()
    }
}

/// The conversations of a tool as far as they are known before one is read.
fn found_files(source: &Source, places: &ToolFolders) -> Vec<ConversationFile> {
    let found = source.find(places).found.into_iter();
    let files = found.map(|found| ConversationFile {
        names: Vec::new(),
        path: found.path.to_string_lossy().into_owned(),
        cwd: String::new(),
        changed: found.modified.as_millis(),
        is_only: true,
    });
    files.collect()
}

/// The conversations that a tool has deleted at this time, in milliseconds, and that are nowhere else, and
/// when it may delete each.
fn deleted_by<'a>(
    deletion: &ToolDeletion,
    places: &ToolFolders,
    files: &'a [ConversationFile],
    then: i64,
) -> Vec<(&'a ConversationFile, i64)> {
    let mut settings = SettingsFiles::default();
    let users = (deletion.rule)(places, None, &mut settings);
    let projects: BTreeSet<&str> = files.iter().map(|file| file.cwd.as_str()).collect();
    let folder_of = |project| Some(Path::new(project)).filter(|folder| folder.is_absolute());
    let rules = projects.into_iter().map(|project| {
        let rule = (deletion.rule)(places, folder_of(project), &mut settings);
        (project, rule)
    });
    let rules: HashMap<&str, DeletionRule> = rules.collect();
    let strictest = rules.values().chain([&users]).filter_map(|rule| rule.age);
    let strictest = strictest.min().filter(|_| deletion.everywhere);
    // The conversations that were changed last come first.
    let mut newer: HashMap<Option<&Path>, usize> = HashMap::new();
    let due = files.iter().filter_map(|file| {
        let rule = rules[file.cwd.as_str()];
        let before = newer.entry(Path::new(&file.path).parent()).or_default();
        *before += 1;
        if !file.is_only {
            return None;
        }
        if rule.most.is_some_and(|most| *before > most) {
            return Some((file, file.changed));
        }
        let old_at = |age: Option<i64>| {
            let at = file.changed.saturating_add(age?);
            (at < then).then_some(at)
        };
        // Only what is old is looked into.
        let due = old_at(strictest.or(rule.age))?;
        let project = folder_of(&file.cwd);
        match (deletion.of_file)(places, project, Path::new(&file.path), &mut settings) {
            Some(own) => old_at(own.age).map(|own| (file, own.max(due))),
            None => Some((file, due)),
        }
    });
    due.collect()
}

/// Files with settings, each of which is read once: those of the user count for each project.
#[derive(Debug, Default)]
pub(super) struct SettingsFiles(HashMap<PathBuf, SettingsText>);

/// The text of a file with settings.
#[derive(Clone, Debug)]
enum SettingsText {
    Read(Arc<str>),
    /// There is no such file, or nothing in it.
    Missing,
    /// There is one, which cannot be read.
    Unreadable,
}

impl SettingsFiles {
    fn read(&mut self, path: PathBuf) -> SettingsText {
        let read = self.0.entry(path);
        let read = read.or_insert_with_key(|path| match fs::read_to_string(path) {
            Ok(text) if text.trim().is_empty() => SettingsText::Missing,
            Ok(text) => SettingsText::Read(text.into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => SettingsText::Missing,
            Err(_) => SettingsText::Unreadable,
        });
        read.clone()
    }

    /// The text of a file, if it can be read.
    pub(super) fn text(&mut self, path: PathBuf) -> Option<Arc<str>> {
        match self.read(path) {
            SettingsText::Read(text) => Some(text),
            SettingsText::Missing | SettingsText::Unreadable => None,
        }
    }
}

/// The settings of a tool in files of JSON, in which comments may be.
#[derive(Debug)]
pub(super) struct ToolSettings {
    /// The values of the files that are there, the most important first; none of a file that is broken.
    layers: Vec<Option<Value>>,
}

impl ToolSettings {
    /// Reads these files, the most important first.
    pub(super) fn read(
        files: &mut SettingsFiles,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let texts = paths.into_iter().map(|path| files.read(path));
        let layers = texts.filter_map(|text| match text {
            SettingsText::Read(text) => {
                Some(parse_to_serde_value(&text, &ParseOptions::default()).ok())
            }
            SettingsText::Missing => None,
            SettingsText::Unreadable => Some(None),
        });
        Self {
            layers: layers.collect(),
        }
    }

    /// Whether one of the files cannot be read: tools that delete by settings which they cannot know
    /// delete nothing.
    pub(super) fn are_broken(&self) -> bool {
        self.layers.iter().any(Option::is_none)
    }

    /// The value at a pointer, such as `/general/sessionRetention`, in the most important file that has
    /// it.
    pub(super) fn value(&self, pointer: &str) -> Option<&Value> {
        let mut layers = self.layers.iter().flatten();
        layers.find_map(|layer| layer.pointer(pointer))
    }
}

/// The integer of a key in a table of a file in TOML.
pub(super) fn toml_integer(text: &str, table: &str, key: &str) -> Option<i64> {
    let mut inside = String::new();
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            header.split(']').next()?.trim().clone_into(&mut inside);
        } else if let Some((name, value)) = line.split_once('=') {
            let whole = match inside.as_str() {
                "" => name.trim().to_owned(),
                inside => format!("{inside}.{}", name.trim()),
            };
            if whole == format!("{table}.{key}") {
                let value = value.split('#').next()?.trim().replace('_', "");
                found = value.parse().ok();
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, cwd: &str, days: i64, is_only: bool) -> ConversationFile {
        ConversationFile {
            names: Vec::new(),
            path: path.to_owned(),
            cwd: cwd.to_owned(),
            changed: -days * DAY,
            is_only,
        }
    }

    fn number(everywhere: bool, files: &[ConversationFile]) -> usize {
        let rule = |_: &ToolFolders, project: Option<&Path>, _: &mut SettingsFiles| match project {
            Some(project) if project.ends_with("short") => DeletionRule {
                age: Some(5 * DAY),
                most: None,
            },
            Some(project) if project.ends_with("few") => DeletionRule {
                age: None,
                most: Some(2),
            },
            _ => DeletionRule {
                age: Some(30 * DAY),
                most: None,
            },
        };
        let of_file = |_: &ToolFolders, _: Option<&Path>, path: &Path, _: &mut SettingsFiles| {
            path.ends_with("own").then(DeletionRule::default)
        };
        let deletion = ToolDeletion {
            rule,
            of_file,
            everywhere,
        };
        deleted_by(&deletion, &ToolFolders::default(), files, 7 * DAY).len()
    }

    #[test]
    fn a_conversation_is_deleted_by_its_age() {
        for (days, is_deleted) in [(0, 0), (22, 0), (23, 0), (24, 1), (40, 1)] {
            let files = [file("/a/1", "/home/ada", days, true)];
            assert_eq!(number(false, &files), is_deleted, "{days}");
        }
        let kept = [file("/a/1", "/home/ada", 40, false)];
        assert_eq!(number(false, &kept), 0);
        let exempt = [file("/a/own", "/home/ada", 40, true)];
        assert_eq!(number(false, &exempt), 0);
    }

    #[test]
    fn the_strictest_project_counts_where_the_tool_deletes_everywhere() {
        let files = [
            file("/a/1", "/srv/short", 0, true),
            file("/a/2", "/home/ada", 10, true),
        ];
        assert_eq!(number(false, &files), 1);
        assert_eq!(number(true, &files), 2);
    }

    #[test]
    fn a_limit_of_the_number_keeps_the_newest_of_a_project() {
        let files = [
            file("/few/chats/1", "/srv/few", 0, true),
            file("/few/chats/2", "/srv/few", 1, false),
            file("/few/chats/3", "/srv/few", 2, true),
            file("/few/chats/4", "/srv/few", 3, false),
            file("/other/chats/5", "/home/ada", 3, true),
        ];
        assert_eq!(number(false, &files), 1, "the third one");
    }

    #[test]
    fn an_integer_is_found_in_toml() {
        for (text, value) in [
            ("", None),
            ("[storage]\ncleanup_ttl_days = 9 # a while", Some(9)),
            (
                "[ storage ]\n other = 1\n cleanup_ttl_days=1_000",
                Some(1000),
            ),
            ("storage.cleanup_ttl_days = 3", Some(3)),
            ("[storage.deeper]\ncleanup_ttl_days = 9", None),
            ("[storage]\n[other]\ncleanup_ttl_days = 9", None),
            ("[storage]\ncleanup_ttl_days = \"9\"", None),
        ] {
            assert_eq!(
                toml_integer(text, "storage", "cleanup_ttl_days"),
                value,
                "{text:?}"
            );
        }
    }
}
