//! Whatever is sent, the built-in engine answers.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_prompt_is_answered(
        command in "(/(help|history|recall|echo|read|write|run|think|plan|tool|image|resource|demo|fail|no)?)?",
        rest in "(?s).{0,60}",
        before in "(?s).{0,300}",
    ) {
        let blocks = text(&format!("{command}{rest}"));
        let answer = ask_after(vec![Some(text(&before))], &blocks);
        prop_assert!(!answer.lines.is_empty());
    }

    #[test]
    fn any_params_are_answered(params in "(?s).{0,80}", blocks in any_blocks()) {
        for params in [params, json!({ "prompt": blocks }).to_string()] {
            let asked = Prompt { message_id: "msg_user".to_owned(), params };
            let answer = run(converse(open(Vec::new()), &asked, |_, _| false));
            check_form(&answer);
            prop_assert_eq!(answer.end, END_TURN);
        }
    }
}

fn any_blocks() -> impl Strategy<Value = Vec<Value>> {
    let word = prop::sample::select(vec![
        json!("text"),
        json!("/echo x"),
        json!("image"),
        json!("audio"),
        json!("resource"),
        json!("resource_link"),
        json!({"uri": "file:///a", "text": "b"}),
        json!({"uri": 5, "blob": "AA"}),
        json!(null),
        json!(7),
    ]);
    let name = prop::sample::select(vec!["text", "data", "mimeType", "uri", "name", "resource"]);
    let fields = prop::collection::vec((name, word.clone()), 0..4);
    let block = (word, fields).prop_map(|(kind, fields)| {
        let mut block = json!({ "type": kind });
        for (name, value) in fields {
            block[name] = value;
        }
        block
    });
    prop::collection::vec(block, 0..5)
}
