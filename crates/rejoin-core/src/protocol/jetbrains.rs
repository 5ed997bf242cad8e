//! The session index of JetBrains' clients: their names for the draft list methods, and their members
//! below `_meta.jetbrains.air`.

use serde_json::{Map, Value, json};

use crate::json;

/// The capability by which a client asks for the index.
const INDEX: &str = "sessionIndex";

/// The capabilities that an agent with the index declares.
const CAPABILITIES: [&str; 5] = [
    INDEX,
    "sessionBatchGet",
    "sessionArchive",
    "sessionRename",
    "sessionListSubscribe",
];

/// The members of an object that are for JetBrains' clients.
pub fn members(object: &str) -> Option<&str> {
    let jetbrains = json::text_member(json::text_member(object, "_meta")?, "jetbrains")?;
    json::text_member(jetbrains, "air")
}

/// Whether capabilities, or the result of `initialize`, declare one of these.
pub fn declares(object: &Value, capability: &str) -> bool {
    declared(object).any(|declared| declared == capability)
}

/// The capabilities of JetBrains' clients that an object declares.
pub fn declared(object: &Value) -> impl Iterator<Item = &str> {
    let air = &object["_meta"]["jetbrains"]["air"];
    let is_known = air["version"].as_u64().is_some_and(|version| version >= 1);
    let declared = air["capabilities"].as_array().filter(|_| is_known);
    declared.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a client with these capabilities wants the index.
pub fn wants_index(capabilities: &Value) -> bool {
    declares(capabilities, INDEX)
}

/// Adds the index to the `_meta` of a result of `initialize`, an object or absent.
pub fn declare_index(meta: Option<&str>) -> String {
    let meta = meta.and_then(json::tree).unwrap_or_default();
    let mut all: Vec<Value> = meta["jetbrains"]["air"]["capabilities"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let missing = CAPABILITIES.map(Value::from).into_iter();
    let missing: Vec<_> = missing.filter(|name| !all.contains(name)).collect();
    all.extend(missing);
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut air = object(&meta["jetbrains"]["air"]);
    air.insert("version".to_owned(), 1.into());
    air.insert("capabilities".to_owned(), all.into());
    let mut jetbrains = object(&meta["jetbrains"]);
    jetbrains.insert("air".to_owned(), air.into());
    let mut meta = object(&meta);
    meta.insert("jetbrains".to_owned(), jetbrains.into());
    Value::from(meta).to_string()
}

/// The `_meta` member with what an entry of a list has for these clients.
pub fn entry(mut members: Map<String, Value>) -> (String, Value) {
    members.insert("version".to_owned(), 1.into());
    ("jetbrains".to_owned(), json!({ "air": members }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_which_version_it_has() {
        let capabilities = |air: Value| json!({ "_meta": { "jetbrains": { "air": air } } });
        for (air, wants) in [
            (json!({ "version": 1, "capabilities": ["x", INDEX] }), true),
            (json!({ "version": 2, "capabilities": [INDEX] }), true),
            (json!({ "version": 0, "capabilities": [INDEX] }), false),
            (json!({ "version": "1", "capabilities": [INDEX] }), false),
            (json!({ "version": 1, "capabilities": ["x"] }), false),
            (
                json!({ "version": 1, "capabilities": { "sessionIndex": {} } }),
                false,
            ),
        ] {
            assert_eq!(wants_index(&capabilities(air.clone())), wants, "{air}");
        }
    }

    #[test]
    fn what_an_agent_declares_besides_stays() {
        let agents = r#"{"a":1,"jetbrains":{"b":2,"air":{"version":1,"goal":{},"capabilities":["diffPatch","sessionIndex"]}}}"#;
        let own = json!([
            "diffPatch",
            "sessionIndex",
            "sessionBatchGet",
            "sessionArchive",
            "sessionRename",
            "sessionListSubscribe"
        ]);
        let expected = json!({
            "a": 1,
            "jetbrains": { "b": 2, "air": { "version": 1, "goal": {}, "capabilities": own } },
        });
        let declared = declare_index(Some(agents));
        assert_eq!(json::tree(&declared).unwrap(), expected);
        let alone =
            json!({ "jetbrains": { "air": { "version": 1, "capabilities": CAPABILITIES } } });
        assert_eq!(json::tree(&declare_index(None)).unwrap(), alone);
    }
}
