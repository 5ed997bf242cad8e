//! The protocol's own JSON schema, made from the types of the schema crate, to hold messages
//! against.

use agent_client_protocol_schema::v1;
use jsonschema::Validator;
use schemars::JsonSchema;
use serde_json::Value;

/// The schema of one type of the protocol.
#[derive(Debug)]
pub(crate) struct Schema {
    name: String,
    validator: Validator,
}

impl Schema {
    /// The schema of any type of the schema crate.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
        let validator = jsonschema::validator_for(schema.as_value());
        Self {
            name: T::schema_name().into_owned(),
            validator: validator.expect("the schema crate makes valid schemas"),
        }
    }

    /// The `update` object of version 1's `session/update`.
    pub(crate) fn v1_update() -> Self {
        Self::of::<v1::SessionUpdate>()
    }

    /// Fails the test, with all that is wrong, if a value is not of this type.
    #[track_caller]
    pub(crate) fn assert_valid(&self, value: &Value) {
        let errors = self.errors(value);
        assert!(
            errors.is_empty(),
            "not a {}: {value}\n{}",
            self.name,
            errors.join("\n")
        );
    }

    /// What is wrong with a value.
    pub(crate) fn errors(&self, value: &Value) -> Vec<String> {
        let errors = self.validator.iter_errors(value);
        errors
            .map(|error| format!("at {:?}: {error}", error.instance_path().to_string()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_accepts_valid_and_refuses_invalid_updates() {
        let schema = Schema::v1_update();
        let text = json!({"type": "text", "text": "hello"});
        schema.assert_valid(&json!({"sessionUpdate": "agent_message_chunk", "content": text}));
        for bad in [
            json!({}),
            json!({"sessionUpdate": "agent_message_chunk"}),
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}),
            json!({"sessionUpdate": "agent_message_chunk", "content": text, "messageId": 5}),
            json!({"sessionUpdate": "news", "content": text}),
        ] {
            assert_ne!(schema.errors(&bad), Vec::<String>::new(), "{bad}");
        }
    }
}
