//! Whether the first page of `session/list`, and making a session, take as long with 100 sessions
//! as with 100,000.

use std::time::Duration;

use rejoin::store::Durability;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const FEW: usize = 100;

type Measure = fn(&Filled) -> Result<Duration>;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let (few, many) = (Filled::new(Durability::Os)?, Filled::new(Durability::Os)?);
    few.sessions(FEW)?;
    many.sessions(settings.sessions)?;
    report.note(&format!("{} sessions against {FEW}", settings.sessions));
    for (store, name) in [(&few, "rebuild, few"), (&many, "rebuild, many")] {
        let mut client = Client::initialized(store.path(), &[])?;
        let time = timed(|| client.call("session/list", "{}").map(drop))?;
        let detail = format!("the first list ever, {} threads", threads());
        report.figure(name, &ms(time.as_secs_f64()), &detail);
    }
    let measures: [(&str, Measure); 4] = [
        ("first list of a process", first_list),
        ("a further list", further_list),
        ("session/new", new_session),
        ("session/new, then list", new_and_list),
    ];
    for (name, measure) in measures {
        let pairs = Pairs::measure(settings.rounds, || measure(&many), || measure(&few))?;
        let detail = format!("{}; few {}", ms(pairs.ours()), ms(pairs.theirs()));
        report.at_most(name, pairs.ratio(), 3.0, "x", &detail);
    }
    Ok(())
}

fn first_list(store: &Filled) -> Result<Duration> {
    let mut client = Client::initialized(store.path(), &[])?;
    timed(|| client.call("session/list", "{}").map(drop))
}

fn further_list(store: &Filled) -> Result<Duration> {
    let mut client = Client::initialized(store.path(), &[])?;
    client.call("session/list", "{}")?;
    timed(|| client.call("session/list", "{}").map(drop))
}

fn new_session(store: &Filled) -> Result<Duration> {
    let mut client = Client::initialized(store.path(), &[])?;
    client.new_session()?;
    timed(|| client.new_session().map(drop))
}

fn new_and_list(store: &Filled) -> Result<Duration> {
    let mut client = Client::initialized(store.path(), &[])?;
    client.call("session/list", "{}")?;
    timed(|| {
        client.new_session()?;
        client.call("session/list", "{}").map(drop)
    })
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
