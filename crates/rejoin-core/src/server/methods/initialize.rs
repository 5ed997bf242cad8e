//! `initialize`: agrees on a version, and declares what rejoin and a wrapped agent can do.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::engine::upstream::{InitializeOutcome, Introduction, Patience, Upstream};
use crate::engine::{ClientCapabilities, EngineError};
use crate::json::{self, Members};
use crate::protocol::{ClientView, ProtocolVersion, UpdateKind, jetbrains, v2};
use crate::record::header::Implementation;
use crate::server::capabilities;
use crate::server::error::{self, Error};
use crate::session::{Client, Deps};
use crate::transport::Responder;

use super::context::ConnectionContext;

/// How long a wrapped agent may take to answer after the client has ended its input.
const AGENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Version 2 as a number.
const VERSION_2: u16 = 2;

/// The parameters in version 2, with the client's identification.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    info: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ClientInfo<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
}

/// Checks the parameters and chooses the version.
pub(in crate::server) fn choose_version(params: &str) -> Result<ProtocolVersion, Error> {
    let requested = requested_version(params)?;
    if requested < VERSION_2 {
        return Ok(ProtocolVersion::V1);
    }
    // What a later version requires is unknown.
    if requested == VERSION_2 {
        check_info(params).map_err(error::invalid_params)?;
    }
    Ok(ProtocolVersion::V2)
}

/// Checks a repeated `initialize` on a connection that speaks this version already. Version 2 allows
/// it before the first other request.
pub(in crate::server) fn check_repeated(
    params: &str,
    version: ProtocolVersion,
    has_requests: bool,
) -> Result<(), Error> {
    if version == ProtocolVersion::V1 {
        return Ok(());
    }
    let requested = requested_version(params)?;
    if requested < VERSION_2 {
        return Err(error::unsupported_version(requested, VERSION_2));
    }
    if has_requests {
        return Err(error::invalid_request(
            "Invalid request: ACP initialization cannot be repeated after any other request; \
             reconnect to initialize again",
        ));
    }
    Ok(())
}

/// The requested version; the largest number for one that is larger than that.
fn requested_version(params: &str) -> Result<u16, Error> {
    let Some(version) = json::text_member(params, "protocolVersion") else {
        return Err(error::invalid_params("`protocolVersion` is missing"));
    };
    if version.is_empty() || !version.bytes().all(|b| b.is_ascii_digit()) {
        let problem = "`protocolVersion` must be an integer from 0 on";
        return Err(error::invalid_params(problem));
    }
    Ok(version.parse().unwrap_or(u16::MAX))
}

fn check_info(params: &str) -> Result<(), &'static str> {
    let Ok(Params { info: Some(info) }) = serde_json::from_str(params) else {
        return Err("`info` is missing");
    };
    let Ok(info) = serde_json::from_str::<ClientInfo<'_>>(info.get()) else {
        return Err("`info` must be an object");
    };
    let is_string = |value: &RawValue| value.get().starts_with('"');
    match (info.name, info.version) {
        (None, _) => Err("`info.name` is missing"),
        (Some(name), _) if !is_string(name) => Err("`info.name` must be a string"),
        (_, None) => Err("`info.version` is missing"),
        (_, Some(version)) if !is_string(version) => Err("`info.version` must be a string"),
        _ => Ok(()),
    }
}

/// Answers `initialize`. Returns whether with a result.
pub(in crate::server) async fn initialize(
    context: &ConnectionContext,
    params: String,
    responder: Responder,
) -> bool {
    let version = context.version();
    let deps = context.deps();
    if let (Some(store), Some(name)) = (&deps.library.store, context.registry().client().name()) {
        store.serves(name);
    }
    let own = own_result(deps, version);
    // So that the end of the process waits for it.
    let busy = context.registry().requests().begin();
    let result = if let Some(agent) = deps.engine.upstream() {
        let asked = match version {
            ProtocolVersion::V1 => Introduction {
                params,
                native: None,
            },
            ProtocolVersion::V2 => Introduction {
                params: v2::initialize_params(&params),
                native: Some(v2::initialize_params_of_both(&params)),
            },
        };
        match ask_agent(deps, agent, asked).await {
            InitializeOutcome::Answered(Ok(agents)) => Ok(with_agent(deps, version, &agents, &own)),
            InitializeOutcome::Answered(Err(refused)) => Err(Error::from(refused)),
            InitializeOutcome::Unavailable(failed) => Ok(without_agent(&failed, own).to_string()),
        }
    } else {
        Ok(own.to_string())
    };
    let result = result.map(|result| {
        if context.has_session_index() {
            with_session_index(&result)
        } else {
            result
        }
    });
    let is_result = result.is_ok();
    responder.answer(result.map_err(|error| error.json(context.error_form())));
    drop(busy);
    is_result
}

