//! `session/list`: a page of the catalog, newest first, by cursors or by the history's `limit` and
//! `offset`. With a wrapped agent, its own sessions are merged into it.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::history::query::{ListParams, ListQuery};
use crate::index::{Archived, Filter, ListError, Order};
use crate::json::{self, Members};
use crate::protocol::{ProtocolVersion, jetbrains};
use crate::server::error::{self, Error};
use crate::server::tools::ToolSessions;
use crate::session::{Deps, Registry};
use crate::store::StoreError;
use crate::sys::worktrees::counterparts;
use crate::sys::{blocking, with_causes};
use crate::transport::Load;

use super::action::{Later, RequestAction};
use super::agent_list;
use super::context::ConnectionContext;
use super::list_v2::{from_v2, in_v2};
use super::params::{Integer, decode};
use super::row::RowForm;
use super::workspace::absolute;

/// How long a list waits for a look at the files of other tools.
const LOOK: Duration = Duration::from_secs(2);

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

/// `archived`: a name in some drafts of the protocol, a boolean in others.
#[derive(Deserialize)]
#[serde(untagged)]
enum ArchivedParam {
    Flag(bool),
    Name(String),
}

pub(super) fn serve(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let listing = Listing::read(context, params)?;
    let registry = context.registry().clone();
    let hears = registry.client().wants_list_changes && context.offers("list.changes");
    let changes = context.changes().clone();
    Ok(RequestAction::Later(Box::pin(async move {
        if hears && listing.cursor.is_none() && listing.cwd.is_some() {
            changes.hint(&registry, listing.filter(registry.deps()));
        }
        listing.page(&registry).await
    })))
}

/// A request for a page.
pub(super) struct Listing {
    pub(super) form: RowForm,
    pub(super) cursor: Option<String>,
    cwd: Option<String>,
    with_worktrees: bool,
    order: Order,
    archived: Archived,
    query: ListQuery,
    tools: Option<Arc<ToolSessions>>,
}

impl Listing {
    /// Decodes the parameters.
    pub(super) fn read(context: &ConnectionContext, original: &str) -> Result<Self, Error> {
        let form = RowForm::of(context);
        let params = match form.version {
            ProtocolVersion::V1 => Cow::Borrowed(original),
            ProtocolVersion::V2 => Cow::Owned(from_v2(original)),
        };
        let list = jetbrains::members(original).filter(|_| form.indexed);
        let list = list.and_then(|air| json::text_member(air, "list"));
        let params = match list {
            Some(list) => Cow::Owned(Members::of(&params).overlaid(Members::of(list)).text()),
            None => params,
        };
        let params = decode::<Params>(&params)?;
        let cwd = params.cwd.map(|cwd| absolute("cwd", &cwd)).transpose()?;
        let history = ListParams {
            limit: params.limit.map(|Integer(limit)| limit),
            offset: params.offset.map(|Integer(offset)| offset),
            search: params.search,
        };
        let query = history
            .check(params.cursor.is_some())
            .map_err(error::invalid_params)?;
        // Without the capability, the member has no meaning.
        let archived = params.archived.filter(|_| form.archives || form.indexed);
        Ok(Self {
            cursor: params.cursor,
            cwd,
            with_worktrees: form.is_by_prompt() && params.include_worktrees.unwrap_or_default(),
            order: if form.is_by_prompt() {
                Order::Prompted
            } else {
                Order::Active
            },
            archived: archive_filter(archived)?,
            query,
            form,
            tools: context.tools(),
        })
    }

    /// Which sessions the list is about. Looks for worktrees.
    pub(super) fn filter(&self, deps: &Deps) -> Filter {
        let cwd = self.cwd.as_deref();
        Filter {
            cwd: self.cwd.clone(),
            worktrees: worktrees(deps, cwd.filter(|_| self.with_worktrees)),
            agents: Vec::new(),
            order: self.order,
            archived: self.archived,
            search: self.query.search.clone(),
            since: deps.library.expired_before(),
        }
    }

    /// The page.
    pub(super) async fn page(self, registry: &Registry) -> Later {
        // The list contains what earlier requests did.
        let begun = registry.barrier();
        let deps = registry.deps().clone();
        if deps.engine.wraps_agent() {
            // An agent that hangs delays requests to its sessions, and not the list.
            timeout(agent_list::TIMEOUT, begun).await.ok();
        } else {
            begun.await;
        }
        let is_complete =
            self.cursor.is_some() || look_at_tools(self.tools.clone(), Duration::ZERO).await;
        // The page is in memory until it is written.
        let room = match deps.client.flow.read(Load::Light).await {
            Ok(room) => room,
            Err(full) => return (Err(error::overloaded(full)), None),
        };
        let filter = self.filter(&deps);
        let Self {
            cursor,
            mut query,
            form,
            ..
        } = self;
        query.counted &= is_complete;
        // The agent's sessions have no numbers, and none of them is archived.
        let only = filter.archived == Archived::Only;
        let own_only = only || query.offset.is_some();
        // Without a store, none of them can be opened.
        let own_only = own_only || deps.library.store.is_none();
        let agent = deps.engine.upstream().filter(|_| !own_only);
        let page = if let Some(agent) = agent {
            let request = agent_list::ListRequest {
                filter,
                cursor,
                limit: query.limit,
                counted: query.counted,
                form: form.clone(),
            };
            agent_list::list(&deps, agent, request).await
        } else {
            let page = own_page(&deps, filter, cursor, query, form.clone()).await;
            page.map(|page| page.to_string())
        };
        let page = page.map(|page| match form.version {
            ProtocolVersion::V1 => page,
            ProtocolVersion::V2 => in_v2(&page),
        });
        (page, Some(room))
    }
}

/// Brings the conversations of other tools up to date, unless that was done within this time. Returns
/// whether they are. If it takes long, it goes on while the list is answered with what is known.
pub(super) async fn look_at_tools(tools: Option<Arc<ToolSessions>>, again_after: Duration) -> bool {
    let Some(tools) = tools else {
        return true;
    };
    let scan = tokio::task::spawn_blocking(move || tools.scan(again_after));
    match timeout(LOOK, scan).await {
        Ok(Ok(Ok(()))) => return true,
        Ok(Ok(Err(error))) => tracing::warn!(%error, "cannot list conversations of other tools"),
        Ok(Err(error)) => tracing::warn!(%error, "cannot list conversations of other tools"),
        Err(_) => {}
    }
    false
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

/// The counterparts of a folder in the other worktrees of its repository, if a folder is given.
fn worktrees(deps: &Deps, cwd: Option<&str>) -> Option<Vec<String>> {
    let disk = &*deps.library.sys.disk;
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
    let Some(catalog) = deps.library.catalog.clone() else {
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
            catalog.add_agent_ids(&mut page.sessions)?;
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
    if let Some(total) = page.total.filter(|_| query.counted) {
        result.insert("total".to_owned(), total.into());
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
        ListError::Database(error @ StoreError::Unreachable { .. }) => {
            error::store_unreachable(error.to_string())
        }
        _ => error::storage_failed(with_causes(&error)),
    }
}

/// The cursor is not one of this list.
pub(super) fn invalid_cursor() -> Error {
    error::invalid_params("`cursor` is not one that this list has given out")
}
