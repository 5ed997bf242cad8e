//! Tests of reading and changing JSON text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::text::lenient;
use super::*;

fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut parts = members(text.as_bytes(), 0)?;
    let mut found = Vec::new();
    while let Some(member) = parts.member() {
        found.push((&text[member.key], &text[member.value]));
    }
    parts.end().map(|_| found)
}

#[test]
fn members_are_cut_out_verbatim() {
    let text = " { \"a\" : 1e400 ,\"b\\\"\":\"x\\\\\",\"c\":[{\"]\":\"}\"}, null],\"a\":-0\t} ";
    assert_eq!(
        pairs(text),
        Some(vec![
            ("a", "1e400"),
            ("b\\\"", "\"x\\\\\""),
            ("c", "[{\"]\":\"}\"}, null]"),
            ("a", "-0"),
        ])
    );
    assert_eq!(pairs("{}"), Some(vec![]));
    let range = member(text.as_bytes(), 0, "a").unwrap();
    assert_eq!(&text[range], "-0", "the last of two wins");
}

#[test]
fn broken_text_has_no_end() {
    let text = r#"{"a":[1,{"b":"\u00e9\\"}],"c":true}"#;
    for cut in 0..text.len() {
        assert_eq!(pairs(&text[..cut]), None, "cut at {cut}");
        assert_eq!(tree(&text[..cut]), None, "cut at {cut}");
    }
    for bad in [
        "{,}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{\"a\":}",
        "[]",
    ] {
        assert_eq!(pairs(bad), None, "{bad}");
    }
    for bad in ["", "nul", "{\"a\":1} {}", "[1 2]", "[\"\\ud800\" x]"] {
        assert_eq!(tree(bad), None, "{bad}");
    }
}

#[test]
fn the_tree_takes_what_other_readers_refuse() {
    let text = r#"{"a\ud800":"\ud83d x \ud83d\ude00 \udc00\u00e9\n","n":[1e400,1,-0.5]}"#;
    assert_eq!(
        tree(text),
        Some(json!({
            "a\u{fffd}": "\u{fffd} x \u{1f600} \u{fffd}\u{e9}\n",
            "n": ["1e400", 1, -0.5],
        }))
    );
    let deep = format!("[{}{}]", "[".repeat(5000), "]".repeat(5000));
    let mut value = tree(&deep).unwrap();
    let mut levels = 0;
    while let Value::Array(mut list) = value {
        levels += 1;
        value = list.pop().unwrap();
    }
    assert_eq!(levels, 128);
    assert!(value.as_str().unwrap().starts_with("[["));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_as_serde_json_does(value in any_json(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        prop_assert_eq!(value_end(text.as_bytes(), 0), Some(text.len()));
        prop_assert_eq!(lenient(&text, 0..text.len(), 0), Some(value));
    }

    #[test]
    fn no_text_is_a_panic(text in r#"[\[\]{}",:\\u0-9d \n]{0,24}"#) {
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let end = value_end(bytes, at);
            prop_assert!(end.is_none_or(|end| end <= bytes.len()));
            prop_assert!(member(bytes, at, "a").is_none_or(|range| range.end <= bytes.len()));
        }
        let read = serde_json::from_str::<Value>(&text).ok();
        prop_assert!(read.is_none() || tree(&text) == read);
        drop(unescape(&text));
    }
}

#[test]
fn an_object_is_written_with_its_members_in_order() {
    assert_eq!(Object::new().end(), "{}");
    let object = Object::new()
        .string("b", "x\"\n")
        .raw("a", " 1e400 ")
        .optional("c", None)
        .optional("d\"", Some("[ ]"));
    assert_eq!(object.end(), r#"{"b":"x\"\n","a": 1e400 ,"d\"":[ ]}"#);
}

#[test]
fn strings_are_changed_at_any_depth() {
    let text = r#"{ "id" : "a","n":1e400,"l":["a",{"id":"\u0061"},"a"],"o":{"a":"a" , "id":null},"x":"a" }"#;
    let mut seen = Vec::new();
    let changed = with_strings(text, &mut |name, value| {
        seen.push(name.to_owned());
        (name == "id" && value == "a").then(|| "b\"".to_owned())
    });
    let expected = r#"{ "id" : "b\"","n":1e400,"l":["a",{"id":"b\""},"a"],"o":{"a":"a" , "id":null},"x":"a" }"#;
    assert_eq!(changed.as_deref(), Some(expected));
    assert_eq!(seen, ["id", "", "id", "", "a", "x"]);
    assert_eq!(with_strings(text, &mut |_, _| None), None);
    assert_eq!(with_strings("7", &mut |_, _| Some(String::new())), None);
}

#[test]
fn a_string_takes_the_place_of_a_value() {
    let params = r#"{ "sessionId" : "inner", "n":1e400}"#;
    let named = with_string(params, &(16..23), "a\"b");
    assert_eq!(named, r#"{ "sessionId" : "a\"b", "n":1e400}"#);
}
