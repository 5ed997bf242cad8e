//! `rejoin sessions show`.

use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::cli::sources;
use crate::record::transcript::Transcript;
use crate::record::{InVersion1, Kind};

use super::context::Context;
use super::id::find_readable;

/// What to show.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's ID.
    #[arg(value_name = "ID")]
    id: String,
    /// Print a JSON object with the header, the conversation and any damage.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let id = find_readable(context, &args.id)?;
    let mut reader = context.read(&id)?;
    let (mut transcript, mut converted) = (Transcript::default(), InVersion1::new());
    let mut ends = Vec::new();
    while let Some(entry) = reader.next()? {
        converted.record(&entry.record, &mut |record| transcript.record(record));
        if entry.record.kind == Kind::End {
            let end: Value = serde_json::from_str(entry.record.payload).unwrap_or_default();
            ends.push(end);
        }
    }
    converted.finish(&mut |record| transcript.record(record));
    let damage: Vec<_> = reader.damage().to_vec();
    let header = reader.header();
    if args.json {
        return output.json(&json!({
            "header": header,
            "entries": transcript.entries,
            "state": transcript.state,
            "turnEnds": ends,
            "damage": damage,
        }));
    }
    output.line(format!("{id}  {}", printable(&header.place.cwd)))?;
    output.line("")?;
    output.line(printable(transcript.text().trim_end()))?;
    let state = transcript.state_text();
    if !state.is_empty() {
        output.line("")?;
        output.line(printable(&state))?;
    }
    if let Some(end) = ends.last().filter(|end| end["stopReason"] != "end_turn") {
        output.line("")?;
        output.line(printable(&format!(
            "The last turn did not end normally: {end}"
        )))?;
    }
    for damage in damage {
        output.line(format!("Damage: {damage}"))?;
    }
    Ok(())
}
