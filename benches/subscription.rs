//! How soon a client that subscribes to a large list is notified of a change that another process
//! makes, and what the subscription costs while nothing changes.

use std::thread::sleep;
use std::time::Duration;

use rejoin::store::Durability;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Report, median, ms};
use crate::{Result, Settings};

/// How long nothing changes.
const QUIET: Duration = Duration::from_secs(20);

/// When every process checks and indexes its store in the background, and how often it is seen
/// whether it has done that.
const MAINTENANCE: Duration = Duration::from_secs(15);
const STEP: Duration = Duration::from_secs(2);

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let store = Filled::new(Durability::Os)?;
    store.sessions(settings.sessions)?;
    report.note(&format!("{} sessions", settings.sessions));
    let ids = store.store.ids()?;
    let mut watching = Client::initialized(store.path(), &["--unstable"])?;
    let mut other = Client::initialized(store.path(), &["--unstable"])?;
    other.call("session/list", "{}")?;
    let subscribe = || watching.call("session/list/subscribe", "{}").map(drop);
    let time = timed(subscribe)?;
    report.figure(
        "subscribing",
        &ms(time.as_secs_f64()),
        "the first page, after a rebuild",
    );
    let mut times = Vec::new();
    for id in ids.iter().take(settings.rounds) {
        let params = format!(r#"{{"sessionId":"{id}","title":"Another title"}}"#);
        let time = timed(|| {
            other.call("session/set_title", &params)?;
            watching.output.until_text(id.as_str())
        })?;
        times.push(time.as_secs_f64());
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let detail = format!("from the request; the slowest {}", ms(slowest));
    report.at_most(
        "a change is sent",
        median(times) * 1000.0,
        100.0,
        "ms",
        &detail,
    );
    settle(&watching)?;
    let before = watching.cpu_time()?;
    sleep(QUIET);
    let used = watching.cpu_time()?.saturating_sub(before).as_secs_f64();
    let share = 100.0 * used / QUIET.as_secs_f64();
    let detail = format!("of a core over {} s", QUIET.as_secs());
    report.at_most("while nothing changes", share, 1.0, "%", &detail);
    Ok(())
}

/// Waits until the process has done what it does after its start, whether there is a subscription or
/// not.
fn settle(client: &Client) -> Result<()> {
    sleep(MAINTENANCE);
    for _ in 0..60 {
        let before = client.cpu_time()?;
        sleep(STEP);
        if client.cpu_time()?.saturating_sub(before) < STEP / 100 {
            break;
        }
    }
    Ok(())
}
