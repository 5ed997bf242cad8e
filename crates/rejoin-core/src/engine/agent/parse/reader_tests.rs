//! Tests of parsing many lines.

use proptest::prelude::*;

use super::super::message::read;
use super::*;

fn line(session: &str, text: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"{more}}},"messageId":"m"}}}}}}"#
    )
}

#[test]
fn a_layout_is_used_again_and_only_where_it_fits() {
    let mut reader = MessageReader::default();
    for (session, text, more, layouts) in [
        ("s", "one", "", 1),
        ("s", "", "", 1),
        ("s", "a\\\"\\u00e9é", "", 1),
        ("s", "a\",\"text\":\"b", "", 2),
        ("s", "x", ",\"annotations\":null", 3),
        ("r", "x", "", 4),
        ("s", "x", "", 4),
        ("q", "x", "", 4),
        ("q", "\\x", "", 4),
        ("q", "a\u{1}", "", 4),
        ("q", "\\", "", 4),
    ] {
        let line = line(session, text, more);
        assert_eq!(
            reader.read(line.as_bytes()),
            read(line.as_bytes()),
            "{line}"
        );
        assert_eq!(reader.layouts.len(), layouts, "{line}");
    }
}

#[test]
fn what_is_long_around_its_text_is_not_remembered() {
    let mut reader = MessageReader::default();
    let more = format!(",\"x\":\"{}\"", "x".repeat(4096));
    let line = line("s", "text", &more);
    assert_eq!(reader.read(line.as_bytes()), read(line.as_bytes()));
    assert!(reader.layouts.is_empty());
}

/// Lines that are similar, and sometimes broken.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    const TEXTS: [&str; 12] = [
        "",
        "a",
        "word word word",
        "é",
        "\\n",
        "\\",
        "\"",
        "\\\"",
        "\",\"text\":\"",
        "\"}",
        "\r",
        "\\u12",
    ];
    const MORE: [&str; 6] = ["", "", "", ",\"text\":\"b\"", ",\"text\":1", "} , {"];
    let texts = prop::collection::vec(prop::sample::select(&TEXTS[..]), 0..3);
    let cut = prop_oneof![9 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let session = prop::sample::select(&["s", "s", "r\\u0041"][..]);
    let end = prop::sample::select(&["", "\r", " "][..]);
    (session, texts, prop::sample::select(&MORE[..]), cut, end).prop_map(
        |(session, texts, more, cut, end)| {
            let mut line = line(session, &texts.concat(), more).into_bytes();
            if let Some(cut) = cut {
                line.truncate(cut.index(line.len()));
            }
            line.extend_from_slice(end.as_bytes());
            line
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn reads_what_it_would_read_without_memory(lines in prop::collection::vec(any_line(), 1..12)) {
        let mut reader = MessageReader::default();
        for line in &lines {
            prop_assert_eq!(reader.read(line), read(line), "{}", String::from_utf8_lossy(line));
        }
    }
}
