//! `session/list/subscribe` and `session/list/unsubscribe`: a list of whose changes the
//! client is notified.

use serde::Deserialize;

use crate::index::Filter;
use crate::json::{quoted, text_members};
use crate::server::error::{self, Error};

use super::action::Action;
use super::context::Context;
use super::list::Listing;
use super::params::decode;
use super::result::Object;

/// Answers with the first page of the list.
pub(super) fn subscribe(context: &Context, params: &str) -> Result<Action, Error> {
    let mut listing = Listing::read(context, params)?;
    let registry = context.registry().clone();
    let changes = context.changes().clone();
    Ok(Action::Held(Box::pin(async move {
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
            let mut result = Object::default();
            result.set("subscriptionId", quoted(&id));
            for (name, value) in text_members(&page) {
                result.set(&name, value);
            }
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
struct Ended {
    subscription_id: String,
}

/// Ends a subscription. One that does not exist has ended.
pub(super) fn unsubscribe(context: &Context, params: &str) -> Result<Action, Error> {
    let ended = decode::<Ended>(params)?;
    context.changes().unsubscribe(&ended.subscription_id);
    Ok(Action::Answer("{}".to_owned()))
}
