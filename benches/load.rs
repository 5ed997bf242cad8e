//! Whether the time to load a session grows only with the session, and not with the store.

use std::time::Duration;

use rejoin::store::Durability;
use rejoin::sys::SessionId;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const FEW: usize = 100;
/// Turns of a long session, and of one that is a tenth of it.
const TURNS: usize = 100_000;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let few = Filled::new(Durability::Os)?;
    few.sessions(FEW)?;
    let short = few.many_turns(FEW)?;
    let tenth = few.many_turns(TURNS / 10)?;
    let long = few.many_turns(TURNS)?;
    let once = load(&few, &short)?;
    report.note(&format!("{FEW} turns load in {}", ms(once.as_secs_f64())));
    let pairs = Pairs::measure(settings.rounds, || load(&few, &long), || load(&few, &tenth))?;
    let detail = format!(
        "{:.2} us; with a tenth of the turns {:.2} us",
        pairs.ours() * 1e6 / TURNS as f64,
        pairs.theirs() * 1e7 / TURNS as f64
    );
    let name = format!("a turn of {TURNS}");
    report.at_most(&name, pairs.ratio() / 10.0, 1.5, "x", &detail);

    let many = Filled::new(Durability::Os)?;
    many.sessions(settings.sessions)?;
    let same = many.many_turns(FEW)?;
    for store in [&few, &many] {
        // So that both catalogs are there.
        Client::initialized(store.path(), &[])?.call("session/list", "{}")?;
    }
    let pairs = Pairs::measure(
        settings.rounds,
        || load(&many, &same),
        || load(&few, &short),
    )?;
    let detail = format!("{}; few {}", ms(pairs.ours()), ms(pairs.theirs()));
    let name = format!("{FEW} turns among {} sessions", settings.sessions);
    report.at_most(&name, pairs.ratio(), 1.5, "x", &detail);
    Ok(())
}

fn load(store: &Filled, id: &SessionId) -> Result<Duration> {
    let mut client = Client::initialized(store.path(), &[])?;
    timed(|| {
        let load = client.ask_load(id)?;
        client.output.until_answer(load).map(drop)
    })
}
