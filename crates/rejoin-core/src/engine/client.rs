//! The client's capabilities that engines use.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::string_member;
use crate::protocol::method::ELICITATION_CREATE;

/// The client's capabilities that matter to an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own in the protocol"
)]
pub struct ClientCapabilities {
    /// The client reads text files (`fs/read_text_file`).
    pub reads: bool,
    /// The client writes text files (`fs/write_text_file`).
    pub writes: bool,
    /// The client runs commands in terminals (`terminal/*`).
    pub terminals: bool,
    /// The client shows forms (`elicitation/create` with the mode `form`).
    pub forms: bool,
    /// The client shows addresses (`elicitation/create` with the mode `url`).
    pub urls: bool,
}

impl ClientCapabilities {
    /// Reads the parameters of version 1's `initialize`.
    pub fn read(params: &Value) -> Self {
        let capabilities = &params["clientCapabilities"];
        Self {
            reads: capabilities["fs"]["readTextFile"] == true,
            writes: capabilities["fs"]["writeTextFile"] == true,
            terminals: capabilities["terminal"] == true,
            ..Self::elicitation(capabilities)
        }
    }

    /// Reads the parameters of version 2's `initialize`. It has no methods for files and terminals.
    pub fn read_v2(params: &Value) -> Self {
        Self::elicitation(&params["capabilities"])
    }

    fn elicitation(capabilities: &Value) -> Self {
        let elicitation = &capabilities["elicitation"];
        Self {
            forms: elicitation["form"].is_object(),
            urls: elicitation["url"].is_object(),
            ..Self::default()
        }
    }

    /// Whether a request that any client of a session may answer can be shown by this one. Each shows
    /// requests for permission, and whether it knows a method that is no part of the protocol it says
    /// itself.
    pub fn can_show(&self, method: &str, params: &str) -> bool {
        if method != ELICITATION_CREATE {
            return true;
        }
        match string_member(params, "mode").as_deref() {
            Some("url") => self.urls,
            Some("form") | None => self.forms,
            Some(_) => self.forms || self.urls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_what_is_declared_and_nothing_else() {
        for (params, reads, writes, terminals) in [
            (json!(null), false, false, false),
            (
                json!({ "clientCapabilities": { "fs": 7, "terminal": "yes" } }),
                false,
                false,
                false,
            ),
            (
                json!({ "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": null } } }),
                true,
                false,
                false,
            ),
            (
                json!({ "clientCapabilities": { "fs": { "writeTextFile": true }, "terminal": true } }),
                false,
                true,
                true,
            ),
        ] {
            let expected = ClientCapabilities {
                reads,
                writes,
                terminals,
                ..ClientCapabilities::default()
            };
            assert_eq!(ClientCapabilities::read(&params), expected, "{params}");
        }
    }

    #[test]
    fn a_form_is_shown_by_those_who_have_declared_it() {
        for (elicitation, forms, urls) in [
            (json!(null), false, false),
            (json!({}), false, false),
            (json!({ "form": {}, "url": null }), true, false),
            (json!({ "form": true, "url": {} }), false, true),
        ] {
            let elicitation = json!({ "elicitation": elicitation });
            for able in [
                ClientCapabilities::read(&json!({ "clientCapabilities": elicitation })),
                ClientCapabilities::read_v2(&json!({ "capabilities": elicitation })),
            ] {
                let shows = |params| able.can_show(ELICITATION_CREATE, params);
                assert_eq!(shows(r#"{"mode":"form"}"#), forms, "{elicitation}");
                assert_eq!(shows(r#"{"mode":"url"}"#), urls, "{elicitation}");
                assert_eq!(shows("{}"), forms, "{elicitation}");
                assert_eq!(shows(r#"{"mode":"_x"}"#), forms || urls, "{elicitation}");
                assert!(able.can_show("session/request_permission", "{}"));
            }
        }
    }
}
