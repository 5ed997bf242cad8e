//! The conversations of other tools: which of them will be deleted by their tool.

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::sessions::context::{CommandContext, unread};
use crate::cli::sources;
use crate::cli::store_path;
use crate::cli::term::count;
use rejoin::engine::known::title;
use rejoin::sources::{DueConversation, SOURCES, Source, gone};
use rejoin::sys::Sys;

use super::finding::Finding;

/// The name of the check.
const CHECK: &str = "conversations";

/// The findings; none if no other tool was used here, or none is listed.
pub(super) fn check(global: &Global) -> Vec<Finding> {
    find(global).unwrap_or_else(|failure| {
        let finding = Finding::warning(CHECK, failure.message(), "make their files readable");
        vec![finding]
    })
}

/// The findings. A store is not created for them.
fn find(global: &Global) -> Result<Vec<Finding>, Failure> {
    let live = sources::usual(global)?.filter(|live| live.are_there());
    let (root, sys) = (store_path::root(global)?, Sys::real());
    let Some(live) = live else {
        return Ok(Vec::new());
    };
    let now = sys.clock.now();
    let mut gone = Vec::new();
    // The check of the store reports one that cannot be looked at.
    let Ok(is_there) = store_path::is_there(&root, &sys) else {
        return Ok(Vec::new());
    };
    let soon = if is_there {
        let mut context = CommandContext::open(global, &root, sys)?;
        context.live = Some(live.clone());
        gone = gone_conversations(&context)?;
        let catalog = context.tools()?.map(|tools| &tools.catalog);
        sources::soon_deleted(&live, catalog, now)
    } else {
        sources::soon_deleted(&live, None, now)
    };
    let mut findings: Vec<_> = soon
        .map_err(|error| unread(&error))?
        .iter()
        .map(soon_deleted)
        .collect();
    if findings.is_empty() {
        let what = "no other tool will delete one in the next 7 days that has no copy here";
        findings.push(Finding::ok(CHECK, what));
    }
    findings.extend(gone.iter().map(prompts));
    Ok(findings)
}

/// Of how many conversations of each tool only prompts are left.
fn gone_conversations(
    context: &CommandContext<'_>,
) -> Result<Vec<(&'static Source, usize)>, Failure> {
    let Some(places) = sources::places() else {
        return Ok(Vec::new());
    };
    let mut numbers = Vec::new();
    for source in &SOURCES {
        let found = gone(source, &places, &context.store, &context.catalog);
        let number = found.map_err(|error| unread(&error))?.len();
        if number > 0 {
            numbers.push((source, number));
        }
    }
    Ok(numbers)
}

fn prompts((source, number): &(&Source, usize)) -> Finding {
    let tool = title(source.agent);
    let conversations = count(*number, "conversation");
    let what = format!("{tool} has deleted {conversations} of which your prompts are left");
    let name = source.name;
    let hint = format!("`rejoin import --prompts {name}` makes sessions of them, to read");
    Finding::ok(CHECK, what).hint(hint)
}

fn soon_deleted((source, due): &(&Source, Vec<DueConversation>)) -> Finding {
    let days = sources::places().and_then(|places| source.days_kept(&places));
    let rule = days.map_or(String::new(), |days| {
        format!(", since it keeps them for {}", count(days, "day"))
    });
    let name = source.name;
    Finding::warning(
        CHECK,
        format!(
            "{} will delete {} in the next 7 days, when it is started{rule}",
            title(source.agent),
            count(due.len(), "conversation")
        ),
        format!("`rejoin import {name}` copies them; `rejoin setup import` copies new ones, too"),
    )
}
