//! `session/set_config_option`: hands the change to the engine, in the words of version 1.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::error;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::params::decode;
use crate::server::methods::reply::reply;
use crate::session::Request;

const METHOD: &str = "session/set_config_option";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    session_id: String,
    #[serde(borrow)]
    config_id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let decoded = decode::<Params<'_>>(params).and_then(|params| {
        let change = in_v1(&params).map_err(error::invalid_params)?;
        Ok((context.find(&params.session_id)?, params.session_id, change))
    });
    let (id, name, params) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return responder.answer(Err(error)),
    };
    let requests = context.registry().requests();
    let reply = reply(context, requests, &name, responder, || ());
    let method = METHOD.to_owned();
    let call = Request::Call {
        reply,
        method,
        params,
    };
    context.registry().send(&id, call);
}

/// The parameters as version 1 has them.
fn in_v1(params: &Params<'_>) -> Result<String, &'static str> {
    let mut change = json!({ "sessionId": params.session_id, "configId": params.config_id });
    let value: Value = serde_json::from_str(params.value.get()).unwrap_or_default();
    match (&*params.kind, &value) {
        // As version 1 has it where the type goes without saying.
        ("id", Value::String(_)) => {}
        ("boolean", Value::Bool(_)) => change["type"] = "boolean".into(),
        ("id" | "boolean", _) => return Err("`value` is not of the given `type`"),
        _ => return Err("`type` is not a known type of values"),
    }
    change["value"] = value;
    Ok(change.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_put_into_the_words_of_version_1() {
        for (kind, value, change) in [
            ("id", r#""x""#, Ok(r#""value":"x"}"#)),
            ("boolean", "true", Ok(r#""type":"boolean","value":true}"#)),
            ("id", "true", Err("`value` is not of the given `type`")),
            ("boolean", "7", Err("`value` is not of the given `type`")),
            ("_odd", "7", Err("`type` is not a known type of values")),
        ] {
            let params =
                format!(r#"{{"sessionId":"s","configId":"c","type":"{kind}","value":{value}}}"#);
            let params = decode(&params).unwrap();
            let head = r#"{"sessionId":"s","configId":"c","#;
            let config = change.map(|change| format!("{head}{change}"));
            assert_eq!(in_v1(&params), config);
        }
    }
}
