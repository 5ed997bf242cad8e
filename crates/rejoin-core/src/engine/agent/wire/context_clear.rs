//! Follows an agent that clears its context.
//!
//! Claude Agent goes on in a new session of its own then, and does not name it. It is the one that the
//! agent lists after the turn and did not list before.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::json::{string_member, text_member};
use crate::transport::Outcome;

use super::connection::AgentConnection;
use super::list;
use crate::engine::agent::route::SessionRoute;

/// How the options begin with which the user has Claude Agent clear its context.
const CLEARS: &str = "exit-plan-clear-";

/// How the first prompt of the new session begins, and so its title.
const PLAN: &str = "Implement the following plan:";

/// Whether the answer to a request for permission has Claude Agent clear its context.
pub(in crate::engine::agent) fn clears_context(result: &str) -> bool {
    let outcome = text_member(result, "outcome");
    let option = outcome.and_then(|outcome| string_member(outcome, "optionId"));
    option.is_some_and(|option| option.starts_with(CLEARS))
}

/// The agent is about to get an answer to a request for permission. Takes note of the sessions that it
/// has, if that clears its context.
pub(super) async fn prepare(
    connection: &Arc<AgentConnection>,
    route: &SessionRoute,
    answer: &Outcome,
) {
    if answer.as_ref().is_ok_and(|result| clears_context(result)) {
        route.context_clears(list::titles(connection, route.folder()).await);
    }
}

/// The session in which the agent has gone on, if it had the sessions `before` when it was about to clear
/// its context. Takes as long as a look at the agent's list.
pub(in crate::engine::agent) async fn new_session(
    connection: &Arc<AgentConnection>,
    route: &SessionRoute,
    before: BTreeMap<String, String>,
) -> Option<String> {
    let mut after = list::titles(connection, route.folder()).await?;
    after.retain(|id, _| connection.routes.get(id).is_none());
    only_new(&before, &after)
}

/// The session that only the second list has, each with the titles by the ids. If there are several,
/// such as those of other programs, the title decides.
fn only_new(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Option<String> {
    let mut new: Vec<_> = after.iter().collect();
    new.retain(|(id, _)| !before.contains_key(*id));
    if new.len() > 1 {
        new.retain(|(_, title)| title.starts_with(PLAN));
    }
    match new[..] {
        [(id, _)] => Some(id.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_clear_the_context() {
        let outcome = |option: &str| {
            format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}"#)
        };
        for (result, clears) in [
            (outcome("exit-plan-clear-auto"), true),
            (outcome("exit-plan-auto"), false),
            (outcome("not-exit-plan-clear-auto"), false),
            (r#"{"message":"exit-plan-clear-auto"}"#.to_owned(), false),
        ] {
            assert_eq!(clears_context(&result), clears, "{result}");
        }
    }

    #[test]
    fn the_new_session_is_known_by_being_new_or_by_its_title() {
        let list = |entries: &[(&str, &str)]| {
            let entries = entries.iter();
            let entries = entries.map(|(id, title)| ((*id).to_owned(), (*title).to_owned()));
            entries.collect::<BTreeMap<_, _>>()
        };
        let plan = format!("{PLAN} # A plan");
        let before = list(&[("a", "one"), ("b", &plan)]);
        for (after, expected) in [
            (list(&[("a", "one"), ("b", &plan)]), None),
            (list(&[("a", "one"), ("c", "any")]), Some("c")),
            (list(&[("c", "any"), ("d", &plan)]), Some("d")),
            (list(&[("c", "any"), ("d", "other")]), None),
            (list(&[("c", &plan), ("d", &plan)]), None),
        ] {
            assert_eq!(only_new(&before, &after).as_deref(), expected);
        }
    }
}
