//! `session/set_mode` and `session/set_config_option`: of the built-in engine, and in version 2.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Object;
use crate::protocol::method::SESSION_SET_CONFIG_OPTION;
use crate::server::error::{self, Error};

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::forward::to_session;
use super::params::{SessionParams, decode};

/// Hands a change to the engine, as version 1 has it.
pub(super) fn serve(
    context: &ConnectionContext,
    method: &str,
    params: &str,
) -> Result<RequestAction, Error> {
    let name = decode::<SessionParams>(params)?.session_id;
    to_session(context, name, method, params)
}

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
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Hands a change of version 2 to the engine in the form of version 1.
pub(super) fn set_config_option(
    context: &ConnectionContext,
    params: &str,
) -> Result<RequestAction, Error> {
    let params = decode::<Params<'_>>(params)?;
    let change = in_v1(&params).map_err(error::invalid_params)?;
    to_session(
        context,
        params.session_id,
        SESSION_SET_CONFIG_OPTION,
        &change,
    )
}

fn in_v1(params: &Params<'_>) -> Result<String, &'static str> {
    let mut change = Object::new()
        .string("sessionId", &params.session_id)
        .string("configId", &params.config_id);
    let value = params.value.get();
    match (&*params.kind, value.as_bytes()) {
        // Version 1 does not give the type of an id.
        ("id", [b'"', ..]) => {}
        ("boolean", b"true" | b"false") => change = change.string("type", "boolean"),
        ("id" | "boolean", _) => return Err("`value` is not of the given `type`"),
        _ => return Err("`type` is not a known type of values"),
    }
    let meta = params.meta.map(RawValue::get);
    Ok(change.raw("value", value).optional("_meta", meta).end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_gets_the_form_of_version_1() {
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