/// A result that declares JetBrains' session index.
fn with_session_index(result: &str) -> String {
    let meta = jetbrains::declare_index(json::text_member(result, "_meta"));
    let mut result = Members::of(result);
    result.set("_meta", meta);
    result.text()
}

/// The client that sends these parameters, in the version that was chosen. `goes_back` says whether
/// `session/rewind` is offered.
pub(in crate::server) fn client(params: &str, version: ProtocolVersion, goes_back: bool) -> Client {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    // Name and version of the client are `clientInfo` in version 1, and `info` in later ones.
    let info = [&params["clientInfo"], &params["info"]]
        .into_iter()
        .find(|info| info.is_object());
    let text = |name: &str| Some(info?[name].as_str()?.to_owned());
    let identity = text("name").map(|name| Implementation {
        name,
        version: text("version"),
    });
    let abilities = match version {
        ProtocolVersion::V1 => ClientCapabilities::read(&params),
        ProtocolVersion::V2 => ClientCapabilities::read_v2(&params),
    };
    let capabilities = match version {
        ProtocolVersion::V1 => &params["clientCapabilities"],
        ProtocolVersion::V2 => &params["capabilities"],
    };
    let lacks = |kind: &UpdateKind| {
        let capability = kind.client_capability(version);
        capability.is_some_and(|name| !capabilities["session"][name].is_object())
            || *kind == UpdateKind::HistoryTruncated
                && (version == ProtocolVersion::V1 || !goes_back)
    };
    Client {
        hidden: UpdateKind::all().filter(lacks).collect(),
        has_session_index: jetbrains::wants_index(capabilities),
        wants_list_changes: capabilities["session"]["listChanged"].is_object(),
        identity,
        abilities,
        shows_subagents: version == ProtocolVersion::V2
            || params["clientCapabilities"]["subagents"].is_object(),
        view: ClientView::new(version),
    }
}

fn own_result(deps: &Deps, version: ProtocolVersion) -> Value {
    let (persistent, unstable) = (deps.library.store.is_some(), deps.unstable);
    match version {
        ProtocolVersion::V1 => {
            let mut own = json!({
                "protocolVersion": 1,
                "agentInfo": capabilities::agent_info(),
                "agentCapabilities": capabilities::v1(persistent, unstable),
                "authMethods": [],
            });
            if deps.offers_aliases() {
                own["agentCapabilities"]["sessionCapabilities"][ALIASES] = json!({});
            }
            own
        }
        ProtocolVersion::V2 => json!({
            "protocolVersion": 2,
            "info": capabilities::agent_info(),
            "capabilities": capabilities::v2(persistent, unstable),
        }),
    }
}

/// Forwards `initialize` to the wrapped agent. An agent that does not answer a client that is gone
/// is ended, unless it has other clients.
async fn ask_agent(
    deps: &Deps,
    agent: &dyn Upstream,
    introduction: Introduction,
) -> InitializeOutcome {
    let mut answer = agent.initialize(introduction);
    if deps.role.shares_engine() {
        return answer.await;
    }
    let gone = async {
        deps.client.ended().await;
        tokio::time::sleep(AGENT_TIMEOUT).await;
    };
    tokio::select! {
        answer = &mut answer => return answer,
        () = gone => {}
    }
    deps.engine.leave(Patience::Hurry).await;
    answer.await
}

/// The agent's result in the client's version, with what rejoin adds. `own` is our own result.
fn with_agent(deps: &Deps, version: ProtocolVersion, agents: &str, own: &Value) -> String {
    let is_persistent = deps.library.store.is_some();
    match version {
        ProtocolVersion::V1 => merge(agents, own, is_persistent),
        ProtocolVersion::V2 if deps.engine.is_native() => {
            merge_native(agents, own, is_persistent, deps.offers_aliases())
        }
        ProtocolVersion::V2 => {
            let merged = merge(
                agents,
                &own_result(deps, ProtocolVersion::V1),
                is_persistent,
            );
            v2::initialize_result(&merged, &own.to_string())
        }
    }
}

/// The capability to tell which ids the agent has for a session.
const ALIASES: &str = "aliases";

/// Unstable capabilities that rejoin provides whatever the agent can do.
const UNSTABLE: [&str; 6] = [ALIASES, "archive", "fork", "rewind", "status", "title"];

