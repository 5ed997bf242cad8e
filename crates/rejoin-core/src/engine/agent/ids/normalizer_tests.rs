//! Tests of making records of updates.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use super::*;

/// Ids that count from 1.
#[derive(Debug, Default)]
pub(super) struct Counted(pub(super) AtomicU64);

impl Ids for Counted {
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

pub(super) fn normalizer() -> IdNormalizer {
    IdNormalizer::new(Arc::new(Counted::default()))
}

fn normalize(normalizer: &mut IdNormalizer, update: &str) -> (Kind, String) {
    let payload = Payload::of_record(Kind::Update, update).unwrap();
    let update = normalizer.normalize(payload);
    (update.kind, update.payload.into_owned())
}

fn chunk(role: &str, id: &str) -> String {
    let kind = match role {
        "u" => "user_message",
        "a" => "agent_message",
        _ => "agent_thought",
    };
    let id = match id {
        "" => String::new(),
        "null" => ",\"messageId\":null".to_owned(),
        id => format!(",\"messageId\":\"{id}\""),
    };
    format!(r#"{{"sessionUpdate":"{kind}_chunk"{id},"content":{{"type":"text","text":"w"}}}}"#)
}

fn call(kind: &str, id: &str, status: &str) -> String {
    let status = match status {
        "" => String::new(),
        status => format!(",\"status\":\"{status}\""),
    };
    format!(r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}"{status}}}"#)
}

/// Plays a story and returns the resulting ids. Its words: `[` and `]` begin and end a turn, `u a
/// t` are chunks, with or without an id, `+` begins a call, `-` updates one, with the first letter
/// of a status after a slash, `?` requests permission for one, `p s n x` are a plan, a snapshot, a
/// notice, an unknown kind.
pub(super) fn act(
    normalizer: &mut IdNormalizer,
    history: &mut Vec<(Kind, String)>,
    story: &str,
) -> String {
    let mut ids = Vec::new();
    for word in story.split_whitespace() {
        let (first, rest) = word.split_at(1);
        let (id, status) = rest.split_once('/').unwrap_or((rest, ""));
        let status = match status {
            "c" => "completed",
            "f" => "failed",
            "r" => "in_progress",
            _ => "",
        };
        let update = match first {
            "[" => {
                normalizer.turn_begins("m", r#"{"prompt":[]}"#, None, false);
                history.push((Kind::Prompt, "{}".to_owned()));
                continue;
            }
            "]" => {
                normalizer.turn_ends("m");
                history.push((Kind::End, "{}".to_owned()));
                continue;
            }
            "?" => {
                let ask = format!(r#"{{"toolCall":{{"toolCallId":"{id}"}},"options":[]}}"#);
                let ask = normalizer.outgoing(&ask).unwrap_or(ask);
                let (_, id) = call_id(&ask).unwrap();
                ids.push(id.string(&ask).unwrap().into_owned());
                history.push((Kind::Ask, ask));
                continue;
            }
            "u" | "a" | "t" => chunk(first, id),
            "+" => call("tool_call", id, status),
            "-" => call("tool_call_update", id, status),
            "p" => r#"{"sessionUpdate":"plan","entries":[]}"#.to_owned(),
            "s" => r#"{"sessionUpdate":"usage_update","messageId":null}"#.to_owned(),
            "n" => r#"{"sessionUpdate":"notice"}"#.to_owned(),
            _ => r#"{"sessionUpdate":"moon","messageId":null}"#.to_owned(),
        };
        let (kind, normalized) = normalize(normalizer, &update);
        let payload = Payload::of_record(Kind::Update, &normalized).unwrap();
        let id = payload.fields.message.or(payload.fields.call);
        if let ("u" | "a" | "t" | "+" | "-", Some(id)) = (first, id) {
            let id = id.string(&normalized).unwrap();
            let ours = id.strip_prefix("msg_").map(|id| id.trim_start_matches('0'));
            ids.push(ours.map_or(id.to_string(), |number| format!("#{number}")));
        } else {
            assert_eq!(normalized, update);
        }
        history.push((kind, normalized));
    }
    ids.join(" ")
}

#[test]
fn every_message_has_one_id_and_no_other_of_its_role_has_it() {
    for (story, expected) in [
        // Without ids, adjacent chunks of one role are a message.
        ("[ a a t t a", "#1 #1 #2 #2 #3"),
        ("[ a anull a", "#1 #1 #1"),
        ("[ a s n a p a x a +c a -c a", "#1 #1 #2 #3 c #4 c #5"),
        ("[ a ] a [ a", "#1 #2 #3"),
        ("a a", "#1 #1"),
        ("[ u u a", "#1 #1 #2"),
        // With ids, chunks of the same id are a message, also across other updates.
        ("[ am am p am +c am", "m m m c m"),
        ("[ am an am", "m n m"),
        // A chunk without an id belongs to the message before it.
        ("[ am a t a", "m m #1 #2"),
        ("[ a am a", "#1 m m"),
        // The role distinguishes a thought from a text.
        ("[ tm am tm am", "m m m m"),
        ("[ tm ] [ am", "m m"),
        // The id is used again by another message of the same role.
        ("[ am ] [ am am p am ] [ am", "m m~2 m~2 m~2 m~3"),
        ("[ am ] [ tm am a", "m m m~2 m~2"),
        ("[ am ] am [ am", "m m m~2"),
        ("[ am ] [ am~2 ] [ am ] [ am~2", "m m~2 m~3 m~2~2"),
        ("[ am ] [ p am p a am", "m m~2 #1 m~2"),
    ] {
        assert_eq!(
            act(&mut normalizer(), &mut Vec::new(), story),
            expected,
            "{story}"
        );
    }
}

#[test]
fn every_call_has_an_id_of_its_own() {
    for (story, expected) in [
        ("[ +c -c/r +c -c/c -c", "c c c c c"),
        ("[ +c/c +c -c/c", "c c~2 c~2"),
        ("[ +c -c/f +c -c/f +c", "c c c~2 c~2 c~3"),
        ("[ +c -c/c -c/r +c", "c c c c"),
        ("[ +c ] [ -c +c -c", "c c c~2 c~2"),
        ("[ +c/c ] [ -c", "c c"),
        // Never a number that is taken.
        ("[ +c~2 +c/c +c -c~2 -c", "c~2 c c~3 c~2 c~3"),
        ("[ +c/c +c/c +c~2", "c c~2 c~2~2"),
        // Without a `tool_call`.
        ("[ -c/c ] [ -c", "c c"),
        ("[ -c -c/c +c", "c c c~2"),
        ("[ -c +c", "c c"),
        // The request precedes the `tool_call`.
        ("[ ?c +c -c/c ?c +c -c", "c c c c~2 c~2 c~2"),
        ("[ +c ?c -c ] [ ?c", "c c c c"),
        ("[ +c/c ] [ ?c +c -c/c +c", "c c~2 c~2 c~2 c~3"),
    ] {
        assert_eq!(
            act(&mut normalizer(), &mut Vec::new(), story),
            expected,
            "{story}"
        );
    }
}

#[test]
fn what_was_written_down_earlier_counts() {
    for (before, after, expected) in [
        ("[ am tm a ] [ am ]", "[ am tm a", "m~3 m~2 #2"),
        ("[ +c/c ] [ +c ]", "-c [ +c -c", "c~2 c~3 c~3"),
        ("[ +c/c +c ?c -c/c ]", "-c ?c +c -c", "c~2 c~3 c~3 c~3"),
        ("[ +c/c ?c ]", "-c -c~2", "c~2 c~2"),
        ("[ -c ?d ]", "[ +c +d", "c~2 d~2"),
        ("[ +c +c~2 ]", "[ ?c +c +c~2", "c c~3 c~2~2"),
    ] {
        let mut history = Vec::new();
        let mut straight = normalizer();
        act(&mut straight, &mut history, before);
        let straight = act(&mut straight, &mut Vec::new(), after);
        let mut again = IdNormalizer::new(Arc::new(Counted(AtomicU64::new(1))));
        for (kind, payload) in &history {
            again.recall(*kind, payload, false);
        }
        let again = act(&mut again, &mut Vec::new(), after);
        assert_eq!(again, expected, "{before} / {after}");
        assert_eq!(again, straight, "{before} / {after}");
    }
}

#[test]
fn a_question_is_recalled_with_or_without_its_envelope() {
    let params = r#"{"toolCall":{"toolCallId":"c"}}"#;
    for ask in [params, &format!(r#"{{"id":1,"params":{params}}}"#)] {
        let mut normalizer = normalizer();
        normalizer.recall(Kind::Ask, ask, false);
        let ids = act(&mut normalizer, &mut Vec::new(), "[ +c");
        assert_eq!(ids, "c~2", "{ask}");
    }
}

#[test]
fn a_call_that_the_session_closes_has_ended() {
    let mut normalizer = normalizer();
    assert_eq!(act(&mut normalizer, &mut Vec::new(), "[ +c/c +c"), "c c~2");
    normalizer.recall(
        Kind::Update,
        &call("tool_call_update", "c~2", "failed"),
        false,
    );
    assert_eq!(act(&mut normalizer, &mut Vec::new(), "] [ ?c"), "c~3");
}

#[test]
fn only_the_place_of_an_id_changes() {
    for (before, after) in [
        (
            r#"{ "sessionUpdate" : "agent_message_chunk" , "content" : {} , "n":[1e400,-0] }"#,
            r#"{ "sessionUpdate" : "agent_message_chunk" , "content" : {} , "n":[1e400,-0] ,"messageId":"msg_00000000000000000000000000000001"}"#,
        ),
        (
            r#"{"messageId" : null ,"content":{},"sessionUpdate":"agent_message_chunk","content":{}}"#,
            r#"{"messageId" : "msg_00000000000000000000000000000001" ,"content":{},"sessionUpdate":"agent_message_chunk","content":{}}"#,
        ),
        (
            r#"{"sessionUpdate":"tool_call","toolCallId":"\u0063","toolCallId":"\u0064","x":{"toolCallId":"d"}}"#,
            r#"{"sessionUpdate":"tool_call","toolCallId":"\u0063","toolCallId":"\u0064~2","x":{"toolCallId":"d"}}"#,
        ),
        (
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"\u006d","content":{"messageId":null}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"\u006d~2","content":{"messageId":null}}"#,
        ),
    ] {
        let mut normalizer = normalizer();
        let first = "[ +d/c am ] [";
        act(&mut normalizer, &mut Vec::new(), first);
        assert_eq!(
            normalize(&mut normalizer, before),
            (Kind::Update, after.to_owned())
        );
    }
}

#[test]
fn what_the_protocol_does_not_have_stays() {
    for update in [
        "{}",
        r#"{"sessionUpdate":7}"#,
        r#"{"sessionUpdate":"agent_message_chunk"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{},"messageId":7}"#,
        r#"{"sessionUpdate":"agent_message_chunk_2","content":{}}"#,
        r#"{"sessionUpdate":"tool_call"}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":null}"#,
        r#"{"sessionUpdate":"tool_call_2","toolCallId":"d"}"#,
    ] {
        let mut normalizer = normalizer();
        act(&mut normalizer, &mut Vec::new(), "[ +d/c ]");
        let expected = (Kind::Update, update.to_owned());
        assert_eq!(normalize(&mut normalizer, update), expected);
    }
}

#[test]
fn the_kind_of_a_record_follows_the_update() {
    let mut normalizer = normalizer();
    let prompt = r#"{"prompt":[{"type":"text","text":"w and more"}]}"#;
    let echo = chunk("u", "");
    assert_eq!(normalize(&mut normalizer, &echo).0, Kind::Update);
    normalizer.turn_begins("m", prompt, None, false);
    assert_eq!(
        normalize(&mut normalizer, &echo),
        (Kind::Transient, echo.clone())
    );
    assert_eq!(
        normalize(&mut normalizer, &echo).0,
        Kind::Update,
        "not twice"
    );
    normalizer.turn_begins("m", prompt, None, false);
    normalizer.turn_ends("m");
    assert_eq!(
        normalize(&mut normalizer, &echo).0,
        Kind::Update,
        "not later"
    );
    let snapshots = UpdateKind::all().filter(|kind| kind.is_snapshot());
    for name in snapshots.map(UpdateKind::name) {
        let update = format!(r#"{{"sessionUpdate":"{name}"}}"#);
        assert_eq!(normalize(&mut normalizer, &update), (Kind::Info, update));
    }
    for (update, kind) in [
        (r#"{"sessionUpdate":"plan"}"#, Kind::UpdateParams),
        (r#"{"sessionUpdate":"moon"}"#, Kind::UpdateParams),
        (r#"{"sessionUpdate":"notice"}"#, Kind::Transient),
        (r#"{"sessionUpdate":"usage_update"}"#, Kind::Info),
    ] {
        let params = format!(r#"{{"_meta":{{}},"update":{update}}}"#);
        let payload = Payload::of_record(Kind::UpdateParams, &params).unwrap();
        let update = normalizer.normalize(payload);
        assert_eq!((update.kind, &*update.payload), (kind, &*params));
        assert_eq!(update.form, PayloadForm::Params);
    }
}

#[test]
fn requests_name_the_call_that_the_other_side_knows() {
    let mut normalizer = normalizer();
    act(&mut normalizer, &mut Vec::new(), "[ +c/c +c +d");
    for (agent, client) in [
        (
            r#"{"toolCall":{"x":1, "toolCallId" : "c"},"toolCallId":"d"}"#,
            r#"{"toolCall":{"x":1, "toolCallId" : "c~2"},"toolCallId":"d"}"#,
        ),
        (
            r#"{"toolCallId":"c","n":1e400}"#,
            r#"{"toolCallId":"c~2","n":1e400}"#,
        ),
    ] {
        assert_eq!(normalizer.outgoing(agent).as_deref(), Some(client));
        assert_eq!(normalizer.incoming(client).as_deref(), Some(agent));
    }
    for params in [
        "",
        "{}",
        "[]",
        r#"{"toolCallId":"d"}"#,
        r#"{"toolCall":{"toolCallId":7}}"#,
    ] {
        assert_eq!(normalizer.outgoing(params), None);
        assert_eq!(normalizer.incoming(params), None);
    }
    assert_eq!(
        normalizer.incoming(r#"{"toolCallId":"d~2"}"#),
        None,
        "not one of ours"
    );
}
