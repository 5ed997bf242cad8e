//! The answer to `initialize` of two agents, one behind the other.

use serde_json::{Map, Value, json};

use crate::engine::EngineError;
use crate::json;
use crate::transport::VerbatimResults;

/// Capabilities that are declared only where they are asked for, and served whatever the agent can
/// do.
const UNSTABLE: [&str; 4] = ["archive", "fork", "status", "title"];

/// What the agent behind us answers, to the byte, and what we can do besides.
pub(super) fn merge(theirs: &str, ours: Value, persistent: bool, raws: &VerbatimResults) -> Value {
    let mut result = Map::new();
    let mut capabilities = Map::new();
    let mut session = Map::new();
    let mut meta = Map::new();
    for (name, value) in json::text_members(theirs) {
        match name.as_str() {
            // We speak this one version, whatever the other side can do.
            "protocolVersion" => {}
            "agentCapabilities" => {
                for (name, value) in json::text_members(value) {
                    match name.as_str() {
                        "sessionCapabilities" => session = raw_members(value, raws),
                        _ => {
                            capabilities.insert(name, raws.put(value.to_owned()));
                        }
                    }
                }
            }
            "_meta" => meta = raw_members(value, raws),
            _ => {
                result.insert(name, raws.put(value.to_owned()));
            }
        }
    }
    if persistent {
        capabilities.insert("loadSession".to_owned(), true.into());
        for ours in ["list", "resume", "delete"] {
            session.entry(ours).or_insert_with(|| json!({}));
        }
        let ours = ours["agentCapabilities"]["sessionCapabilities"].as_object();
        for (name, ours) in ours.into_iter().flatten() {
            if UNSTABLE.contains(&name.as_str()) {
                session.insert(name.clone(), ours.clone());
            }
        }
    } else {
        // What the agent remembers by itself goes by ids that we keep nowhere.
        capabilities.insert("loadSession".to_owned(), false.into());
        for theirs in ["list", "resume", "delete", "fork"] {
            session.remove(theirs);
        }
        capabilities.remove("sessionHistory");
    }
    let history = &ours["agentCapabilities"]["sessionHistory"];
    if !history.is_null() {
        capabilities.insert("sessionHistory".to_owned(), history.clone());
    }
    session.entry("close").or_insert_with(|| json!({}));
    capabilities.insert("sessionCapabilities".to_owned(), session.into());
    result.insert(
        "protocolVersion".to_owned(),
        ours["protocolVersion"].clone(),
    );
    result.insert("agentCapabilities".to_owned(), capabilities.into());
    meta.insert("rejoin".to_owned(), ours["agentInfo"].clone());
    result.insert("_meta".to_owned(), meta.into());
    // Absent means none, and some clients take the member for granted.
    result.entry("authMethods").or_insert_with(|| json!([]));
    result.into()
}

/// Our own answer while the agent behind us cannot be had: its sessions can be read all the same.
pub(super) fn without(failed: &EngineError, mut ours: Value) -> Value {
    let mut note = ours["agentInfo"].clone();
    note["error"] = failed.message.as_str().into();
    ours["_meta"] = json!({ "rejoin": note });
    // It is the agent who would reach them.
    ours["agentCapabilities"]["mcpCapabilities"]["http"] = false.into();
    ours
}

fn raw_members(object: &str, raws: &VerbatimResults) -> Map<String, Value> {
    let members = json::text_members(object).into_iter();
    members
        .map(|(name, value)| (name, raws.put(value.to_owned())))
        .collect()
}
