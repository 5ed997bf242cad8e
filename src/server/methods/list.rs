//! `session/list`: a page of the catalog, newest first, by cursors or by the history's `limit` and
//! `offset`. With a wrapped agent, its own sessions are merged into it.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::history::query::{ListParams, ListQuery};
use crate::index::{Archived, Filter, ListError, Order};
use crate::json;
use crate::protocol::ProtocolVersion;
use crate::server::error::{self, Error};
use crate::session::Deps;
use crate::sys::worktrees::counterparts;
use crate::sys::{blocking, with_causes};
use crate::transport::Load;

use super::action::Action;
use super::agent_list;
use super::context::Context;
use super::params::{Integer, decode};
use super::result::Object;
use super::row::RowForm;
use super::workspace::absolute;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    archived: Option<ArchivedParam>,
    #[serde(default)]
    include_worktrees: Option<bool>,
    #[serde(default)]
    limit: Option<Integer>,
    #[serde(default)]
    offset: Option<Integer>,
    #[serde(default)]
    search: Option<String>,
}

/// Drafts of the protocol have names, or a flag that includes archived sessions.
#[derive(Deserialize)]
#[serde(untagged)]
enum ArchivedParam {
    Flag(bool),
    Name(String),
}

pub(super) fn serve(context: &Context, params: &str) -> Result<Action, Error> {
    let form = RowForm::of(context);
    let version = context.version();
    let params = match version {
        ProtocolVersion::V1 => decode::<Params>(params)?,
        ProtocolVersion::V2 => decode::<Params>(&from_v2(params))?,
    };
    let cwd = params.cwd.map(|cwd| absolute("cwd", &cwd)).transpose()?;
    let cursor = params.cursor;
    let history = ListParams {
        limit: params.limit.map(|Integer(limit)| limit),
        offset: params.offset.map(|Integer(offset)| offset),
        search: params.search,
    };
    let query = history
        .check(cursor.is_some())
        .map_err(error::invalid_params)?;
    // Without the capability, the member has no meaning.
    let archived = params.archived.filter(|_| form.archives);
    let archived = archive_filter(archived)?;
    let with_worktrees = form.extended && params.include_worktrees.unwrap_or_default();
    let order = if form.extended {
        Order::Prompted
    } else {
        Order::Active
    };
    let registry = context.registry().clone();
    Ok(Action::Later(Box::pin(async move {
        // The list contains what earlier requests did.
        let begun = registry.barrier();
        let deps = registry.deps().clone();
        if deps.engine.wraps_agent() {
            // An agent that hangs delays requests to its sessions, and not the list.
            timeout(agent_list::TIMEOUT, begun).await.ok();
        } else {
            begun.await;
        }
        // The page is in memory until it is written.
        let permit = deps.wire.flow.read(Load::Light).await;
        let worktrees = worktrees(&deps, cwd.as_deref().filter(|_| with_worktrees));
        let filter = Filter {
            cwd,
            worktrees,
            order,
            archived,
            search: query.search.clone(),
            since: deps.expired_before(),
        };
        // The agent's sessions cannot be searched nor counted, and none of them is archived.
        let only = archived == Archived::Only;
        let own_only = only || query.search.is_some() || query.offset.is_some();
        // Without a store, none of them can be opened.
        let own_only = own_only || deps.store.is_none();
        let page = if deps.engine.wraps_agent() && !own_only {
            let request = agent_list::ListRequest {
                filter,
                cursor,
                limit: query.limit,
                counted: query.counted,
                form,
            };
            agent_list::list(&deps, request).await
        } else {
            let page = own_page(&deps, filter, cursor, query, form).await;
            page.map(|page| page.to_string())
        };
        let page = page.map(|page| match version {
            ProtocolVersion::V1 => page,
            ProtocolVersion::V2 => in_v2(&page),
        });
        (page, permit)
    })))
}

/// Whether a list contains archived sessions.
fn archive_filter(request: Option<ArchivedParam>) -> Result<Archived, Error> {
    let name = match request {
        None | Some(ArchivedParam::Flag(false)) => return Ok(Archived::Exclude),
        Some(ArchivedParam::Flag(true)) => return Ok(Archived::Include),
        Some(ArchivedParam::Name(name)) => name,
    };
    match name.as_str() {
        "exclude" | "unarchived" => Ok(Archived::Exclude),
        "include" | "all" => Ok(Archived::Include),
        "only" | "archived" => Ok(Archived::Only),
        _ => Err(error::invalid_params("`archived` is not a known filter")),
    }
}

/// The same folder in other worktrees, if one is given.
fn worktrees(deps: &Deps, cwd: Option<&str>) -> Option<Vec<String>> {
    let disk = &*deps.sys.disk;
    cwd.map(|cwd| blocking(|| counterparts(disk, Path::new(cwd))))
}

