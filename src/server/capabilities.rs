//! What the agent can do, as it tells the client: exactly what works.

use serde_json::{Value, json};

use crate::history::MAX_RESULTS;

/// Name and version of the agent.
pub fn agent_info() -> Value {
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "title": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The capabilities for protocol version 1. Without a store nothing outlives the connection, so
/// nothing that needs one is offered.
pub fn v1(persistent: bool) -> Value {
    let session = if persistent {
        json!({
            "list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {},
        })
    } else {
        json!({ "close": {}, "additionalDirectories": {} })
    };
    let mut capabilities = json!({
        "loadSession": persistent,
        "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
        "mcpCapabilities": { "http": cfg!(feature = "mcp-http"), "sse": false },
        "sessionCapabilities": session,
    });
    if persistent {
        capabilities["sessionHistory"] = json!({ "supported": true, "maxResults": MAX_RESULTS });
    }
    capabilities
}
