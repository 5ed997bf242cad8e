//! The capabilities that are declared to the client: exactly what works.

use serde_json::{Value, json};

use crate::history::MAX_RESULTS;
use crate::protocol::meta::{FROM_MESSAGE, SEARCH_MODES};

/// Name and version of the agent.
pub(super) fn agent_info() -> Value {
    json!({
        "name": crate::NAME,
        "title": crate::NAME,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The capabilities for protocol version 1. Without a store nothing outlives the connection, so
/// nothing that needs one is declared.
pub(super) fn v1(persistent: bool, unstable: bool) -> Value {
    let mut session = if persistent {
        json!({
            "list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {},
        })
    } else {
        json!({ "close": {}, "additionalDirectories": {} })
    };
    if persistent && unstable {
        add_unstable(&mut session);
    }
    let mut capabilities = json!({
        "loadSession": persistent,
        "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
        "mcpCapabilities": { "http": cfg!(feature = "mcp-http"), "sse": false },
        "sessionCapabilities": session,
    });
    if persistent {
        capabilities["sessionHistory"] = history();
        capabilities["_meta"] = json!({ "rejoin": { "rewind": {}, "search": search() } });
    }
    capabilities
}

fn history() -> Value {
    json!({ "supported": true, "maxResults": MAX_RESULTS })
}

/// The capabilities of `_rejoin/search`.
fn search() -> Value {
    json!({ "modes": SEARCH_MODES })
}

/// Adds what the protocol calls unstable, by the same names in either version.
fn add_unstable(session: &mut Value) {
    session["fork"] = fork();
    session["list"] = json!({ "limit": {}, "changes": {}, "subscribe": {} });
    for name in ["archive", "options", "status", "title"] {
        session[name] = json!({});
    }
    session["rewind"] = json!({ "edit_prompt": true });
}

/// The capabilities of forking, also at a message that is named in `_meta`, and of `_rejoin/cursors`.
pub(super) fn fork() -> Value {
    json!({ "_meta": { "rejoin": { "atMessageId": true, "cursors": true } } })
}

/// The capabilities for protocol version 2, whose baseline is new, list, resume, close, prompt and
/// cancel.
pub(super) fn v2(persistent: bool, unstable: bool) -> Value {
    let mut session = json!({
        "prompt": { "image": {}, "audio": {}, "embeddedContext": {} },
        "mcp": { "stdio": {} },
        "additionalDirectories": {},
    });
    if cfg!(feature = "mcp-http") {
        session["mcp"]["http"] = json!({});
    }
    if !persistent {
        return json!({ "session": session });
    }
    session["delete"] = json!({});
    if unstable {
        add_unstable(&mut session);
    }
    json!({
        "session": session,
        "_meta": {
            "rejoin": {
                "replayFrom": [FROM_MESSAGE],
                "rewind": {},
                "search": search(),
                "sessionHistory": history(),
            },
        },
    })
}
