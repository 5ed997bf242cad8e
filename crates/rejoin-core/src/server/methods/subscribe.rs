//! `session/list/subscribe` and `session/list/unsubscribe`: a list of whose changes the
//! client is notified.

use serde::Deserialize;

use crate::index::Filter;
use crate::json::{Members, quoted};
use crate::server::error::{self, Error};

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::list::Listing;
use super::params::decode;

/// Answers with the first page of the list.
pub(super) fn subscribe(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let mut listing = Listing::read(context, params)?;
    let registry = context.registry().clone();
    let changes = context.changes().clone();
    Ok(RequestAction::Held(Box::pin(async move {
        // The client does not know the subscription before the response.
        let hold = changes.hold(None);
        let filter = listing.filter(registry.deps());
        let scope = Filter {
            cwd: filter.cwd,
            worktrees: filter.worktrees,
            ..Filter::default()
        };
        // Before the page is read, so that no change in between is lost.
        let Some(id) = changes.subscribe(&registry, scope, listing.form.clone()) else {
            return ((Err(too_many()), None), hold);
        };
        listing.form.reported_to = Some(changes.clone());
        let (page, room) = listing.page(&registry).await;
        if page.is_err() {
            changes.unsubscribe(&id);
        }
        let page = page.map(|page| {
            let mut result = Members::default().with("subscriptionId", quoted(&id));
            result.set_all(&page);
            result.text()
        });
        ((page, room), hold)
    })))
}

/// The connection has as many subscriptions as it may have.
pub(super) fn too_many() -> Error {
    error::invalid_params("there are too many subscriptions: end one first")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnsubscribeParams {
    subscription_id: String,
}

/// Ends a subscription. One that does not exist has ended.
pub(super) fn unsubscribe(
    context: &ConnectionContext,
    params: &str,
) -> Result<RequestAction, Error> {
    let ended = decode::<UnsubscribeParams>(params)?;
    context.changes().unsubscribe(&ended.subscription_id);
    Ok(RequestAction::Answer("{}".to_owned()))
}
