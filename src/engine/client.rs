//! The client's capabilities that engines use.

use serde_json::Value;

/// What the client can do for an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// It reads text files (`fs/read_text_file`).
    pub reads: bool,
    /// It writes text files (`fs/write_text_file`).
    pub writes: bool,
    /// It runs commands in terminals (`terminal/*`).
    pub terminals: bool,
}

impl ClientCapabilities {
    /// Reads the parameters of version 1's `initialize`. Later versions have none of these
    /// capabilities.
    pub fn read(params: &Value) -> Self {
        let capabilities = &params["clientCapabilities"];
        Self {
            reads: capabilities["fs"]["readTextFile"] == true,
            writes: capabilities["fs"]["writeTextFile"] == true,
            terminals: capabilities["terminal"] == true,
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
            };
            assert_eq!(ClientCapabilities::read(&params), expected, "{params}");
        }
    }
}
