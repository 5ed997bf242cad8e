//! Files with updates of the protocol, from which `rejoin import` takes conversations of any tool.

#![expect(
    clippy::disallowed_methods,
    reason = "this command serves no client on stdin"
)]

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use rejoin::sources::Source;
use rejoin::sources::import::Importer;
use rejoin::sources::stream::{self, StreamOptions, UpdateStream};
use rejoin::sys::Timestamp;

use super::{Tally, names};

/// What an import is from.
#[derive(Clone, Debug)]
pub(super) enum ImportedFrom {
    /// The tool of this name.
    Source(String),
    /// A file, or stdin.
    File(PathBuf),
}

impl ImportedFrom {
    /// Whether it is this tool.
    pub(super) fn is_source(&self, source: &Source) -> bool {
        matches!(self, Self::Source(name) if name == source.name)
    }

    /// The path, if it is a file.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Source(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

/// Parses the name of a tool or the path of a file: what is a path or the name of a file that is there,
/// and no tool's name.
#[derive(Clone, Debug)]
pub(super) struct SourceOrFile;

impl TypedValueParser for SourceOrFile {
    type Value = ImportedFrom;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<ImportedFrom, clap::Error> {
        let is_source = names().any(|name| value == name);
        let path = Path::new(value);
        let is_path = value == STDIN || path.components().count() > 1 || path.exists();
        if is_path && !is_source {
            return Ok(ImportedFrom::File(path.to_owned()));
        }
        let names = PossibleValuesParser::new(names());
        let name = names.parse_ref(command, argument, value)?;
        Ok(ImportedFrom::Source(name))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(names().map(PossibleValue::new)))
    }
}

/// The path that means stdin.
const STDIN: &str = "-";

/// What the lines of a file may not say.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Of a file: the agent, if its lines do not name it.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Of a file: the working directory, if its lines do not name it; by default your home folder.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Of a file: the title.
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
}

impl Args {
    fn options(&self) -> io::Result<StreamOptions> {
        let cwd = self.cwd.as_ref().map(std::path::absolute).transpose()?;
        Ok(StreamOptions {
            agent: self.agent.clone(),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            title: self.title.clone(),
        })
    }
}

/// Imports the conversations in a file.
pub(super) fn import(importer: &Importer<'_>, file: &Path, args: &Args, now: Timestamp) -> Tally {
    let mut tally = Tally::default();
    match read(file, args, now) {
        Ok(stream) => {
            for (agent, conversation) in stream.conversations {
                let imported = importer.import_conversation(&agent, file, conversation);
                tally.add(file, imported);
            }
            tally.unknown.extend(stream.unknown);
            let damage = stream.damage.into_iter();
            let damage = damage.map(|damage| (file.to_owned(), damage));
            tally.damage.extend(damage);
        }
        Err(error) => {
            let error = format!("cannot read {}: {error}", file.display());
            tally.errors.push(error);
        }
    }
    tally
}

fn read(file: &Path, args: &Args, now: Timestamp) -> io::Result<UpdateStream> {
    let mut options = args.options()?;
    if file == Path::new(STDIN) {
        let bytes = stream::read_whole(&mut io::stdin().lock())?;
        // The first line stays when the conversation grows.
        let beginning = bytes.split(|byte| *byte == b'\n').next();
        let name = format!("{:x}", md5::compute(beginning.unwrap_or_default()));
        return Ok(stream::read(&bytes, &name, now, &options));
    }
    let opened = std::fs::File::open(file)?;
    let changed = Timestamp::of_system(opened.metadata()?.modified()?);
    let bytes = stream::read_whole(&mut { opened })?;
    if options.cwd.is_none() && stream::is_of_its_folder(&bytes) {
        let file = std::path::absolute(file)?;
        options.cwd = file
            .parent()
            .map(|folder| folder.to_string_lossy().into_owned());
    }
    Ok(stream::read(
        &bytes,
        &stream::name_of(file),
        changed,
        &options,
    ))
}
