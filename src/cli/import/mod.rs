//! `rejoin import`.

mod files;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use rejoin::index::Catalog;
use rejoin::sources::import::{ImportError, ImportOutcome, ImportReport, Importer};
use rejoin::sources::{
    ChosenFiles, DamagedPlace, FoundConversation, FoundConversations, SOURCES, Source,
    ToolConversation, ToolFolders, UnknownKinds, gone,
};
use rejoin::store::{Durability, Store, StoreError};
use rejoin::sys::{Sys, with_causes};

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::term::{
    Look, Output, PLAIN, Progress, StyledLine, busy, count, masked_keys, note, printable, wrap,
};
use crate::cli::{sources, store_path};

/// How many columns the names of sources take, with the space behind them.
const NAMES: usize = 13;
/// How many damaged places are named.
const DAMAGE: usize = 3;

/// What to import.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tools to import from, all of them by default; or files with updates of the protocol as
    /// JSON lines, `-` for stdin.
    #[arg(value_name = "SOURCE|FILE", value_parser = files::SourceOrFile)]
    sources: Vec<files::ImportedFrom>,
    /// Print a JSON array with a report for each source.
    #[arg(long)]
    json: bool,
    /// Mask keys and tokens in what is copied, and say how many.
    #[arg(long)]
    redact: bool,
    /// Also make sessions of the prompts that are left of conversations which their tool has deleted
    /// (Claude Code, Codex).
    #[arg(long, conflicts_with = "watch")]
    prompts: bool,
    /// Keep importing what changes, until interrupted.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    files: files::Args,
}

impl Args {
    /// The sources to import from.
    fn chosen(&self) -> impl Iterator<Item = &'static Source> {
        let is_chosen = |source: &&Source| {
            let mut chosen = self.sources.iter();
            self.sources.is_empty() || chosen.any(|chosen| chosen.is_source(source))
        };
        SOURCES.iter().filter(is_chosen)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|source| source.name)
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let places = sources::places().ok_or_else(|| {
        Failure::new("cannot find the conversations of other tools: the home folder is unknown")
    })?;
    let root = store_path::root(global)?;
    let store = Store::open(&root, Sys::real(), Durability::Turn)?;
    let catalog = Catalog::open(store.clone());
    if args.watch {
        if args.sources.iter().any(|from| from.file().is_some()) {
            return Err(Failure::usage(
                "--watch follows tools, not files".to_owned(),
            ));
        }
        return watch::run(global, args, store, catalog, places, output);
    }
    let importer = Importer::new(&store, &catalog, &places.home)?.redacting(args.redact);
    let mut reports = Vec::new();
    let mut failed = 0;
    let mut without = 0;
    for source in args.chosen() {
        let mut search = source.find(&places);
        let copies = ChosenFiles::default().choose(source, &mut search.found);
        let mut tally = import(&importer, source, search, |_, _| {});
        *tally.outcomes.entry(ImportOutcome::Empty).or_default() += copies;
        if args.prompts {
            tally.add_gone(&importer, source, gone(source, &places, &store, &catalog));
        }
        failed += tally.errors.len();
        for error in &tally.errors {
            note(global, error, None);
        }
        tally.note_damage(global, args.json);
        if args.json {
            let folder = source.folder(&places);
            reports.push(tally.as_json(source.name, &folder));
        } else if args.sources.is_empty() && tally.is_empty() {
            without += 1;
        } else {
            for line in lines_of(source, &tally, &places, output.look()) {
                output.line(line)?;
            }
        }
    }
    for line in lines_without(without, output.look()) {
        output.line(line)?;
    }
    for file in args.sources.iter().filter_map(files::ImportedFrom::file) {
        let now = store.sys().clock.now();
        let tally = files::import(&importer, file, &args.files, now);
        failed += tally.errors.len();
        for error in &tally.errors {
            note(global, error, None);
        }
        tally.note_damage(global, args.json);
        let name = file.to_string_lossy();
        if args.json {
            reports.push(tally.as_json(&name, file));
        } else {
            let room = output.look().terminal.then_some(output.look().width);
            let room = room.map(|width| width.saturating_sub(NAMES));
            let name = printable(&name);
            for line in lines_below(&format!("{name} "), &tally.as_text("it"), room) {
                output.line(line)?;
            }
        }
    }
    if args.json {
        output.json(&reports.into())?;
    }
    if let Some(masked) = importer.masked() {
        note(global, &masked_keys(masked), None);
    }
    let doing = || "Removing what is masked from the index …".to_owned();
    if let Err(error) = busy(doing, || importer.erase_unmasked()) {
        let why = format!("what is masked may be left in index.sqlite: {error}");
        note(global, &why, None);
        failed += 1;
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::reported()),
    }
}