/// A page of our own sessions.
async fn own_page(
    deps: &Arc<Deps>,
    filter: Filter,
    cursor: Option<String>,
    query: ListQuery,
    form: RowForm,
) -> Result<Value, Error> {
    let Some(catalog) = deps.catalog.clone() else {
        return Ok(json!({ "sessions": [] }));
    };
    let offers_aliases = deps.offers_aliases();
    let page = tokio::task::spawn_blocking(move || {
        let mut page = match query.offset {
            Some(offset) => catalog.list_at(&filter, offset, query.limit),
            None => catalog.list(&filter, cursor.as_deref(), query.limit),
        }?;
        if !page.complete {
            catalog.read_words_in_background();
        }
        if offers_aliases {
            catalog.add_agent_ids(&mut page)?;
        }
        let sessions = std::mem::take(&mut page.sessions).into_iter();
        let sessions = sessions.take(query.limit);
        let sessions: Value = sessions
            .map(|listed| form.row(Some(&catalog), listed))
            .collect();
        Ok((page, sessions))
    });
    let (page, sessions) = page
        .await
        .map_err(|_| error::internal("the list failed"))?
        .map_err(list_error)?;
    let mut result = Map::new();
    // An empty page has no last entry after which another page could begin.
    let next_cursor = page.next_cursor.filter(|_| query.limit > 0);
    result.insert("sessions".to_owned(), sessions);
    if let Some(cursor) = next_cursor {
        result.insert("nextCursor".to_owned(), cursor.into());
    }
    if query.counted {
        result.insert("total".to_owned(), page.total.into());
    }
    if !page.complete {
        let meta = json!({ "rejoin": { "searchIncomplete": true } });
        result.insert("_meta".to_owned(), meta);
    }
    Ok(Value::Object(result))
}

/// Why there is no list.
pub(super) fn list_error(error: ListError) -> Error {
    match error {
        ListError::Cursor => invalid_cursor(),
        _ => error::storage_failed(with_causes(&error)),
    }
}

/// The cursor is not one of this list.
pub(super) fn invalid_cursor() -> Error {
    error::invalid_params("`cursor` is not one that this list has given out")
}

/// The members of a session that version 2 defines.
const V2_MEMBERS: [&str; 14] = [
    "sessionId",
    "cwd",
    "additionalDirectories",
    "title",
    "updatedAt",
    "archived",
    "aliases",
    "lastPromptAt",
    "model",
    "forkedFrom",
    "state",
    "lastTurnEndedAt",
    "cost",
    "_meta",
];

/// The parameters of version 2 in the form of version 1: those of the history may be in
/// `_meta.rejoin`.
fn from_v2(params: &str) -> String {
    let ours =
        json::text_member(params, "_meta").and_then(|meta| json::text_member(meta, "rejoin"));
    let ours = ours.map(json::text_members).unwrap_or_default();
    let ours = ours
        .into_iter()
        .filter(|(name, _)| matches!(name.as_str(), "limit" | "offset" | "search"));
    let all = json::text_members(params)
        .into_iter()
        .filter(|(name, _)| name != "_meta");
    json::object(all.chain(ours))
}

/// A page in version 2: members that it does not define are in `_meta.rejoin`.
fn in_v2(page: &str) -> String {
    let mut shown = move_to_meta(page, &["sessions", "nextCursor", "_meta"]);
    let mut sessions = Vec::new();
    if let Some(mut listed) = json::member_elements(page.as_bytes(), 0, "sessions") {
        while let Some(session) = listed.element() {
            let session = page.get(session).unwrap_or_default();
            sessions.push(move_to_meta(session, &V2_MEMBERS).text());
        }
    }
    shown.set("sessions", format!("[{}]", sessions.join(",")));
    shown.text()
}

/// An object whose members are in `_meta.rejoin`, except these.
fn move_to_meta(object: &str, own: &[&str]) -> Object {
    let (mut shown, mut others) = (Object::default(), Vec::new());
    for (name, value) in json::text_members(object) {
        if own.contains(&name.as_str()) {
            shown.set(&name, value);
        } else {
            others.push((name, value));
        }
    }
    if others.is_empty() {
        return shown;
    }
    let meta = json::text_member(object, "_meta").unwrap_or_default();
    let mut notes = Object::of(json::text_member(meta, "rejoin").unwrap_or_default());
    for (name, value) in others {
        notes.set(&name, value);
    }
    let mut meta = Object::of(meta);
    meta.set("rejoin", notes.text());
    shown.set("_meta", meta.text());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_history_may_be_beside_or_under_meta() {
        for (params, plain) in [
            (r#"{"cwd":"/w","limit":7}"#, r#"{"cwd":"/w","limit":7}"#),
            (
                r#"{"cursor":"c","_meta":{"rejoin":{"search":"a\"b","cwd":"/x"},"limit":1}}"#,
                r#"{"cursor":"c","search":"a\"b"}"#,
            ),
            (r#"{"_meta":{"rejoin":7}}"#, "{}"),
            ("{}", "{}"),
        ] {
            assert_eq!(from_v2(params), plain, "{params}");
        }
    }

    #[test]
    fn members_that_version_2_does_not_define_are_under_meta() {
        let v1 = json!({
            "sessions": [{ "sessionId": "s", "cwd": "/w", "messageCount": 2 }],
            "total": 1,
            "_meta": { "rejoin": { "searchIncomplete": true } },
        });
        let v2 = json!({
            "sessions": [
                { "sessionId": "s", "cwd": "/w", "_meta": { "rejoin": { "messageCount": 2 } } },
            ],
            "_meta": { "rejoin": { "searchIncomplete": true, "total": 1 } },
        });
        let shown: Value = serde_json::from_str(&in_v2(&v1.to_string())).unwrap();
        assert_eq!(shown, v2);
    }
}
