//! What the built-in engine makes of a conversation.

use serde_json::json;

use super::*;

#[test]
fn a_first_prompt_is_answered_in_several_chunks_of_one_message() {
    let answer = ask("My name is Ada");
    assert_eq!(answer.end, END_TURN);
    assert_in_order(
        &answer.text(),
        &["first prompt", "“My name is Ada” (14 characters)", "/help"],
    );
    let runs = answer.runs();
    assert_eq!(runs.len(), 1);
    assert!(runs[0].1 > 2, "{runs:?}");
}

#[test]
fn answer_depends_on_earlier_prompts() {
    let answer = asks(&["My name is Ada"], "What is my name?");
    assert_in_order(
        &answer.text(),
        &[
            "prompt 2 of",
            "What is my name?",
            "- prompt 1: “My name is Ada”",
        ],
    );
    let answer = asks(&["one", "two", "three", "four"], "five");
    assert_in_order(
        &answer.text(),
        &[
            "prompt 5 of",
            "4: “four”",
            "3: “three”",
            "2: “two”",
            "1: “one”",
        ],
    );
    assert!(!answer.text().contains("more"));
    let answer = asks(&["one", "two", "three", "four", "five", "six"], "seven");
    assert_in_order(
        &answer.text(),
        &["6: “six”", "5: “five”", "4: “four”", "2 more", "1: “one”"],
    );
    assert!(!answer.text().contains("three"));
}

#[test]
fn unreadable_prompt_fails_only_commands_that_need_it() {
    let before = || vec![Some(text("one")), None, Some(text("three"))];
    for asked in ["four", "/history"] {
        let answer = ask_after(before(), &text(asked));
        assert_eq!(answer.end, END_TURN);
        let text = answer.text();
        for part in ["“one”", "cannot be read: line 7 is damaged", "“three”"] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
    }
    assert!(
        ask_after(before(), &text("/recall 1"))
            .text()
            .ends_with("three")
    );
    let answer = ask_after(before(), &text("/recall 2"));
    assert_eq!(answer.lines, Vec::<String>::new());
    let error = answer.end.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("line 7 is damaged"), "{error}");
}

#[test]
fn recall_quotes_in_full() {
    let long = "A long line.\r\n\t\u{2028}\0🦀 ".repeat(1000);
    let before = ["one", &long, "three"];
    for (asked, expected) in [
        ("/recall", "Prompt 3 of this session was:\n\nthree"),
        ("/recall 1", "Prompt 3 of this session was:\n\nthree"),
        ("/recall #3 please", "Prompt 1 of this session was:\n\none"),
        (
            "/recall 2",
            &format!("Prompt 2 of this session was:\n\n{long}"),
        ),
        ("/recall 4", "Only 3 prompts came before this one."),
        (
            "/recall 99999999999999999999999",
            "Only 3 prompts came before this one.",
        ),
        (
            "/recall 0",
            "Invalid arguments “0”. Usage: `/recall [N]`. N is how many prompts to go back, at least 1.",
        ),
        (
            "/recall all",
            "Invalid arguments “all”. Usage: `/recall [N]`. N is how many prompts to go back, at least 1.",
        ),
    ] {
        let answer = asks(&before, asked);
        assert_eq!(answer.text(), expected);
        assert_eq!(answer.end, END_TURN);
        assert_eq!(answer.runs().len(), 1);
    }
    assert_eq!(ask("/recall").text(), "No prompt came before this one.");
    assert_eq!(
        asks(&["one"], "/recall 2").text(),
        "Only 1 prompt came before this one."
    );
}

