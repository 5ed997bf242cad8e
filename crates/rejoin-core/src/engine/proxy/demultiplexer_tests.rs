//! Tests of what either side gets of a conductor's input, valid or not, however it is split.

use proptest::prelude::*;

use super::*;
use crate::transport::Writer;

/// A reader that returns its bytes in pieces.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    size: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let count = rest.len().min(self.size).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

/// The bytes for each side of an input that comes in pieces, and the answers to the conductor.
fn sorted(bytes: &[u8], size: usize, line_limit: usize) -> [String; 3] {
    let port = Port::default();
    let (mut answers, output) = io::pipe().unwrap();
    port.connect(Writer::start(output).unwrap());
    let (_seat, mut successor) = port.open().unwrap();
    let (client, mut reader) = lane(CLIENT_AHEAD);
    let demultiplexer = Demultiplexer {
        port: port.clone(),
        client,
        line_limit,
        to_client: Vec::new(),
        to_successor: Vec::new(),
    };
    let bytes = bytes.to_vec();
    demultiplexer.run(Pieces { bytes, at: 0, size });
    port.leave();
    let mut found = [const { String::new() }; 3];
    reader.read_to_string(&mut found[0]).unwrap();
    successor.read_to_string(&mut found[1]).unwrap();
    answers.read_to_string(&mut found[2]).unwrap();
    found
}

const LINES: &str = r#"{"jsonrpc":"2.0","id":1,"method":"proxy/initialize","params":{"n":1e400}}
{"jsonrpc":"2.0","id":"s1.4","result":{"id":"s1.4"}}
{"jsonrpc":"2.0","id":4,"result":{}}
{"params":{"params":{"a":"\"}"},"method":"m\u0041"},"method":"proxy/successor","jsonrpc":"2.0"}
{"jsonrpc":"2.0","id":"7","method":"proxy/successor","params":{"method":"ask","params":null}}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"7"}}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}
{"jsonrpc":"2.0","id":"s2.4","result":{}}
{"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}
 no message
"#;

const CLIENT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"n":1e400}}
{"jsonrpc":"2.0","id":4,"result":{}}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}
 no message
"#;

const SUCCESSOR: &str = r#"{"jsonrpc":"2.0","id":4,"result":{"id":"s1.4"}}
{"jsonrpc":"2.0","method":"m\u0041","params":{"a":"\"}"}}
{"jsonrpc":"2.0","id":"7","method":"ask","params":{}}
{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"7"}}
"#;

#[test]
fn each_line_goes_to_its_side_in_whatever_pieces_it_comes() {
    for size in [1, 2, 7, 64, 1 << 20] {
        let [client, successor, answers] = sorted(LINES.as_bytes(), size, 4096);
        assert_eq!(client, CLIENT, "{size}");
        assert_eq!(successor, SUCCESSOR, "{size}");
        assert!(
            answers.contains(r#""id":8,"error":{"code":-32600"#),
            "{answers}"
        );
        assert_eq!(answers.lines().count(), 1, "{answers}");
    }
}

#[test]
fn a_line_that_is_too_long_is_answered_and_the_next_is_read() {
    let long = "x".repeat(300_000);
    let mut text = String::new();
    for start in [
        r#""id":"a","method":"proxy/successor""#,
        r#""method":"proxy/successor""#,
        r#""id":"s1.9""#,
        r#""id":"s7.9""#,
        r#""x":1"#,
    ] {
        text.extend(["{", start, ",\"params\":\"", &long, "\"}\n"]);
    }
    text.push_str(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#);
    for size in [1000, 1 << 20] {
        let [client, successor, answers] = sorted(text.as_bytes(), size, 100_000);
        assert_eq!(client, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
        assert!(
            successor.starts_with(r#"{"jsonrpc":"2.0","id":9,"error":{"#),
            "{successor}"
        );
        assert_eq!(successor.lines().count(), 1, "{successor}");
        let ids: Vec<_> = answers.lines().map(|line| line.split(',').nth(1)).collect();
        assert_eq!(ids, [Some(r#""id":"a""#), Some(r#""id":null"#)]);
    }
}

proptest! {
    #[test]
    fn no_bytes_are_lost_or_cause_a_panic(
        lines in prop::collection::vec("[\\[\\]{}\",:a-d0-9 \\\\]{0,40}", 0..10),
        size in 1usize..50,
    ) {
        let text = lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
        let [client, successor, answers] = sorted(text.as_bytes(), size, 4096);
        prop_assert_eq!(client, text);
        prop_assert_eq!(successor + &answers, "");
    }
}
