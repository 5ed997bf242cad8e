//! How long a replay takes whose lines are shown in the form of version 2, against the same replay
//! in the form of version 1, which is that of the log.

use std::hint::black_box;

use rejoin::replay::v2::View;
use rejoin::replay::{Options, Replay};
use rejoin::store::Durability;
use rejoin::sys::SessionId;

use crate::client::timed;
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
    report.note("both from the log on disk to the lines in memory, on one thread");
    for (name, id, exact) in [
        ("200,000 chunks, exact", &long, true),
        ("the same, merged", &long, false),
        ("20,000 turns with tool calls", &many, true),
    ] {
        let log = std::fs::metadata(filled.log_path(id))?.len() as f64;
        let pairs = Pairs::measure(
            settings.rounds,
            || timed(|| play(&filled, id, exact, Some(View::new()))),
            || timed(|| play(&filled, id, exact, None)),
        )?;
        let detail = format!(
            "{} against {} for {:.1} MB of log",
            ms(pairs.ours()),
            ms(pairs.theirs()),
            log / 1e6
        );
        report.at_most(name, pairs.ratio(), 2.0, "x", &detail);
    }
    Ok(())
}

fn play(filled: &Filled, id: &SessionId, exact: bool, mut view: Option<View>) -> Result<()> {
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
