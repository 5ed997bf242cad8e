//! Parses the envelope of a JSON-RPC message and leaves its parameters as text.
//!
//! The rules are those of JSON-RPC 2.0, with two additions: batches are rejected (ACP has none),
//! and an invalid request is answered with its id if that can be parsed.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::line::InputLine;
use crate::json::Object;
use crate::protocol::error::{
    INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, error_json,
};
use crate::protocol::method::CANCEL_REQUEST;

/// The longest method name that is accepted, in bytes.
const METHOD_LIMIT: usize = 256;

/// The response to a request, as JSON text: its result, or its error object.
pub type Outcome = Result<String, String>;

/// A parsed line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A request, to be answered under `id`.
    Request {
        /// The id's JSON text: a number, a string or `null`.
        id: String,
        /// The method's name.
        method: String,
        /// The parameters' JSON text: an object, or an array if the form allows it.
        params: String,
    },
    /// A notification.
    Notification {
        /// The method's name.
        method: String,
        /// The parameters' JSON text: an object.
        params: String,
    },
    /// A response to one of our requests.
    Response {
        /// The id's JSON text.
        id: String,
        /// Its result or its error.
        outcome: Outcome,
    },
    /// Only white space.
    Blank,
    /// Not a valid message, with the error to answer.
    Invalid(Invalid),
}

/// An error that answers a line before it is dispatched.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The id's JSON text, or `null` if no id can be parsed.
    pub id: String,
    /// The JSON-RPC error code.
    pub code: i32,
    /// A description of the fault in the line. Never quotes the line, which may hold secrets.
    pub message: String,
}

impl Invalid {
    fn new(id: impl Into<String>, code: i32, message: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            code,
            message: message.into(),
        }
    }

    /// The line of the error response, with its line break.
    pub fn line(&self) -> String {
        response_line(&self.id, &Err(error_json(self.code, &self.message)))
    }
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Distinguishes a member that is `null` from one that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The form of messages that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageForm {
    /// Messages in the form of ACP.
    Acp,
    /// Messages in the form of JSON-RPC: an id may be any number, and the parameters of methods
    /// outside the protocol may be an array. The wrapped agent decides whether to reject them.
    JsonRpc,
}

/// Parses one line of input in the form of ACP.
pub fn read(line: InputLine, limit: usize) -> Message {
    read_as(line, limit, MessageForm::Acp)
}

/// Parses one line of input.
pub fn read_as(line: InputLine, limit: usize, form: MessageForm) -> Message {
    match line {
        InputLine::Whole(bytes) => read_whole(bytes, form),
        InputLine::TooLong { start, len } => Message::Invalid(Invalid::new(
            id_in(&start).unwrap_or_else(|| "null".to_owned()),
            INVALID_REQUEST,
            format!("line of {len} bytes is longer than the limit of {limit}"),
        )),
    }
}

fn read_whole(bytes: Vec<u8>, form: MessageForm) -> Message {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!("Parse error: invalid UTF-8 at byte {at}");
            return Message::Invalid(Invalid::new("null", PARSE_ERROR, message));
        }
    };
    let text = bytes
        .trim_start_matches('\u{feff}')
        .trim_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() {
        return Message::Blank;
    }
    match serde_json::from_str::<RawMessage<'_>>(text) {
        Ok(envelope) if text.starts_with('{') => {
            classify(&envelope, form).unwrap_or_else(Message::Invalid)
        }
        Ok(_) => Message::Invalid(not_an_object(text)),
        Err(error) if error.is_data() => Message::Invalid(match duplicate(&error) {
            Some(name) => {
                let id = id_in(text.as_bytes()).unwrap_or_else(|| "null".to_owned());
                Invalid::new(
                    id,
                    INVALID_REQUEST,
                    format!("`{name}` is given more than once"),
                )
            }
            None => not_an_object(text),
        }),
        Err(error) => Message::Invalid(Invalid::new(
            "null",
            PARSE_ERROR,
            format!("Parse error: invalid JSON at byte {}", error.column()),
        )),
    }
}

fn not_an_object(text: &str) -> Invalid {
    // Parsing a struct stops at the first byte of another type, so check the rest, too.
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return Invalid::new("null", PARSE_ERROR, "Parse error: invalid JSON");
    }
    let message = if text.starts_with('[') {
        "JSON-RPC batches are not supported: send each message on its own line"
    } else {
        "a message must be a JSON object"
    };
    Invalid::new("null", INVALID_REQUEST, message)
}

fn duplicate(error: &serde_json::Error) -> Option<&'static str> {
    let text = error.to_string();
    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    names
        .into_iter()
        .find(|name| text.starts_with(&format!("duplicate field `{name}`")))
}

