//! Tests of parsing lines.

use super::*;
use crate::record::Kind;

/// A short form of a message, for comparison.
fn described(line: &str) -> String {
    let named = |session: &Option<NamedSession<'_>>, params: &str| match session {
        Some(named) => format!(" {}={}", named.id, &params[named.range.clone()]),
        None => String::new(),
    };
    match read(line.as_bytes()) {
        AgentMessage::Update { session, payload } => {
            format!("{:?} {session}: {}", payload.form, payload.text())
        }
        AgentMessage::Request {
            id,
            method,
            params,
            session,
        } => format!("? {id} {method} {params}{}", named(&session, &params)),
        AgentMessage::Notification {
            method,
            params,
            session,
        } => format!("! {method} {params}{}", named(&session, &params)),
        AgentMessage::Response { id, outcome } => format!("= {id} {outcome:?}"),
        AgentMessage::Blank => "blank".to_owned(),
        AgentMessage::Invalid(_) => "junk".to_owned(),
    }
}

#[test]
fn updates_are_cut_out_verbatim() {
    for (line, expected) in [
        (
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"x"}}}"#,
            r#"Update s: {"sessionUpdate":"x"}"#,
        ),
        (
            "\u{feff} {\"params\" : { \"update\" : { \"n\" : 1e400 ,\"n\":-0.10} , \"sessionId\" : \"\\u0073\" },\"method\":\"session\\/update\"} \r\n",
            "Update s: { \"n\" : 1e400 ,\"n\":-0.10}",
        ),
        (
            "{\"method\":\"session/update\",\r\"params\":{\"sessionId\":\"s\",\"update\":{\r\"a\":\r\"\\r\"}}}\r",
            "Update s: { \"a\": \"\\r\"}",
        ),
        (
            r#"{"method":"session/update","params":{"sessionId":"s","_meta":{"a":1},"update":{}},"more":[]}"#,
            r#"Params s: {"_meta":{"a":1},"update":{}}"#,
        ),
        (
            r#"{"method":"session/update","params":{ "a" : 1 , "sessionId":"s" ,  "update":{}, "b":2 }}"#,
            r#"Params s: { "a" : 1 ,  "update":{}, "b":2 }"#,
        ),
        (
            r#"{"method":"session/update","params":{"update":{},"sessionId":"r","update":{"b":"\ud800"},"sessionId":"s"}}"#,
            r#"Params s: {"update":{},"update":{"b":"\ud800"}}"#,
        ),
        (
            r#"{"method":"session/update","params":{},"params":{"sessionId":"s","update":{"a":0}},"params":{"sessionId":"s","update":{}}}"#,
            "Update s: {}",
        ),
        (
            "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"\":\r0,\"update\":{}}}",
            "Params s: {\"\": 0,\"update\":{}}",
        ),
    ] {
        assert_eq!(described(line), expected, "{line}");
    }
}

#[test]
fn other_messages_keep_their_text() {
    for (line, expected) in [
        (
            r#"{"id":9007199254740993,"method":"fs/read","params":{"path":"/é", "sessionId":"a\/b"}}"#,
            r#"? 9007199254740993 fs/read {"path":"/é", "sessionId":"a\/b"} a/b="a\/b""#,
        ),
        (r#"{"id":"x","method":"m"}"#, r#"? "x" m {}"#),
        (r#"{"id":null,"method":"m","params":null}"#, "? null m {}"),
        (r#"{"id":1,"method":"m","params":[1]}"#, "? 1 m [1]"),
        (
            r#"{"id":1,"method":"session/update","params":{"sessionId":"s","update":{}}}"#,
            r#"? 1 session/update {"sessionId":"s","update":{}} s="s""#,
        ),
        (
            r#"{"method":"_x","params":{"sessionId":7}}"#,
            r#"! _x {"sessionId":7}"#,
        ),
        (
            r#"{"method":"session/update","params":{"sessionId":"s","update":{},"update":7}}"#,
            r#"! session/update {"sessionId":"s","update":{},"update":7} s="s""#,
        ),
        (
            r#"{"method":"session/update","params":{"update":{}}}"#,
            r#"! session/update {"update":{}}"#,
        ),
        (r#"{"id":1,"result":null}"#, "= 1 Result(\"null\")"),
        (
            r#"{"id":1,"result":{"a":1e999},"error":null}"#,
            r#"= 1 Result("{\"a\":1e999}")"#,
        ),
        (
            r#"{"id":1,"result":null,"error":{"code":1}}"#,
            r#"= 1 Error("{\"code\":1}")"#,
        ),
        ("", "blank"),
        (" \t\r\n", "blank"),
        ("\u{feff}", "blank"),
    ] {
        assert_eq!(described(line), expected, "{line}");
    }
}

#[test]
fn what_is_no_message_is_junk() {
    for line in [
        "Listening on port 80",
        "{",
        "{}",
        "7",
        "[",
        r#"[{"id":1,"method":"m"}]"#,
        r#"{"id":1}"#,
        r#"{"id":1,"error":null}"#,
        r#"{"result":1}"#,
        r#"{"id":1,"method":7}"#,
        r#"{"id":1,"method":"m"} {}"#,
        r#"{"id":1,"method":"m"},"#,
        r#"{"id":01,"method":"m"}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"a":"\x"}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"a":1,}}}"#,
        "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"a\":\"\r\"}}}",
    ] {
        assert_eq!(described(line), "junk", "{line}");
    }
    assert!(matches!(
        read(b"{\"a\":\"\xff\"}"),
        AgentMessage::Invalid(_)
    ));
}

#[test]
fn no_cut_of_a_line_is_a_message() {
    let line =
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"a":[1,"\u00e9é"]}}}"#;
    for cut in 1..line.len() {
        let read = read(&line.as_bytes()[..cut]);
        assert!(matches!(read, AgentMessage::Invalid(_)), "cut at {cut}");
    }
}

#[test]
fn deep_nesting_is_read() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(
        r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"a":{deep}}}}}}}"#
    );
    assert_eq!(described(&line), format!("Update s: {{\"a\":{deep}}}"));
}

#[test]
fn a_record_is_read_like_the_line_it_came_from() {
    for (kind, text, name) in [
        (
            Kind::Update,
            r#"{"sessionUpdate":"pl\u0061n"}"#,
            Some("plan"),
        ),
        (
            Kind::UpdateParams,
            r#"{"a":1,"update":{"sessionUpdate":"plan"}}"#,
            Some("plan"),
        ),
        (
            Kind::UpdateParams,
            r#"{"update":{"sessionUpdate":"plan"},"update":{}}"#,
            Some(""),
        ),
        (Kind::UpdateParams, r#"{"update":{},"update":[1]}"#, None),
        (Kind::UpdateParams, r#"{"a":1}"#, None),
        (Kind::Update, "7", None),
        (Kind::Info, "{}", None),
    ] {
        let read = Payload::of_record(kind, text);
        let read = read.map(|payload| payload.name().unwrap_or_default().into_owned());
        assert_eq!(read.as_deref(), name, "{text}");
    }
}
