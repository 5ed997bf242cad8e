//! `_rejoin/cursors`: the places at which a session can be forked, without loading it.

use serde::Deserialize;
use serde_json::Map;

use crate::history::{CursorsPosition, cursors};
use crate::server::error::{self, Error};
use crate::session::Refusal;
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::get::{SessionReading, read, stopped, with_text};
use super::get_part::Wanted;
use super::open::find;
use super::params::decode;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let params = decode::<Params>(&request.params)?;
    let found = find(context, &params.session_id)?;
    let from = match params.cursor {
        None => CursorsPosition::default(),
        Some(cursor) => CursorsPosition::parse(&cursor, &found.0).ok_or_else(|| {
            error::invalid_params("`cursor` is not one that this session has given out")
        })?,
    };
    Ok(read(
        context,
        request,
        params.session_id,
        found,
        (Wanted::Cursors(from), false),
    ))
}

impl SessionReading<'_> {
    /// A page of the session's cursors.
    pub(super) fn cursors(&self, from: CursorsPosition) -> Result<String, Refusal> {
        let page = cursors(&mut self.log()?, from, self.cancelled).map_err(stopped)?;
        let mut result = Map::new();
        if let Some(next) = page.next {
            result.insert("nextCursor".to_owned(), next.cursor(self.id).into());
        }
        let cursors = format!("[{}]", page.cursors.join(","));
        Ok(with_text(result, "cursors", &cursors))
    }
}