/// The agent's result, verbatim, with what rejoin adds.
fn merge(agents: &str, own: &Value, is_persistent: bool) -> String {
    let member = |name| json::text_member(agents, name).unwrap_or_default();
    let mut result = Members::of(agents);
    let mut capabilities = Members::of(member("agentCapabilities"));
    let session = json::text_member(member("agentCapabilities"), "sessionCapabilities");
    let mut session = Members::of(session.unwrap_or_default());
    let mut meta = Members::of(member("_meta"));
    let own_capabilities = &own["agentCapabilities"];
    if is_persistent {
        capabilities.set("loadSession", true);
        for name in ["list", "resume", "delete"] {
            session.set_default(name, "{}");
        }
        add_to_list(&mut session, &own_capabilities["sessionCapabilities"]);
        for name in UNSTABLE {
            let own = &own_capabilities["sessionCapabilities"][name];
            if !own.is_null() {
                session.set(name, own);
            } else if name == ALIASES {
                // Lists have our entries in place of the agent's.
                session.remove(name);
            }
        }
    } else {
        // Without a store, the ids of the agent's own sessions are not kept.
        capabilities.set("loadSession", false);
        for name in ["list", "resume", "delete", "fork"] {
            session.remove(name);
        }
        capabilities.remove("sessionHistory");
    }
    let history = &own_capabilities["sessionHistory"];
    if !history.is_null() {
        capabilities.set("sessionHistory", history);
    }
    let note = &own_capabilities["_meta"]["rejoin"];
    if !note.is_null() {
        let notes = json::text_member(member("agentCapabilities"), "_meta");
        let mut notes = Members::of(notes.unwrap_or_default());
        notes.set("rejoin", note);
        capabilities.set("_meta", notes.text());
    }
    session.set_default("close", "{}");
    capabilities.set("sessionCapabilities", session.text());
    result.set("protocolVersion", &own["protocolVersion"]);
    result.set("agentCapabilities", capabilities.text());
    meta.set("rejoin", &own["agentInfo"]);
    result.set("_meta", meta.text());
    // An absent member means none, but some clients require it.
    result.set_default("authMethods", "[]");
    result.text()
}

/// Adds to an agent's session capabilities what our own lists can do.
fn add_to_list(session: &mut Members, own: &Value) {
    let parts = own["list"].as_object();
    if let Some(parts) = parts.filter(|parts| !parts.is_empty()) {
        let agents = session.text();
        let agents = json::text_member(&agents, "list").unwrap_or_default();
        let mut list = Members::of(agents);
        for (name, part) in parts {
            list.set_default(name, part);
        }
        session.set("list", list.text());
    }
}

/// The result of an agent of version 2, verbatim, with what rejoin adds.
fn merge_native(agents: &str, own: &Value, is_persistent: bool, has_aliases: bool) -> String {
    let member = |name| json::text_member(agents, name).unwrap_or_default();
    let mut result = Members::of(agents);
    let mut capabilities = Members::of(member("capabilities"));
    let part = |name| json::text_member(member("capabilities"), name).unwrap_or_default();
    let mut session = Members::of(part("session"));
    let mut notes = Members::of(part("_meta"));
    let mut meta = Members::of(member("_meta"));
    let own_capabilities = &own["capabilities"];
    if is_persistent {
        session.set_default("delete", "{}");
        add_to_list(&mut session, &own_capabilities["session"]);
        for name in UNSTABLE {
            let own = &own_capabilities["session"][name];
            if !own.is_null() {
                session.set(name, own);
            }
        }
    } else {
        // Without a store, the ids of the agent's own sessions are not kept.
        for name in ["delete", "fork"] {
            session.remove(name);
        }
    }
    // Lists have our entries in place of the agent's.
    if has_aliases {
        session.set(ALIASES, "{}");
    } else {
        session.remove(ALIASES);
    }
    let note = &own_capabilities["_meta"]["rejoin"];
    if !note.is_null() {
        notes.set("rejoin", note);
        capabilities.set("_meta", notes.text());
    }
    capabilities.set("session", session.text());
    result.set("capabilities", capabilities.text());
    meta.set("rejoin", &own["info"]);
    result.set("_meta", meta.text());
    result.text()
}

/// Our result while the wrapped agent is not available: its sessions can still be read.
fn without_agent(failed: &EngineError, mut own: Value) -> Value {
    let mut note = capabilities::agent_info();
    note["error"] = failed.message.as_str().into();
    own["_meta"] = json!({ "rejoin": note });
    // The agent would connect to them.
    if let Some(http) = own.pointer_mut("/agentCapabilities/mcpCapabilities/http") {
        *http = false.into();
    }
    if let Some(Value::Object(mcp)) = own.pointer_mut("/capabilities/session/mcp") {
        mcp.remove("http");
    }
    own
}
