//! Tests of the strict parser.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn valid(text: &str) -> bool {
    value_end(text.as_bytes(), 0) == Some(text.len())
}

#[test]
fn what_is_json_is_taken_and_nothing_else() {
    for good in [
        "0",
        "-0",
        "1e400",
        "-1.50E+07",
        "123456789012345678901234567890",
        "true",
        "false",
        "null",
        "\"\"",
        r#""\ud83d\u00E9\n\/""#,
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1 ,\t2]",
        r#"{"a":1,"a":{"":[[{}]]}}"#,
        "\"é😀\u{2028}\u{7f}\"",
    ] {
        assert!(valid(good), "{good}");
    }
    for bad in [
        "",
        "-",
        "01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "nul",
        "tru",
        "True",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "\"a\u{1}b\"",
        "\"12345678\t\"",
        "[",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1]",
        "[1}",
        "{1:2}",
        "'a'",
        "NaN",
        "\u{a0}1",
        "{\"a\" \"b\"}",
    ] {
        assert!(!valid(bad), "{bad}");
    }
}

#[test]
fn nesting_has_no_bound() {
    for depth in [1, 63, 64, 65, 128, 129, 1000, 200_000] {
        let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(valid(&arrays));
        assert!(!valid(&arrays[..arrays.len() - 1]));
        let both = format!("{}1{}", "{\"a\":[".repeat(depth), "]}".repeat(depth));
        assert!(valid(&both), "{depth}");
        let crossed = format!("{}1{}", "{\"a\":[".repeat(depth), "}]".repeat(depth));
        assert!(!valid(&crossed), "{depth}");
    }
}

#[test]
fn an_object_is_walked_with_its_names_unescaped() {
    let text = r#"{ "a" : 1 , "\u0062\"" :[ ] }x"#;
    let mut seen = Vec::new();
    let end = walk(text.as_bytes(), 0, |name, quote, at| {
        seen.push((name.to_owned(), quote, at));
        value_end(text.as_bytes(), at)
    });
    assert_eq!(end, Some(text.len() - 1));
    assert_eq!(seen, [(b"a".to_vec(), 2, 8), (b"b\"".to_vec(), 12, 24)]);
}

fn is_json_to_the_other_reader(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[test]
fn long_strings_are_checked_at_each_position() {
    for around in ["x", "\\n", "\\\"", "\\\\"] {
        for before in 0..140 {
            for odd in [
                "\"", "\\", "\\\\", "\\\\\"", "\\x", "\\u00e9", "\\u00g9", "\t", "\u{1f}",
            ] {
                let text = format!("\"{}{odd}{}\"", around.repeat(before), around.repeat(70));
                assert_eq!(valid(&text), is_json_to_the_other_reader(&text), "{text}");
            }
        }
    }
}

/// Pieces that make up long strings, in any order.
fn any_string() -> impl Strategy<Value = String> {
    const ATOMS: [&str; 14] = [
        "x",
        "longer than eight bytes",
        "longer than eight bytes, and than sixteen",
        "longer than a block is: thirty-two bytes, with or without a thing before it",
        "\\n",
        "\\\"",
        "\\t",
        "\\\\",
        "\\/",
        "\\ud83d",
        "é",
        "\\x",
        "\"",
        "\u{1f}",
    ];
    // What ends the string is rare.
    let atom = (0..200_usize).prop_map(|n| ATOMS[if n < ATOMS.len() { n } else { n % 11 }]);
    prop::collection::vec(atom, 0..40).prop_map(|atoms| format!("\"{}\"", atoms.concat()))
}

/// Pieces that make up JSON, in any order.
fn any_text() -> impl Strategy<Value = String> {
    const ATOMS: [&str; 24] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"k\":",
        "1",
        "-",
        "0",
        ".5",
        "e9",
        "true",
        "null",
        " ",
        "\t",
        "\\",
        "\\n",
        "\\u00e9",
        "é",
        "\u{1f}",
        "longer than eight bytes",
    ];
    prop::collection::vec(prop::sample::select(&ATOMS[..]), 0..9).prop_map(|atoms| atoms.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_the_other_reader(text in any_text()) {
        // Not only `text` itself: it is rarely JSON, but often is between brackets or quotes.
        for text in [text.clone(), format!("[{text}]"), format!("\"{text}\""), format!("{{\"k\":{text}}}")] {
            let trimmed = text.trim_matches([' ', '\t']);
            let other = is_json_to_the_other_reader(trimmed);
            prop_assert_eq!(valid(trimmed), other, "{}", text);
        }
    }

    #[test]
    fn agrees_with_the_other_reader_about_long_strings(text in any_string()) {
        prop_assert_eq!(valid(&text), is_json_to_the_other_reader(&text), "{}", text);
    }
}