/// The lines about a source. People get lines that fit, the others of which are below the name.
fn lines_of(source: &Source, tally: &Tally, places: &ToolFolders, look: &Look) -> Vec<String> {
    let folder = source.folder(places);
    let (folder, room) = if look.terminal {
        let folder = look.folder(&folder.to_string_lossy());
        (folder, Some(look.width.saturating_sub(NAMES)))
    } else {
        (folder.display().to_string(), None)
    };
    lines_below(source.name, &tally.as_text(&folder), room)
}

/// The lines about tools without conversations.
fn lines_without(tools: usize, look: &Look) -> Vec<String> {
    if tools == 0 {
        return Vec::new();
    }
    let other = if tools == SOURCES.len() { "" } else { "other " };
    let tools = count(tools, &format!("{other}tool"));
    let text = format!(
        "No conversations of {tools}. `rejoin import --json` has the folders in which they are looked for."
    );
    let lines = wrap(&[(PLAIN, text)], look.terminal.then_some(look.width));
    let lines = lines.into_iter();
    lines.map(|line| StyledLine::of(line).text(false)).collect()
}

/// A text in lines of this length, beside a name.
fn lines_below(name: &str, text: &str, room: Option<usize>) -> Vec<String> {
    let lines = wrap(&[(PLAIN, text.to_owned())], room);
    let lines = lines.into_iter().enumerate().map(|(at, line)| {
        let name = if at == 0 { name } else { "" };
        let line = StyledLine::of(line).text(false);
        format!("{name:<NAMES$}{line}")
    });
    lines.collect()
}

/// The outcomes for the conversations of a source.
#[derive(Debug, Default)]
struct Tally {
    outcomes: BTreeMap<ImportOutcome, usize>,
    unknown: UnknownKinds,
    /// The damaged places, and the files that have them.
    damage: Vec<(PathBuf, DamagedPlace)>,
    keep_secrets: usize,
    errors: Vec<String>,
}

/// Imports what was found. `done` is called with each conversation that was read, and what became of
/// it.
fn import(
    importer: &Importer<'_>,
    source: &Source,
    search: FoundConversations,
    mut done: impl FnMut(&FoundConversation, ImportOutcome),
) -> Tally {
    let mut tally = Tally::default();
    for (path, error) in search.errors {
        let error = format!("cannot read {}: {error}", path.display());
        tally.errors.push(error);
    }
    let mut progress = Progress::new();
    let total = search.found.len();
    for (at, found) in search.found.iter().enumerate() {
        progress.at(|| {
            format!(
                "{}: {at} of {} …",
                source.name,
                count(total, "conversation")
            )
        });
        let imported = importer.import(source, found);
        if let Ok(report) = &imported {
            done(found, report.outcome);
        }
        tally.add(&found.path, imported);
    }
    progress.clear();
    tally
}

impl Tally {
    /// Adds the outcome for a conversation in a file.
    fn add(&mut self, file: &Path, imported: Result<ImportReport, ImportError>) {
        match imported {
            Ok(report) => {
                *self.outcomes.entry(report.outcome).or_default() += 1;
                self.unknown.extend(report.unknown);
                let damage = report.damage.into_iter();
                self.damage
                    .extend(damage.map(|damage| (file.to_owned(), damage)));
                self.keep_secrets += usize::from(report.keeps_secrets);
            }
            // A session that is being continued here is not touched.
            Err(ImportError::Store(StoreError::InUse { .. })) => {
                *self.outcomes.entry(ImportOutcome::Differs).or_default() += 1;
            }
            Err(error) => {
                let why = with_causes(&error);
                let error = format!("cannot import {}: {why}", file.display());
                self.errors.push(error);
            }
        }
    }

