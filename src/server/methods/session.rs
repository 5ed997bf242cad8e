//! The methods about one session that only name it: `session/close`, `session/archive`,
//! `session/unarchive`, `session/set_title`, `session/status`.

use serde::Deserialize;

use crate::protocol::ProtocolVersion;
use crate::record::metadata::MetadataChange;
use crate::server::error::{self, Error};
use crate::session::Request;

use super::action::Action;
use super::context::Context;
use super::params::{Session, decode};

/// Ends a session's work and releases its log. In version 2, closing a session that does not exist
/// succeeds.
pub(super) fn close(context: &Context, params: &str) -> Result<Action, Error> {
    let name = decode::<Session>(params)?.session_id;
    let nothing = || Ok(Action::Answer("{}".to_owned()));
    match (context.find(&name), context.version()) {
        (Err(error), ProtocolVersion::V2) if error.is_not_found() => nothing(),
        (Ok(id), ProtocolVersion::V2) if !context.exists(&id) => nothing(),
        (found, _) => Ok(Action::session(found?, name, Request::Close)),
    }
}

/// Hides a session from lists, or shows it again.
pub(super) fn archive(context: &Context, archived: bool, params: &str) -> Result<Action, Error> {
    let name = decode::<Session>(params)?.session_id;
    let id = context.find(&name)?;
    let change = MetadataChange::Archived(archived);
    Ok(Action::session(id, name, move |reply| {
        Request::MetadataChange(reply, change)
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Titled {
    session_id: String,
    title: String,
}

/// Gives a session a title, which it keeps.
pub(super) fn set_title(context: &Context, params: &str) -> Result<Action, Error> {
    let params = decode::<Titled>(params)?;
    let change = MetadataChange::title(&params.title)
        .ok_or_else(|| error::invalid_params("`title` must contain a visible character"))?;
    let id = context.find(&params.session_id)?;
    Ok(Action::session(id, params.session_id, move |reply| {
        Request::MetadataChange(reply, change)
    }))
}

/// Whether a session is open here, without touching it.
pub(super) fn status(context: &Context, params: &str) -> Result<Action, Error> {
    let name = decode::<Session>(params)?.session_id;
    Ok(Action::session(context.find(&name)?, name, Request::Status))
}