fn classify(envelope: &RawMessage<'_>, form: MessageForm) -> Result<Message, Invalid> {
    let id = envelope.id.map(|id| check_id(id.get(), form)).transpose()?;
    let echo = || id.clone().unwrap_or_else(|| "null".to_owned());
    let invalid = |message: &str| Err(Invalid::new(echo(), INVALID_REQUEST, message));
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return invalid("`jsonrpc` must be \"2.0\"");
    }
    let Some(method) = envelope.method else {
        // Some peers send both, one of them `null`. Accepting such a response is better than a
        // request that waits forever.
        let text = |value: &RawValue| value.get().to_owned();
        let error = envelope.error.filter(|error| error.get() != "null");
        let outcome = match (error, envelope.result.or(envelope.error)) {
            (Some(error), _) => Some(Err(text(error))),
            (None, result) => result.map(|result| Ok(text(result))),
        };
        return match (id, outcome) {
            (Some(id), Some(outcome)) => Ok(Message::Response { id, outcome }),
            (id, _) => Err(Invalid::new(
                id.unwrap_or_else(|| "null".to_owned()),
                INVALID_REQUEST,
                "a message needs `method`, or `id` with one of `result` and `error`",
            )),
        };
    };
    if envelope.result.is_some() || envelope.error.is_some() {
        return invalid("a message with `method` must have neither `result` nor `error`");
    }
    let Ok(method) = serde_json::from_str::<String>(method.get()) else {
        return invalid("`method` must be a string");
    };
    let params = match envelope.params.map(RawValue::get) {
        None | Some("null") => "{}",
        Some(params) if params.starts_with('{') => params,
        Some(params)
            if form == MessageForm::JsonRpc
                && params.starts_with('[')
                && method.starts_with('_') =>
        {
            params
        }
        Some(params) => {
            // Notifications are never answered, not even invalid ones.
            return match (id, params.starts_with('[')) {
                (None, _) => Ok(Message::Blank),
                (Some(id), true) => Err(Invalid::new(
                    id,
                    INVALID_PARAMS,
                    "`params` must be an object",
                )),
                (Some(id), false) => Err(Invalid::new(
                    id,
                    INVALID_REQUEST,
                    "`params` must be an object",
                )),
            };
        }
    };
    let params = params.to_owned();
    match id {
        Some(id) if method.len() > METHOD_LIMIT => {
            let message = format!("method name of {} bytes is unknown", method.len());
            Err(Invalid::new(id, METHOD_NOT_FOUND, message))
        }
        Some(id) => Ok(Message::Request { id, method, params }),
        None if method.len() > METHOD_LIMIT => Ok(Message::Blank),
        None => Ok(Message::Notification { method, params }),
    }
}

/// Validates an id: a string, `null` or a 64-bit integer, as in ACP's schema, or any number if the
/// form allows it.
fn check_id(id: &str, form: MessageForm) -> Result<String, Invalid> {
    match id.as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(id) {
            Ok(_) => Ok(id.to_owned()),
            Err(_) => Err(Invalid::new(
                "null",
                INVALID_REQUEST,
                "`id` is no valid string",
            )),
        },
        _ if id == "null" || id.parse::<i64>().is_ok() => Ok(id.to_owned()),
        Some(b'-' | b'0'..=b'9') if form == MessageForm::JsonRpc => Ok(id.to_owned()),
        _ if !id.is_empty()
            && id
                .trim_start_matches('-')
                .bytes()
                .all(|b| b.is_ascii_digit()) =>
        {
            Err(Invalid::new(
                id,
                INVALID_REQUEST,
                "`id` must be an integer of 64 bits",
            ))
        }
        _ => {
            let message = "`id` must be a string, an integer or null";
            Err(Invalid::new("null", INVALID_REQUEST, message))
        }
    }
}

/// Finds a top-level `id` in the beginning of an object that cannot be parsed as a whole.
pub fn id_in(start: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
    };
    let mut rest = text.trim_start().strip_prefix('{')?;
    loop {
        let mut keys = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let key = keys.next()?.ok()?;
        rest = rest[keys.byte_offset()..]
            .trim_start()
            .strip_prefix(':')?
            .trim_start();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let value = values.next()?.ok()?.get();
        rest = rest[values.byte_offset()..]
            .trim_start()
            .strip_prefix(',')?
            .trim_start();
        if key == "id" {
            return check_id(value, MessageForm::Acp).ok();
        }
    }
}

/// The line of a request, with its line break. `id` is JSON text, `params` that of an object.
pub fn request_line(id: &str, method: &str, params: &str) -> String {
    line(
        Object::new().string("jsonrpc", "2.0").raw("id", id),
        method,
        params,
    )
}