#[test]
fn history_counts_and_lists() {
    assert_eq!(ask("/history").text(), "No prompt came before this one.");
    assert_eq!(
        asks(&["one\ntwo"], "/history").text(),
        "1 prompt came before this one:\n- prompt 1 (`/recall 1`): “one two”\n"
    );
    let many: Vec<_> = (1..=12).map(|number| format!("n{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let said = asks(&many, "/history").text();
    assert_in_order(
        &said,
        &[
            "12 prompts",
            "The last 10:\n- prompt 3 (`/recall 10`): “n3”",
            "12 (`/recall 1`): “n12”",
        ],
    );
    assert_eq!(said.lines().count(), 11);
}

#[test]
fn echo_and_recall_return_bytes_and_blocks_as_they_came() {
    let odd = "  CRLF \r\n tab \t U+2028 \u{2028} U+0085 \u{85} NUL \0 crab 🦀 quote \" \\u0000 ";
    let answer = ask(&format!("/echo {odd}"));
    assert_eq!(answer.text(), odd);
    assert_eq!(answer.lines.len(), 1);

    let blocks = concat!(
        r#"{"type":"image","mimeType":"image/png","data":"AAAA","uri":null},"#,
        r#"{"zebra":1e2,"type":"audio","data":"AAA=","mimeType":"audio/wav"},"#,
        r#"{"type":"resource","resource":{"uri":"file:///b","blob":"AA=="}},"#,
        r#"{"type":"text","text":"/echo again"},"#,
        r#"{"type":"resource_link","uri":"file:///a","name":"a","_meta":{"b":1,"a":2}}"#,
    );
    let echo = r#"{"type":"text","text":"/echo hi"}"#;
    let with = |blocks: &str| Prompt {
        message_id: "msg_user".to_owned(),
        params: format!("{{\"prompt\":[{blocks}]}}"),
    };
    let answer = run(converse(
        open(Vec::new()),
        &with(&format!("{echo},{blocks}")),
        |_, _| false,
    ));
    assert_eq!(answer.runs(), [("agent_message_chunk".to_owned(), 6)]);
    let contents = answer.lines.iter().map(|line| {
        let (_, content) = line.split_once("\"content\":").unwrap();
        content.strip_suffix('}').unwrap()
    });
    let contents: Vec<_> = contents.collect();
    assert_eq!(contents[0], r#"{"type":"text","text":"hi"}"#);
    assert_eq!(contents[1..].join(","), blocks);

    let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
    let recalled = ask_after(vec![Some(json!([image]))], &text("/recall"));
    assert_eq!(recalled.updates().last().unwrap()["content"], image);
}

#[test]
fn blocks_that_no_answer_can_hold_are_described() {
    let blocks = json!([
        {"type": "text", "text": "/echo"},
        {"type": "smell", "of": "roses"},
        {"type": "image", "data": 5},
    ]);
    assert_eq!(
        ask_after(Vec::new(), &blocks).text(),
        "(an invalid block of the type “smell”)(an invalid block of the type “image”)"
    );
    let pretty = Prompt {
        message_id: "msg_user".to_owned(),
        params: "{\"prompt\":[\n{\"type\":\"text\",\n\"text\":\"/echo\"},\r\n{\"type\":\n\"text\",\
                 \"text\":\"a\\nb\"}]}"
            .to_owned(),
    };
    let answer = run(converse(open(Vec::new()), &pretty, |_, _| false));
    check(&answer);
    assert_eq!(answer.text(), "a\nb");
    assert!(ask("/echo").text().starts_with("Usage: `/echo TEXT`."));
    assert!(
        ask_after(vec![Some(json!([]))], &text("/recall"))
            .text()
            .ends_with("(empty)")
    );
}

#[test]
fn attachments_alone_are_answered() {
    let blocks = json!([
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
    ]);
    let said = ask_after(Vec::new(), &blocks).text();
    assert!(
        said.contains("You sent an image (image/png, 3 bytes) and a link to file:///a."),
        "{said}"
    );
    let said = ask_after(vec![Some(blocks)], &text("and now?")).text();
    assert!(
        said.contains("- prompt 1: an image (image/png, 3 bytes) and a link"),
        "{said}"
    );
    assert!(
        ask_after(Vec::new(), &json!([]))
            .text()
            .contains("You sent nothing.")
    );
}

#[test]
fn unknown_commands_are_named_and_paths_are_text() {
    assert_eq!(
        ask("/nope").text(),
        "There is no command `/nope`; `/help` lists the commands.\n"
    );
    let said = ask("/tmp is full").text();
    assert_in_order(
        &said,
        &["You sent “/tmp is full”", "There is no command `/tmp`"],
    );
    let said = ask("/etc/hosts is broken").text();
    assert!(said.contains("You sent “/etc/hosts is broken”"), "{said}");
    assert!(!said.contains("There is no command"), "{said}");
}
