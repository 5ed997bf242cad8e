//! Property tests: invariants of the updates of any agent.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use serde_json::Value;

use super::tests::{Counted, act, normalizer};
use super::*;
use crate::engine::agent::parse::{AgentMessage, read};

/// White space between tokens.
fn gap() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => prop::sample::select(&[" ", "\t", "\r", " \r\t "][..])]
}

/// Any JSON value, on one line.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &[
            "null",
            "true",
            "0",
            "-0.10",
            "1e400",
            "123456789012345678901234567890",
            "\"\"",
            "\"m\"",
            "\"c\"",
            "\"\\ud800\"",
            "\"\\r\\u00e9é😀\"",
            "\"\\\"messageId\\\":null\"",
        ][..],
    );
    leaf.prop_map(str::to_owned)
        .prop_recursive(3, 8, 3, |inner| {
            let member = (
                prop::sample::select(&["a", "messageId", "toolCallId"][..]),
                inner.clone(),
                gap(),
            );
            prop_oneof![
                prop::collection::vec(inner, 0..3)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..3).prop_map(|members| {
                    let members = members
                        .iter()
                        .map(|(key, value, gap)| format!("\"{key}\"{gap}:{value}{gap}"));
                    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                }),
            ]
        })
}

/// A member of an update. Some members occur twice or have values of a wrong type.
fn any_member() -> impl Strategy<Value = (String, String)> {
    let ids = prop::sample::select(
        &[
            "null",
            "\"m\"",
            "\"m~2\"",
            "\"\\u006d\"",
            "\"c\"",
            "\"\\ud800\"",
        ][..],
    );
    let names = prop::sample::select(
        &[
            "agent_message_chunk",
            "agent_thought_chunk",
            "user_message_chunk",
            "tool_call",
            "tool_call_update",
            "pl\\u0061n",
            "notice",
            "usage_update",
            "moon",
        ][..],
    );
    let status = prop::sample::select(&["\"completed\"", "\"in_progress\"", "null"][..]);
    let fixed = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    prop_oneof![
        4 => names.prop_map(move |name| fixed("sessionUpdate", &format!("\"{name}\""))),
        3 => ids.clone().prop_map(move |id| fixed("messageId", id)),
        3 => ids.prop_map(move |id| fixed("toolCallId", id)),
        2 => status.prop_map(move |status| fixed("status", status)),
        3 => Just(fixed("content", r#"{"type":"text","text":"w"}"#)),
        2 => (prop::sample::select(&["_meta", "x", "content", "messageId", "sess\\u0069onUpdate"][..]), any_value())
            .prop_map(|(name, value)| (name.to_owned(), value)),
    ]
}

fn any_update() -> impl Strategy<Value = String> {
    let members = prop::collection::vec((any_member(), gap(), gap()), 0..7);
    members.prop_map(|members| {
        let members = members.iter().map(|((name, value), before, behind)| {
            format!("{before}\"{name}\"{behind}:{before}{value}{behind}")
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

/// The single change between two texts: the part before, and the part after.
fn changed<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str) {
    let same = |(a, b): &(u8, u8)| a == b;
    let start = before.bytes().zip(after.bytes()).take_while(same).count();
    let (before, after) = (&before[start..], &after[start..]);
    let behind = before.bytes().rev().zip(after.bytes().rev());
    let behind = behind.take_while(same).count();
    (
        &before[..before.len() - behind],
        &after[..after.len() - behind],
    )
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether this is one JSON string, and not an empty one.
fn is_string(text: &str) -> bool {
    text.starts_with('"')
        && text != "\"\""
        && json::value_end(text.as_bytes(), 0) == Some(text.len())
}

fn without_ids(text: &str) -> Value {
    let mut value = json::tree(text).unwrap();
    if let Some(members) = value.as_object_mut() {
        members.remove("messageId");
        members.remove("toolCallId");
    }
    value
}

/// A story for [`act`] that uses ids repeatedly.
fn any_story(words: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    const WORDS: [&str; 28] = [
        "[", "]", "[", "]", "a", "t", "u", "anull", "am", "tm", "um", "an", "tn", "p", "s", "x",
        "+c", "+c/c", "+d", "+d/f", "-c", "-c/c", "-c/r", "-d/c", "-d", "?c", "?d", "+m",
    ];
    prop::collection::vec(
        prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        words,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn only_documented_places_change(
        updates in prop::collection::vec((any_update(), any_value(), 0..3), 1..12),
    ) {
        let mut normalizer = normalizer();
        normalizer.turn_begins("m", r#"{"prompt":[{"type":"text","text":"ww"}]}"#, None, false);
        for (update, more, layout) in updates {
            let params = match layout {
                0 => format!("{{\"sessionId\":\"s\",\"update\":{update}}}"),
                1 => format!("{{\r\"update\" : {update} ,\"sessionId\" : \"s\" }}"),
                _ => format!("{{\"_meta\":{more},\"sessionId\":\"s\",\"update\":{update}}}"),
            };
            let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{params}}}\r");
            let AgentMessage::Update { session, payload } = read(line.as_bytes()) else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!(&*session, "s");
            let expected = match layout {
                2 => format!("{{\"_meta\":{more},\"update\":{update}}}"),
                _ => update.clone(),
            };
            prop_assert_eq!(payload.text(), expected.replace('\r', " "));
            let before = payload.text().to_owned();
            let name = payload.name().unwrap_or_default().into_owned();
            let update = normalizer.normalize(payload);
            let after = &*update.payload;
            // Valid and on one line, as a record must be.
            let one = after.bytes().all(|byte| byte >= b' ' || byte == b'\t');
            prop_assert!(one && json::value_end(after.as_bytes(), 0) == Some(after.len()), "{}", after);
            let touchable = name.ends_with("_chunk") || name.starts_with("tool_call");
            match changed(&before, after) {
                ("", "") => {}
                _ if !touchable => prop_assert!(false, "{} became {}", before, after),
                ("", now) => {
                    let number = now.strip_prefix('~').is_some_and(is_number);
                    let given = now.strip_prefix(",\"messageId\":").is_some_and(is_string);
                    prop_assert!(number || given, "{} became {}", before, after);
                }
                (then, now) => {
                    prop_assert!(then == "null" && is_string(now), "{} became {}", before, after);
                }
            }
            let whole = |text: &str| if layout == 2 { json::tree(text).unwrap()["update"].to_string() } else { text.to_owned() };
            prop_assert_eq!(without_ids(&whole(&before)), without_ids(&whole(after)));
        }
    }

    #[test]
    fn ids_follow_what_they_name(story in any_story(0..40)) {
        let mut made = normalizer();
        let printed = act(&mut made, &mut Vec::new(), &story.join(" "));
        // A simple model of what each word refers to: numbers that count messages and calls.
        let (mut turn, mut things) = (0, 0);
        let mut fresh = || { things += 1; things };
        let mut last: Option<(char, usize)> = None;
        let mut messages: HashMap<(i32, char, String), usize> = HashMap::new();
        let mut calls: HashMap<String, (usize, i32, bool)> = HashMap::new();
        let mut named = Vec::new();
        for word in &story {
            let first = word.chars().next().unwrap();
            let (id, status) = word[1..].split_once('/').unwrap_or((&word[1..], ""));
            match first {
                '[' | ']' => { turn += i32::from(first == '['); last = None; }
                'a' | 't' | 'u' => {
                    let same = last.filter(|(role, _)| *role == first).map(|(_, thing)| thing);
                    let thing = match id {
                        "" | "null" => same.unwrap_or_else(&mut fresh),
                        id => *messages.entry((turn, first, id.to_owned())).or_insert_with(&mut fresh),
                    };
                    last = Some((first, thing));
                    named.push((first, thing));
                }
                '+' | '-' | '?' => {
                    if first != '?' { last = None; }
                    let known = calls.get(id).copied().filter(|(_, begun, ended)| match first {
                        '+' => !ended && *begun == turn,
                        '?' => !ended,
                        _ => true,
                    });
                    let (thing, begun, ended) = known.unwrap_or_else(|| (fresh(), turn, false));
                    let ended = match status { "c" | "f" => true, "r" => false, _ => ended };
                    calls.insert(id.to_owned(), (thing, begun, ended));
                    named.push(('c', thing));
                }
                'p' | 'x' => last = None,
                _ => {}
            }
        }
        let printed: Vec<_> = printed.split_whitespace().collect();
        prop_assert_eq!(printed.len(), named.len());
        let pairs: HashSet<_> = printed.iter().zip(&named).map(|(id, (sort, thing))| (sort, *id, thing)).collect();
        let ids: HashSet<_> = pairs.iter().map(|(sort, id, _)| (sort, id)).collect();
        let things: HashSet<_> = pairs.iter().map(|(_, _, thing)| thing).collect();
        prop_assert_eq!((ids.len(), things.len()), (pairs.len(), pairs.len()), "{:?}", pairs);
    }

    #[test]
    fn a_session_goes_on_as_if_it_had_not_been_closed(
        before in any_story(0..40),
        late in prop::collection::vec(prop::sample::select(&["-c", "-c/c", "-d/r", "?c", "s", "am", "tm", "un"][..]), 0..3),
        after in any_story(0..20),
    ) {
        let mut history = Vec::new();
        let mut straight = normalizer();
        let first = act(&mut straight, &mut history, &format!("{} ]", before.join(" ")));
        let rest = format!("{} [ {}", late.join(" "), after.join(" "));
        let used = first.split_whitespace().filter_map(|id| id.strip_prefix('#'));
        let used = used.map(|digits| u64::from_str_radix(digits, 16).unwrap()).max();
        let mut again = IdNormalizer::new(Arc::new(Counted(AtomicU64::new(used.unwrap_or(0)))));
        for (kind, payload) in &history {
            again.recall(*kind, payload, false);
        }
        let straight = act(&mut straight, &mut Vec::new(), &rest);
        prop_assert_eq!(act(&mut again, &mut Vec::new(), &rest), straight);
    }
}
