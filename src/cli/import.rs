//! `rejoin import`.

use std::collections::BTreeMap;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::index::Catalog;
use crate::sources::import::{ImportError, Importer, Outcome};
use crate::sources::{SOURCES, Search, Source};
use crate::store::{Durability, Store, StoreError};
use crate::sys::{Sys, with_causes};

use super::count::count;
use super::exit::Failure;
use super::global::Global;
use super::note::note;
use super::output::Output;
use super::printable::printable;
use super::terminal::Progress;
use super::{sources, store};

/// What to import.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tools to import from; all of them by default.
    #[arg(value_name = "SOURCE", value_parser = PossibleValuesParser::new(names()))]
    sources: Vec<String>,
    /// Print a JSON array with a report for each source.
    #[arg(long)]
    json: bool,
    /// Mask keys and tokens in what is copied.
    #[arg(long)]
    redact: bool,
}

fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|source| source.name)
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let places = sources::places().ok_or_else(|| {
        Failure::new("cannot find the conversations of other tools: the home folder is unknown")
    })?;
    let root = store::root(global)?;
    let store = Store::open(&root, Sys::real(), Durability::Turn)?;
    let catalog = Catalog::open(store.clone());
    let importer = Importer::new(&store, &catalog, &places.home)?.redacting(args.redact);
    let is_chosen = |source: &&Source| {
        args.sources.is_empty() || args.sources.iter().any(|name| name == source.name)
    };
    let mut reports = Vec::new();
    let mut failed = 0;
    for source in SOURCES.iter().filter(is_chosen) {
        let tally = import(&importer, source, source.find(&places));
        failed += tally.errors.len();
        for error in &tally.errors {
            note(global, error, None);
        }
        let folder = (source.root)(&places);
        if args.json {
            reports.push(tally.as_json(source, &folder));
        } else {
            output.line(format!("{:<12} {}", source.name, tally.as_text(&folder)))?;
        }
    }
    if args.json {
        output.json(&reports.into())?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::reported()),
    }
}

/// What became of the conversations of a source.
#[derive(Debug, Default)]
struct Tally {
    outcomes: BTreeMap<Outcome, usize>,
    unknown: usize,
    damaged: usize,
    keep_secrets: usize,
    errors: Vec<String>,
}

fn import(importer: &Importer<'_>, source: &Source, search: Search) -> Tally {
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
        match importer.import(source, found) {
            Ok(report) => {
                *tally.outcomes.entry(report.outcome).or_default() += 1;
                tally.unknown += report.unknown;
                tally.damaged += report.damaged;
                tally.keep_secrets += usize::from(report.keeps_secrets);
            }
            // One that is being continued here is not touched.
            Err(ImportError::Store(StoreError::InUse { .. })) => {
                *tally.outcomes.entry(Outcome::Differs).or_default() += 1;
            }
            Err(error) => {
                let why = with_causes(&error);
                let error = format!("cannot import {}: {why}", found.path.display());
                tally.errors.push(error);
            }
        }
    }
    progress.clear();
    tally
}

impl Tally {
    fn number(&self, outcome: Outcome) -> usize {
        self.outcomes.get(&outcome).copied().unwrap_or(0)
    }

    fn already_here(&self) -> usize {
        self.number(Outcome::Unchanged) + self.number(Outcome::Recorded)
    }

    fn as_json(&self, source: &Source, folder: &Path) -> Value {
        json!({
            "source": source.name,
            "folder": folder,
            "imported": self.number(Outcome::Imported),
            "extended": self.number(Outcome::Extended),
            "unchanged": self.already_here(),
            "differing": self.number(Outcome::Differs),
            "deleted": self.number(Outcome::Deleted),
            "empty": self.number(Outcome::Empty),
            "failed": self.errors.len(),
            "unknownRecords": self.unknown,
            "damagedLines": self.damaged,
            "keepingSecrets": self.keep_secrets,
        })
    }

    fn as_text(&self, folder: &Path) -> String {
        let parts = [
            (self.number(Outcome::Imported), "imported"),
            (self.number(Outcome::Extended), "extended"),
            (self.already_here(), "already here"),
            (self.number(Outcome::Differs), "different here, and left so"),
            (self.number(Outcome::Deleted), "in the trash"),
            (
                self.number(Outcome::Empty),
                "without a prompt or part of another",
            ),
            (self.errors.len(), "failed"),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let mut parts: Vec<String> = parts
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        if parts.is_empty() {
            return format!(
                "no conversations in {}",
                printable(&folder.to_string_lossy())
            );
        }
        let left_out = [
            (self.unknown, "unknown record"),
            (self.damaged, "damaged line"),
        ];
        let left_out = left_out.into_iter().filter(|(number, _)| *number > 0);
        parts.extend(left_out.map(|(number, what)| format!("{} left out", count(number, what))));
        if self.keep_secrets > 0 {
            let sessions = count(self.keep_secrets, "session");
            parts.push(format!(
                "{sessions} with keys copied before, without --redact"
            ));
        }
        parts.join(", ")
    }
}