    /// Adds conversations of which only prompts are left.
    fn add_gone(
        &mut self,
        importer: &Importer<'_>,
        source: &Source,
        gone: Result<Vec<ToolConversation>, ImportError>,
    ) {
        match gone {
            Ok(gone) => {
                for conversation in gone {
                    let file = PathBuf::from(&conversation.id);
                    let imported = importer.import_conversation(source.agent, &file, conversation);
                    self.add(&file, imported);
                }
            }
            Err(error) => {
                let why = with_causes(&error);
                self.errors.push(format!("cannot import prompts: {why}"));
            }
        }
    }

    /// Says where damage was found, unless the report has it.
    fn note_damage(&self, global: &Global, has_report: bool) {
        if has_report {
            return;
        }
        for (path, damage) in self.damage.iter().take(DAMAGE) {
            let of = damage.subagent.as_ref();
            let of = of.map_or_else(String::new, |name| format!(", subagent {name}"));
            let (line, what) = (damage.line, damage.kind.as_str());
            let text = format!("{}{of}, line {line}: {what}", path.display());
            note(global, &text, None);
        }
        let more = self.damage.len().saturating_sub(DAMAGE);
        if more > 0 {
            let places = count(more, "further damaged line");
            note(
                global,
                &places,
                Some("`rejoin import --json` has all of them"),
            );
        }
    }

    /// Whether there was nothing to import.
    fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.outcomes.values().all(|number| *number == 0)
    }

    fn number(&self, outcome: ImportOutcome) -> usize {
        self.outcomes.get(&outcome).copied().unwrap_or(0)
    }

    fn already_here(&self) -> usize {
        self.number(ImportOutcome::Unchanged) + self.number(ImportOutcome::Recorded)
    }

    fn as_json(&self, source: &str, folder: &Path) -> Value {
        let damage = self.damage.iter().map(|(path, damage)| {
            let mut place = json!({
                "file": path,
                "line": damage.line,
                "what": damage.kind.as_str(),
            });
            if let Some(subagent) = &damage.subagent {
                place["subagent"] = subagent.as_str().into();
            }
            place
        });
        json!({
            "source": source,
            "folder": folder,
            "imported": self.number(ImportOutcome::Imported),
            "extended": self.number(ImportOutcome::Extended),
            "renewed": self.number(ImportOutcome::Renewed),
            "unchanged": self.already_here(),
            "differing": self.number(ImportOutcome::Differs),
            "deleted": self.number(ImportOutcome::Deleted),
            "empty": self.number(ImportOutcome::Empty),
            "failed": self.errors.len(),
            "unknownRecords": self.unknown.total(),
            "unknownKinds": self.unknown.iter().collect::<BTreeMap<_, _>>(),
            "damagedLines": self.damage.len(),
            "damage": damage.collect::<Vec<_>>(),
            "keepingSecrets": self.keep_secrets,
        })
    }

    fn as_text(&self, folder: &str) -> String {
        let parts = [
            (self.number(ImportOutcome::Imported), "imported"),
            (self.number(ImportOutcome::Extended), "extended"),
            (self.number(ImportOutcome::Renewed), "changed, and renewed"),
            (self.already_here(), "already here"),
            (
                self.number(ImportOutcome::Differs),
                "continued here, and left so",
            ),
            (self.number(ImportOutcome::Deleted), "in the trash"),
            (
                self.number(ImportOutcome::Empty),
                "without a prompt or part of another",
            ),
            (self.errors.len(), "failed"),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let mut parts: Vec<String> = parts
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        if self.is_empty() {
            return format!("no conversations in {}", printable(folder));
        }
        if self.unknown.total() > 0 {
            let unknown = count(self.unknown.total(), "unknown record");
            parts.push(format!("{unknown} left out"));
        }
        if !self.damage.is_empty() {
            parts.push(count(self.damage.len(), "damaged line"));
        }
        if self.keep_secrets > 0 {
            let sessions = count(self.keep_secrets, "session");
            parts.push(format!(
                "{sessions} with keys copied before, without --redact"
            ));
        }
        parts.join(", ")
    }
}
