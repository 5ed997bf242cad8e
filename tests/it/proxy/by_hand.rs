//! Each message goes to the side it is meant for, to the byte and under the right id.

use serde_json::{Value, json};

use super::hand::{GREETING, Hand};

use crate::support::systems::local;

fn rpc_error(answer: &Value) -> (&Value, i64) {
    (
        &answer["id"],
        answer["error"]["code"].as_i64().expect("an error"),
    )
}

#[test]
fn a_prompt_goes_to_the_successor_and_its_updates_come_back() {
    let (mut hand, session) = Hand::in_session();
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"hi"}}],"n":1e400}}}}"#
    ));
    let line = hand.next_line();
    assert!(line.contains(r#""method":"session/prompt""#), "{line}");
    assert!(line.contains(r#""sessionId":"in""#), "{line}");
    assert!(line.contains(r#"[{"type":"text","text":"hi"}]"#), "{line}");
    let request: Value = serde_json::from_str(&line.replace("1e400", "1")).expect("JSON");
    let id = request["id"].to_string();
    hand.send(
        r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"_meta":{"x":1},"params":{"sessionId":"in","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\u0041"},"messageId":"m","n":1e400}},"method":"session/update"}}"#,
    );
    let update = hand.next_line();
    assert!(update.contains(r#""method":"session/update""#), "{update}");
    assert!(update.contains(&session), "{update}");
    assert!(
        update.contains(r#""text":"\u0041"},"messageId":"m","n":1e400"#),
        "{update}"
    );
    hand.answer(&id, r#"{"stopReason":"end_turn","usage":{"n":[1 , 2]}}"#);
    let title = hand.next_line();
    assert!(title.contains("\"session_info_update\""), "{title}");
    let answer = hand.next_line();
    assert!(answer.contains(r#""usage":{"n":[1 , 2]}"#), "{answer}");
    assert!(answer.contains(r#""id":5"#), "{answer}");
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn requests_of_the_successor_are_answered_under_their_own_ids() {
    let (mut hand, session) = Hand::in_session();
    let mut asked = Vec::new();
    for id in [
        "1",
        "\"1\"",
        "\"s1.1\"",
        "-9007199254740993",
        "\"a\\u0041\"",
    ] {
        hand.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"proxy/successor","params":{{"method":"session/request_permission","params":{{"sessionId":"in","toolCall":{{"toolCallId":"t"}},"options":[]}}}}}}"#
        ));
        let request = hand.next();
        assert_eq!(request["method"], "session/request_permission", "{request}");
        assert_eq!(request["params"]["sessionId"], session.as_str());
        asked.push((id, request["id"].clone()));
    }
    for (id, ours) in asked.iter().rev() {
        assert!(ours.is_u64(), "{ours}");
        let result = format!(r#"{{"outcome":{{"outcome":"selected","optionId":"o","n":{ours}}}}}"#);
        hand.answer(&ours.to_string(), &result);
        assert_eq!(
            hand.next_line(),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        );
    }
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn unknown_requests_and_notifications_go_both_ways_to_the_byte() {
    let mut hand = Hand::greeted();
    let params = r#"{"a":1e400,"a":[ 2 ],"b":"\ud800"}"#;
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"q","method":"_x/y","params":{params}}}"#
    ));
    let line = hand.next_line();
    assert!(
        line.contains(&format!(r#"{{"method":"_x/y","params":{params}}}"#)),
        "{line}"
    );
    let id = line
        .split('"')
        .find(|part| part.starts_with("s1."))
        .expect("an id of ours");
    hand.answer(&format!("\"{id}\""), params);
    let line = hand.next_line();
    assert!(
        line.contains(r#""id":"q""#) && line.contains(params),
        "{line}"
    );

    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"_x/note","params":{params}}}"#
    ));
    let line = hand.next_line();
    assert_eq!(
        line,
        format!(
            r#"{{"jsonrpc":"2.0","method":"proxy/successor","params":{{"method":"_x/note","params":{params}}}}}"#
        )
    );
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"proxy/successor","params":{{"method":"_x/heard","params":{params}}}}}"#
    ));
    let line = hand.next_line();
    assert_eq!(
        line,
        format!(r#"{{"jsonrpc":"2.0","method":"_x/heard","params":{params}}}"#)
    );
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":8,"method":"proxy/successor","params":{{"method":"mcp/connect","params":{params}}}}}"#
    ));
    let line = hand.next_line();
    assert!(
        line.contains(&format!(r#""method":"mcp/connect","params":{params}"#)),
        "{line}"
    );
    hand.send(r#"{"jsonrpc":"2.0","id":1,"result":{"connectionId":"c"}}"#);
    assert_eq!(
        hand.next_line(),
        r#"{"jsonrpc":"2.0","id":8,"result":{"connectionId":"c"}}"#
    );
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn requests_are_cancelled_in_both_directions() {
    let mut hand = Hand::greeted();
    // Two requests with the same id cannot be under way on one connection, so the ids differ; what
    // they are called on the other side does not.
    hand.send(r#"{"jsonrpc":"2.0","id":1,"method":"_x/y","params":{}}"#);
    let (to_successor, _, _) = hand.successor_request();
    hand.send(r#"{"jsonrpc":"2.0","id":"1","method":"proxy/successor","params":{"method":"_z","params":{}}}"#);
    let to_client = hand.next();
    assert_eq!(to_client["method"], "_z");

    hand.send(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert_eq!(
        hand.next_line(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{to_successor}}}}}"#
        )
    );
    hand.send(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"1"}}"#);
    let cancelled = hand.next();
    assert_eq!(cancelled["method"], "$/cancel_request");
    assert_eq!(cancelled["params"]["requestId"], to_client["id"]);

    let error = r#"{"code":-32800,"message":"withdrawn"}"#;
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{to_successor},"error":{error}}}"#
    ));
    assert_eq!(rpc_error(&hand.next()), (&json!(1), -32800));
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#,
        to_client["id"]
    ));
    assert_eq!(rpc_error(&hand.next()), (&json!("1"), -32800));
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn early_and_malformed_messages_are_refused() {
    let mut hand = Hand::new();
    for (line, id, code) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
            json!(1),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}"#,
            json!(2),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"3","method":"proxy/successor","params":{"method":"m"}}"#,
            json!("3"),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"proxy/successor","params":{"params":{}}}"#,
            json!(4),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"proxy/successor"}"#,
            json!(5),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":6,"method":"proxy/successor","params":{"method":"m","params":[1]}}"#,
            json!(6),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":{"method":"m","params":{]}}"#,
            json!(null),
            -32700,
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"id":9,"method":"proxy/successor","params":{"method":"m"}}"#,
            json!(null),
            -32600,
        ),
        ("hello", json!(null), -32700),
    ] {
        hand.send(r#"{"jsonrpc":"2.0","id":"s1.1","result":{}}"#);
        hand.send(
            r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update"}}"#,
        );
        hand.send(line);
        let answer = hand.next();
        assert_eq!((rpc_error(&answer).1, line), (code, line), "{answer}");
        if !line.contains(r#""id":9"#) {
            assert_eq!(answer["id"], id, "{line}");
        }
    }
    hand.greet();
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn initialize_after_refusal() {
    let mut hand = Hand::new();
    let greet = |hand: &mut Hand, id: u32| {
        let greeting = r#""method":"proxy/initialize","params":{"protocolVersion":1}"#;
        hand.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},{greeting}}}"#));
        hand.successor_request().0
    };
    let first = greet(&mut hand, 1);
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{first},"error":{{"code":-32001,"message":"not today","data":[1]}}}}"#
    ));
    let answer = hand.next();
    assert_eq!(rpc_error(&answer), (&json!(1), -32001), "{answer}");
    let second = greet(&mut hand, 2);
    assert_ne!(first, second);
    // What is left of the first connection is not taken for an answer.
    hand.answer(&first, "{}");
    hand.answer(&second, &GREETING.replace("1e400", "1"));
    let answer = hand.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["agentInfo"]["name"]),
        (&json!(2), &json!("far"))
    );
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn conductor_with_older_method_names() {
    let mut hand = Hand::new();
    hand.send(
        r#"{"jsonrpc":"2.0","id":0,"method":"_proxy/initialize","params":{"protocolVersion":1}}"#,
    );
    let request = hand.next();
    assert_eq!(request["method"], "_proxy/successor");
    hand.answer(&request["id"].to_string(), &GREETING.replace("1e400", "1"));
    assert_eq!(hand.next()["result"]["agentInfo"]["name"], "far");
    hand.send(
        r#"{"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"_a","params":{}}}"#,
    );
    assert_eq!(hand.next()["method"], "_a");
    hand.send(r#"{"jsonrpc":"2.0","method":"_b"}"#);
    let forwarded = hand.next();
    assert_eq!(
        (&forwarded["method"], &forwarded["params"]["method"]),
        (&json!("_proxy/successor"), &json!("_b"))
    );
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn requests_before_initialize_response() {
    let mut hand = Hand::new();
    hand.send(
        r#"{"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1}}"#,
    );
    let (id, _, _) = hand.successor_request();
    let padding = "x".repeat(100_000);
    for n in 1..=40 {
        hand.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{n},"method":"_x","params":{{"x":"{padding}"}}}}"#
        ));
    }
    hand.answer(&id, r#"{"protocolVersion":1}"#);
    assert_eq!(hand.next()["id"], 0);
    let mut answered = 0;
    while answered < 40 {
        let line = hand.next();
        if line["method"] == "proxy/successor" {
            hand.answer(&line["id"].to_string(), "{}");
        } else {
            assert_eq!(line["result"], json!({}));
            answered += 1;
        }
    }
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn agent_is_known_by_its_own_name() {
    let (mut hand, session) = Hand::in_session();
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"hi"}}]}}}}"#
    ));
    let (id, _, _) = hand.successor_request();
    hand.send(
        r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"sessionId":"in","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"},"messageId":"m"}}}}"#,
    );
    assert_eq!(hand.next()["method"], "session/update");
    hand.answer(&id, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(hand.next()["params"]["update"]["title"], "hi");
    assert_eq!(hand.next()["result"]["stopReason"], "end_turn");
    hand.crash();
    hand.greet();
    hand.send(&local(&format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"session/load","params":{{"sessionId":"{session}","cwd":"/w","mcpServers":[]}}}}"#
    )));
    let mut texts = Vec::new();
    loop {
        let line = hand.next();
        if line["method"] == "proxy/successor" {
            // The same agent knows it under its own id.
            assert_eq!(line["params"]["method"], "session/load");
            assert_eq!(line["params"]["params"]["sessionId"], "in");
            // Its own replay is not shown: ours is.
            hand.send(
                r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"sessionId":"in","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"theirs"}}}}}"#,
            );
            hand.answer(&line["id"].to_string(), "{}");
        } else if line["method"] == "session/update" {
            let update = &line["params"]["update"];
            texts.push(
                update
                    .get("title")
                    .unwrap_or(&update["content"]["text"])
                    .clone(),
            );
        } else {
            assert_eq!((&line["id"], line.get("error")), (&json!(2), None));
            break;
        }
    }
    // What was said, and the title.
    assert_eq!(texts, ["hi", "hello", "hi"]);
    assert_eq!(hand.end(), [""; 0]);
}

#[test]
fn a_turn_ends_with_its_conductor() {
    let (mut hand, session) = Hand::in_session();
    hand.send(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[]}}}}"#
    ));
    let (_, method, _) = hand.successor_request();
    assert_eq!(method, "session/prompt");
    let rest = hand.end();
    assert_eq!(rest.len(), 1, "{rest:?}");
    let answer: Value = serde_json::from_str(&rest[0]).expect("JSON");
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["data"]["error"], "agent_ended", "{answer}");
}
