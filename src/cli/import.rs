//! `rejoin import`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::index::Catalog;
use crate::sources::import::{ImportError, Importer, Outcome};
use crate::sources::{Places, SOURCES, Source};
use crate::store::{Durability, Store, StoreError};
use crate::sys::{Sys, with_causes};

use super::count::count;
use super::exit::Failure;
use super::global::Global;
use super::note::note;
use super::output::Output;
use super::store;
use super::terminal::Progress;

/// What to import.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tools to import from; all of them by default.
    #[arg(value_name = "SOURCE", value_parser = source)]
    sources: Vec<&'static Source>,
    /// Print a JSON array with a report for each source.
    #[arg(long)]
    json: bool,
}

fn source(name: &str) -> Result<&'static Source, String> {
    let found = SOURCES.iter().find(|source| source.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
        format!(
            "there is no source of this name; those known are {}",
            names.join(", ")
        )
    })
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| {
        Failure::new("cannot find the conversations of other tools: the home folder is unknown")
    })?;
    let places = Places {
        variables: variables(),
        home,
    };
    let root = store::root(global)?;
    let store = Store::open(&root, Sys::real(), Durability::Turn)?;
    let catalog = Catalog::open(store.clone());
    let importer = Importer::new(&store, &catalog, &places.home)?;
    let mut chosen: Vec<&Source> = args.sources.clone();
    if chosen.is_empty() {
        chosen.extend(SOURCES.iter());
    }
    let mut reports = Vec::new();
    let mut failed = 0;
    for source in chosen {
        let mut search = source.find(&places);
        let mut progress = Progress::new();
        let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
        let mut skipped = 0;
        let mut errors = Vec::new();
        for (path, error) in search.errors.drain(..) {
            errors.push(format!("cannot read {}: {error}", path.display()));
        }
        let total = search.found.len();
        for (at, found) in search.found.iter().enumerate() {
            progress.at(|| format!("{}: {at} of {} …", source.name, count(total, "file")));
            match importer.import(source, found) {
                Ok(report) => {
                    *outcomes.entry(report.outcome).or_default() += 1;
                    skipped += report.skipped;
                }
                // One that is being continued here is not touched.
                Err(ImportError::Store(StoreError::InUse { .. })) => {
                    *outcomes.entry(Outcome::Differs).or_default() += 1;
                }
                Err(error) => {
                    let why = with_causes(&error);
                    errors.push(format!("cannot import {}: {why}", found.path.display()));
                }
            }
        }
        progress.clear();
        failed += errors.len();
        for error in &errors {
            note(global, error, None);
        }
        let number = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
        if args.json {
            reports.push(json!({
                "source": source.name,
                "folder": (source.root)(&places),
                "imported": number(Outcome::Imported),
                "extended": number(Outcome::Extended),
                "unchanged": number(Outcome::Unchanged) + number(Outcome::Recorded),
                "differing": number(Outcome::Differs),
                "deleted": number(Outcome::Deleted),
                "empty": number(Outcome::Empty),
                "failed": errors.len(),
                "skippedRecords": skipped,
            }));
        } else {
            output.line(line(source, total, number, skipped))?;
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

/// A source and what became of its conversations, on one line.
fn line(
    source: &Source,
    files: usize,
    number: impl Fn(Outcome) -> usize,
    skipped: usize,
) -> String {
    let parts = [
        (number(Outcome::Imported), "imported"),
        (number(Outcome::Extended), "extended"),
        (
            number(Outcome::Unchanged) + number(Outcome::Recorded),
            "already here",
        ),
        (
            number(Outcome::Differs),
            "continued here and left as they are",
        ),
        (number(Outcome::Deleted), "in the trash and left there"),
        (
            number(Outcome::Empty),
            "without a conversation of their own",
        ),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let mut parts: Vec<String> = parts
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if skipped > 0 {
        parts.push(format!(
            "{} left out",
            count(skipped, "unknown or damaged record")
        ));
    }
    let result = match (files, parts.is_empty()) {
        (0, _) => "no conversations".to_owned(),
        (_, true) => "nothing".to_owned(),
        _ => parts.join(", "),
    };
    format!("{:<12} {result}", source.name)
}

/// The folders that the environment names.
fn variables() -> BTreeMap<&'static str, PathBuf> {
    let named = Places::VARIABLES.into_iter().filter_map(|name| {
        let folder = std::env::var_os(name).filter(|folder| !folder.is_empty())?;
        Some((name, PathBuf::from(folder)))
    });
    named.collect()
}
