//! Whether the first page of `session/list`, and making a session, take as long with 100 sessions
//! as with 100,000. A page holds up to 1,000, so it is longer with 100,000; a store of just 1,000
//! tells what is due to that.

use std::path::Path;
use std::time::Duration;

use rejoin::store::Durability;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const FEW: usize = 100;
/// As many as a page holds.
const PAGE: usize = 1000;

type Measure = fn(&Path) -> Result<Duration>;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = |sessions| -> Result<Filled> {
        let filled = Filled::new(Durability::Os)?;
        filled.sessions(sessions)?;
        Ok(filled)
    };
    let (few, page, many) = (filled(FEW)?, filled(PAGE)?, filled(settings.sessions)?);
    report.note(&format!("{} sessions against {FEW}", settings.sessions));
    for (store, sessions) in [(&few, FEW), (&page, PAGE), (&many, settings.sessions)] {
        let mut client = Client::initialized(store.path(), &[])?;
        let time = timed(|| client.call("session/list", "{}").map(drop))?;
        let detail = format!("the first list ever, {} threads", threads());
        let name = format!("rebuild of {sessions}");
        report.figure(&name, &ms(time.as_secs_f64()), &detail);
    }
    let measures: [(&str, Measure); 4] = [
        ("first list of a process", first_list),
        ("a further list", further_list),
        ("session/new", new_session),
        ("session/new, then list", new_and_list),
    ];
    for (name, measure) in measures {
        let pairs = Pairs::measure(
            settings.rounds,
            || measure(many.path()),
            || measure(few.path()),
        )?;
        let detail = format!("{}; few {}", ms(pairs.ours()), ms(pairs.theirs()));
        report.at_most(name, pairs.ratio(), 3.0, "x", &detail);
    }
    for (name, measure) in measures.into_iter().take(2) {
        let pairs = Pairs::measure(
            settings.rounds,
            || measure(many.path()),
            || measure(page.path()),
        )?;
        let detail = format!("{}; a page {}", ms(pairs.ours()), ms(pairs.theirs()));
        let name = format!("{name}, page against page");
        report.at_most(&name, pairs.ratio(), 1.5, "x", &detail);
    }
    Ok(())
}

pub(crate) fn first_list(store: &Path) -> Result<Duration> {
    let mut client = Client::initialized(store, &[])?;
    timed(|| client.call("session/list", "{}").map(drop))
}

pub(crate) fn further_list(store: &Path) -> Result<Duration> {
    let mut client = Client::initialized(store, &[])?;
    client.call("session/list", "{}")?;
    timed(|| client.call("session/list", "{}").map(drop))
}

fn new_session(store: &Path) -> Result<Duration> {
    let mut client = Client::initialized(store, &[])?;
    client.new_session()?;
    timed(|| client.new_session().map(drop))
}

fn new_and_list(store: &Path) -> Result<Duration> {
    let mut client = Client::initialized(store, &[])?;
    client.call("session/list", "{}")?;
    timed(|| {
        client.new_session()?;
        client.call("session/list", "{}").map(drop)
    })
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