/// The line of a notification, with its line break.
pub fn notification_line(method: &str, params: &str) -> String {
    line(Object::new().string("jsonrpc", "2.0"), method, params)
}

/// The line of the notification that withdraws the request with this id, given as JSON text.
pub fn cancel_line(id: &str) -> String {
    notification_line(CANCEL_REQUEST, &Object::new().raw("requestId", id).end())
}

fn line(head: Object, method: &str, params: &str) -> String {
    let mut line = head.string("method", method).raw("params", params).end();
    line.push('\n');
    line
}

/// The line of a response to the request with this id, given as JSON text; with its line break.
pub fn response_line(id: &str, outcome: &Outcome) -> String {
    let (head, end) = response_frame(id, outcome);
    let (Ok(body) | Err(body)) = outcome;
    [&head, body, end].concat()
}

/// The text before and after the outcome in the line of a response.
pub(super) fn response_frame(id: &str, outcome: &Outcome) -> (String, &'static str) {
    let name = if outcome.is_ok() { "result" } else { "error" };
    (
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":"),
        "}\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Message {
        read(InputLine::Whole(text.as_bytes().to_vec()), 1 << 20)
    }

    fn error(text: &str) -> (String, i32) {
        match read_text(text) {
            Message::Invalid(invalid) => (invalid.id, invalid.code),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ids_are_echoed_exactly() {
        for id in [
            "1",
            "-7",
            "9007199254740993",
            "-9223372036854775808",
            "\"a\\u0041\"",
            "null",
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            let Message::Request {
                id: read, params, ..
            } = read_text(&text)
            else {
                panic!("{id}")
            };
            assert_eq!((read.as_str(), params.as_str()), (id, "{}"));
        }
    }

    #[test]
    fn a_response_is_read_verbatim_even_with_both_members() {
        for (members, expected) in [
            (r#""result":{"a":1,"a":2}"#, Ok(r#"{"a":1,"a":2}"#)),
            (r#""result":{ },"error":null"#, Ok("{ }")),
            (r#""error":null"#, Ok("null")),
            (
                r#""result":null,"error":{"code":-1, "n":1e400}"#,
                Err(r#"{"code":-1, "n":1e400}"#),
            ),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0",{members},"id":1}}"#);
            let response = Message::Response {
                id: "1".to_owned(),
                outcome: expected.map(str::to_owned).map_err(str::to_owned),
            };
            assert_eq!(read_text(&text), response);
        }
    }

    #[test]
    fn an_invalid_request_is_answered_under_its_id() {
        for (text, id, code) in [
            (r#"{"id":1,"method":"m"}"#, "1", -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "1", -32600),
            (r#"{"jsonrpc":"2.0","id":"x","method":7}"#, "\"x\"", -32600),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
                "1",
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}"#,
                "1",
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
                "1",
                -32602,
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, "1", -32600),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}"#,
                "18446744073709551616",
                -32600,
            ),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "null", -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "null", -32600),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"m","method":"n"}"#,
                "null",
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"params":{},"params":{},"method":"m"}"#,
                "4",
                -32600,
            ),
            ("[]", "null", -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "null", -32600),
            ("17", "null", -32600),
            ("{", "null", -32700),
            ("[1,", "null", -32700),
            ("{} {}", "null", -32700),
            ("hello", "null", -32700),
        ] {
            // If members repeat, the id of the line is found only if it comes first.
            let (found_id, found_code) = error(text);
            assert_eq!(found_code, code, "{text}");
            if !text.contains("\"method\":\"m\",\"method\"") {
                assert_eq!(found_id, id, "{text}");
            }
        }
    }

    #[test]
    fn deep_nesting_is_no_error_and_white_space_is_no_message() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{deep}}}}}"#);
        assert!(matches!(read_text(&text), Message::Request { .. }));
        assert_eq!(read_text(" \t\r"), Message::Blank);
        let wrong = r#"{"jsonrpc":"2.0","method":"m","params":"p"}"#;
        assert_eq!(read_text(wrong), Message::Blank);
    }

    #[test]
    fn a_refused_line_is_answered_under_its_id() {
        let start = br#"{"jsonrpc":"2.0","id":"q-1","method":"m","params":{"x":"yyy"#.to_vec();
        let Message::Invalid(invalid) = read(InputLine::TooLong { start, len: 99 }, 10) else {
            panic!("refused");
        };
        assert_eq!((invalid.id.as_str(), invalid.code), ("\"q-1\"", -32600));
        let line: serde_json::Value = serde_json::from_str(&invalid.line()).unwrap();
        assert_eq!(
            line["error"]["message"],
            "line of 99 bytes is longer than the limit of 10"
        );
    }
}
