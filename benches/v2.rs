//! How long a replay takes whose lines are shown in the form of version 2, against the same replay
//! in the form of version 1, which is that of the log: through the whole program, and of that only
//! what makes the lines.

use std::hint::black_box;

use rejoin::protocol::v2::V2View;
use rejoin::replay::{Options, Replay};
use rejoin::store::Durability;
use rejoin::sys::SessionId;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const CHUNKS: usize = 200_000;
const TEXT: usize = 155;
const TURNS: usize = 20_000;
/// How much is shown at once, in bytes; as much as a replay puts into the writer.
const BLOCK: usize = 64 * 1024;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let long = filled.long_answer(CHUNKS, TEXT)?;
    let many = filled.many_turns(TURNS)?;
    report.note("first of whole processes, to the answer; then on one thread, to lines in memory");
    let asked = [
        ("200,000 chunks, exact", &long, true),
        ("the same, merged", &long, false),
        ("20,000 turns with tool calls", &many, true),
    ];
    for (name, id, exact) in asked {
        let pairs = Pairs::measure(
            settings.rounds,
            || timed(|| replay(&filled, id, exact, true)),
            || timed(|| replay(&filled, id, exact, false)),
        )?;
        tell(&filled, name, id, &pairs, report)?;
    }
    for (name, id, exact) in asked {
        let pairs = Pairs::measure(
            settings.rounds,
            || timed(|| play(&filled, id, exact, Some(V2View::new()))),
            || timed(|| play(&filled, id, exact, None)),
        )?;
        tell(&filled, &format!("lines: {name}"), id, &pairs, report)?;
    }
    Ok(())
}

fn tell(
    filled: &Filled,
    name: &str,
    id: &SessionId,
    pairs: &Pairs,
    report: &mut Report,
) -> Result<()> {
    let log = std::fs::metadata(filled.log_path(id))?.len() as f64;
    let (ours, theirs) = (ms(pairs.ours()), ms(pairs.theirs()));
    let detail = format!("{ours} against {theirs} for {:.1} MB of log", log / 1e6);
    report.at_most(name, pairs.ratio(), 2.0, "x", &detail);
    Ok(())
}

/// Starts the program and has it replay a session.
fn replay(filled: &Filled, id: &SessionId, exact: bool, is_v2: bool) -> Result<()> {
    let options: &[&str] = if exact { &["--replay", "exact"] } else { &[] };
    let (mut client, asked);
    if is_v2 {
        client = Client::start_v2(filled.path(), options)?;
        asked = client.ask_replay(id)?;
    } else {
        client = Client::start(filled.path(), options)?;
        asked = client.ask_load(id)?;
    }
    client.output.until_answer(asked)?;
    Ok(())
}

fn play(filled: &Filled, id: &SessionId, exact: bool, mut view: Option<V2View>) -> Result<()> {
    let mut reader = filled.store.read(id)?;
    let options = Options {
        exact,
        ..Options::default()
    };
    let mut replay = Replay::new(id.as_str(), options);
    let (mut lines, mut shown) = (Vec::new(), Vec::new());
    let mut show = |lines: &mut Vec<u8>| {
        if let Some(view) = &mut view {
            view.lines(lines, &mut shown);
            black_box(&shown);
            shown.clear();
        }
        black_box(&lines);
        lines.clear();
    };
    while let Some(entry) = reader.next()? {
        replay.record(&entry.record, &mut lines);
        if lines.len() >= BLOCK {
            show(&mut lines);
        }
    }
    replay.finish(&mut lines);
    show(&mut lines);
    Ok(())
}
