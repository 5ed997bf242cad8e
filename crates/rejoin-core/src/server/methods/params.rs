//! Decodes parameters, and describes errors in them without quoting them.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::server::error::{self, Error};
use crate::sys::SessionId;

/// The longest id that is accepted, in bytes; it is echoed in errors.
pub(super) const ID_LIMIT: usize = 256;

/// The parameter that all requests about a session have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionParams {
    pub(super) session_id: String,
}

/// Decodes an object of parameters.
pub(super) fn decode<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, Error> {
    decode_at(params, "").map_err(error::invalid_params)
}

/// Decodes the value at `place` in the parameters.
pub(super) fn decode_at<'a, T: Deserialize<'a>>(json: &'a str, place: &str) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        describe(&join(place, &path), &error.inner().to_string())
    })
}

fn join(place: &str, path: &str) -> String {
    match (place.is_empty(), path.is_empty() || path.starts_with('[')) {
        (true, _) => path.to_owned(),
        (false, true) => format!("{place}{path}"),
        (false, false) => format!("{place}.{path}"),
    }
}

/// The decoder's message without any value that it quotes.
fn describe(path: &str, message: &str) -> String {
    let quoted = |from: &str| {
        message
            .strip_prefix(from)
            .and_then(|rest| rest.split('`').next())
    };
    if let Some(field) = quoted("missing field `") {
        return format!("`{}` is missing", join(path, field));
    }
    if let Some(field) = quoted("duplicate field `") {
        return format!("`{}` is given more than once", join(path, field));
    }
    let path = if path.is_empty() { "params" } else { path };
    let expected = message.rsplit_once(", expected ").map(|(_, rest)| rest);
    let expected = expected.map(|rest| rest.split(" at line ").next().unwrap_or(rest));
    match expected {
        Some(expected) if expected.len() < 80 && !expected.contains('`') => {
            format!("`{path}` must be {}", json_type(expected))
        }
        _ => format!("`{path}` is not valid"),
    }
}

/// The name in JSON of a type that the decoder names as in Rust.
fn json_type(expected: &str) -> &str {
    match expected {
        "a sequence" => "an array",
        "a map" => "an object",
        "f64" => "a number",
        "i64" | "u64" => "an integer",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    }
}

/// A member that is required but may be `null`, which means its default.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// An integer in any spelling: `20`, `20.0` or `2e1`. One that is out of range becomes the largest
/// or the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer(pub(super) i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Integer;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(number))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Integer, E> {
                Ok(Integer(i64::try_from(number).unwrap_or(i64::MAX)))
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole, and one that is out of range becomes the bound"
            )]
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Integer, E> {
                if number.fract() == 0.0 {
                    Ok(Integer(number as i64))
                } else {
                    Err(E::invalid_type(Unexpected::Float(number), &self))
                }
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// Parses a session's id. Text that cannot be an id is the id of no session.
pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    match SessionId::parse(text) {
        Some(id) => Ok(id),
        None if text.is_empty() => Err(error::invalid_params("`sessionId` is empty")),
        None if text.len() > ID_LIMIT => {
            let problem = format!("`sessionId` is longer than {ID_LIMIT} bytes");
            Err(error::invalid_params(problem))
        }
        None => Err(error::not_found(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only decoded")]
    struct Sample {
        cwd: String,
        #[serde(default)]
        servers: Vec<Server>,
        #[serde(deserialize_with = "nullable")]
        must_be: Vec<u8>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Server {
        name: String,
    }

    #[test]
    fn an_integer_may_be_spelled_in_any_way() {
        for (json, expected) in [
            ("20", Some(20)),
            ("-3", Some(-3)),
            ("20.0", Some(20)),
            ("2e1", Some(20)),
            ("1e300", Some(i64::MAX)),
            ("-1e300", Some(i64::MIN)),
            ("18446744073709551615", Some(i64::MAX)),
            ("20.5", None),
            ("\"20\"", None),
            ("[]", None),
        ] {
            let decoded = decode_at::<Integer>(json, "limit");
            match expected {
                Some(number) => assert_eq!(decoded, Ok(Integer(number)), "{json}"),
                None => assert_eq!(decoded.unwrap_err(), "`limit` must be an integer", "{json}"),
            }
        }
    }

    #[test]
    fn names_the_field_and_never_its_value() {
        for (json, problem) in [
            (r#"{"mustBe":[]}"#, "`cwd` is missing"),
            (r#"{"cwd":"x"}"#, "`mustBe` is missing"),
            (r#"{"cwd":"x","cwd":"y"}"#, "`cwd` is given more than once"),
            (
                r#"{"cwd":{"secret":1},"mustBe":[]}"#,
                "`cwd` must be a string",
            ),
            (
                r#"{"cwd":"x","mustBe":null,"servers":[{}]}"#,
                "`servers[0].name` is missing",
            ),
            (
                r#"{"cwd":"x","mustBe":"secret"}"#,
                "`mustBe` must be an array",
            ),
            (
                r#"{"cwd":"x","mustBe":[],"servers":[{"name":"n"},{"name":7}]}"#,
                "`servers[1].name` must be a string",
            ),
        ] {
            let error = decode::<Sample>(json).unwrap_err();
            assert_eq!(
                error.message(),
                format!("Invalid params: {problem}"),
                "{json}"
            );
            assert!(!error.message().contains("secret"));
        }
        assert!(decode::<Sample>(r#"{"cwd":"x","mustBe":null,"unknown":{}}"#).is_ok());
    }
}
