//! The bytes of a client: cut into lines and read as messages.

use std::io::BufReader;

use proptest::prelude::*;
use rejoin::transport::line::{InputLine, LineReader};
use rejoin::transport::message::{Message, read};
use serde_json::Value;
use serde_json::value::RawValue;

use super::cases;
use super::mutate::{Mutation, mutated, mutations};

/// A secret in messages. No error may hold eight characters of it.
const SECRET: &str = "Tk9UIEEgU0VDUkVU";

/// Messages as clients send them.
pub(super) fn messages() -> Vec<String> {
    let secret = format!(r#"{{"name":"KEY","value":"{SECRET}"}}"#);
    vec![
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":"/w","mcpServers":[{{"name":"m","command":"/m","args":["{SECRET}"],"env":[{secret}]}}]}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":"two","method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{SECRET}"}}]}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{SECRET}"}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":-3,"result":{{"content":"{SECRET}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32603,"message":"{SECRET}"}}}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":4,"method":"{SECRET}"}}]"#),
        r#"{"id":9007199254740993,"params":{},"method":"session/list","jsonrpc":"2.0"}"#.to_owned(),
    ]
}

/// Some of these messages, a line each, with some damage.
pub(super) fn damaged_messages() -> impl Strategy<Value = Vec<u8>> {
    let chosen = prop::collection::vec(prop::sample::select(messages()), 1..6);
    (chosen, mutations()).prop_map(|(chosen, mutations): (Vec<_>, Vec<Mutation>)| {
        let mut text = chosen.join("\n");
        text.push('\n');
        mutated(text.as_bytes(), &mutations)
    })
}

/// Reads all lines, and checks of each what must hold for any.
fn check(bytes: &[u8], limit: usize, block: usize) -> Result<(), TestCaseError> {
    let mut reader = LineReader::new(BufReader::with_capacity(block, bytes), limit);
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut count = 0;
    while let Some(line) = reader.next_line().expect("memory can be read") {
        count += 1;
        let source = lines.next().expect("a line for a line");
        let whole = matches!(line, InputLine::Whole(_));
        prop_assert_eq!(whole, source.len() <= limit);
        match read(line, limit) {
            Message::Request { id, method, params } => {
                let id: Value = serde_json::from_str(&id).expect("an id is JSON");
                prop_assert!(id.is_string() || id.is_i64() || id.is_null());
                prop_assert!(method.len() <= 256 && is_object(&params));
            }
            Message::Notification { method, params } => {
                prop_assert!(method.len() <= 256 && is_object(&params));
            }
            Message::Response { id, outcome } => {
                let (Ok(value) | Err(value)) = outcome;
                for text in [id, value] {
                    prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok());
                    prop_assert!(!text.contains('\n'));
                }
            }
            Message::Blank => {}
            Message::Invalid(invalid) => {
                let answer = invalid.line();
                let (answer, rest) = answer.split_once('\n').expect("a line break");
                prop_assert_eq!(rest, "");
                let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
                prop_assert!(answer["error"]["code"].is_i64());
                let message = answer["error"]["message"].as_str().expect("a message");
                prop_assert!(message.len() <= 256, "{}", message);
                for part in SECRET.as_bytes().windows(8) {
                    let part = std::str::from_utf8(part).expect("it is ASCII");
                    prop_assert!(!message.contains(part), "{}", message);
                }
            }
        }
    }
    let rest: Vec<_> = lines.collect();
    prop_assert!(
        rest.is_empty() || rest == [b""],
        "{} lines, and {:?}",
        count,
        rest
    );
    Ok(())
}

fn is_object(text: &str) -> bool {
    let object = serde_json::from_str::<&serde_json::value::RawValue>(text);
    object.is_ok_and(|object| object.get().starts_with('{'))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_bytes_are_split_into_lines(
        bytes in prop::collection::vec(prop_oneof![
            4 => any::<u8>(),
            1 => prop::sample::select(b"\n\r{}[]\":,0- ".to_vec()),
        ], 0..400),
        limit in 0usize..200,
        block in 1usize..64,
    ) {
        check(&bytes, limit, block)?;
    }

    #[test]
    fn errors_of_damaged_messages_quote_nothing(
        bytes in damaged_messages(),
        limit in prop_oneof![Just(1 << 20), 0usize..400],
        block in 1usize..512,
    ) {
        check(&bytes, limit, block)?;
    }
}
