//! The methods about one session that only name it: `session/close`, `session/archive`,
//! `session/unarchive`, `session/set_title`, `session/status`.

use serde::Deserialize;

use crate::protocol::ProtocolVersion;
use crate::record::metadata::MetadataChange;
use crate::server::error::{self, Error};
use crate::session::Request;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::params::{SessionParams, decode};

/// Ends a session's work and releases its log. In version 2, closing a session that does not exist
/// succeeds.
pub(super) fn close(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let name = decode::<SessionParams>(params)?.session_id;
    let nothing = || Ok(RequestAction::Answer("{}".to_owned()));
    match (context.find(&name), context.version()) {
        (Err(error), ProtocolVersion::V2) if error.is_not_found() => nothing(),
        (Ok(id), ProtocolVersion::V2) if !context.exists(&id) => nothing(),
        (found, _) => Ok(RequestAction::session(found?, name, Request::Close)),
    }
}

/// Hides a session from lists, or shows it again.
pub(super) fn archive(
    context: &ConnectionContext,
    archived: bool,
    params: &str,
) -> Result<RequestAction, Error> {
    let name = decode::<SessionParams>(params)?.session_id;
    let id = context.find(&name)?;
    let change = MetadataChange::Archived(archived);
    Ok(RequestAction::session(id, name, move |reply| {
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
pub(super) fn set_title(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let params = decode::<Titled>(params)?;
    let change = MetadataChange::title(&params.title)
        .ok_or_else(|| error::invalid_params("`title` must contain a visible character"))?;
    let id = context.find(&params.session_id)?;
    Ok(RequestAction::session(
        id,
        params.session_id,
        move |reply| Request::MetadataChange(reply, change),
    ))
}

/// Whether a session is open here, without touching it.
pub(super) fn status(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let name = decode::<SessionParams>(params)?.session_id;
    Ok(RequestAction::session(
        context.find(&name)?,
        name,
        Request::Status,
    ))
}
