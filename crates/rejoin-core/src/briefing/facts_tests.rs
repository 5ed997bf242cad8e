//! Tests of what a briefing must not lose: goals, decisions, what was done, plans and questions.

use serde_json::json;

use super::tests::{call, chunk, end, prompt, record, transcript};
use super::*;

#[test]
fn facts_of_every_kind_survive_in_a_small_budget() {
    let mut items = vec![prompt(&format!(
        "Build the kiosk. The goal is GOAL-1.\n{}",
        "Background. ".repeat(200)
    ))];
    for n in 0..60 {
        if n == 30 {
            items.push(prompt("Change of mind: the goal is GOAL-2 now."));
        } else if n > 0 {
            items.push(prompt(&format!("step {n}")));
        }
        items.push(chunk("I will look at it. "));
        for (id, call_of) in [
            (
                0,
                json!({"kind": "execute", "title": "Run it", "status": "completed",
                "rawInput": {"command": ["bash", "-lc", format!("make part{}", n % 4)]},
                "rawOutput": {"exit_code": n % 2, "output": "noise ".repeat(50)}}),
            ),
            (
                1,
                json!({"kind": "read", "title": "Read", "status": "completed",
                "locations": [{"path": format!("/src/read{}.rs", n % 3)}]}),
            ),
            (
                2,
                json!({"kind": "edit", "title": "Edit", "status": "completed", "content": [
                {"type": "diff", "path": format!("/src/edit{}.rs", n % 3), "newText": "x"}]}),
            ),
        ] {
            items.push(call(&format!("{n}-{id}"), &call_of));
        }
        items.push(chunk(&format!(
            "{}Decided: ANSWER-{n}.",
            "Because. ".repeat(30)
        )));
        items.push(end("end_turn"));
    }
    items.push((
        Kind::Update,
        json!({"sessionUpdate": "plan", "entries": [{"content": "PLAN-1", "status": "pending"}]})
            .to_string(),
    ));
    let text = transcript(&items, 16_000).unwrap();
    let needed = [
        "GOAL-1",
        "GOAL-2",
        "ANSWER-59",
        "ANSWER-58",
        "ANSWER-50",
        "PLAN-1",
        "ran make part1 (",
        "the last time exit code 1)",
        "ran make part2 (",
        "exit code 0)",
        "read /src/read0.rs",
        "edited /src/edit2.rs",
    ];
    for fact in needed {
        assert!(text.contains(fact), "{fact} is not in\n{text}");
    }
    assert!(text.len() <= 16_000);
}

#[test]
fn open_questions_and_notices() {
    let ask = |id: &str, params: &serde_json::Value| {
        let payload = json!({"method": "session/request_permission", "params": params});
        (id.to_owned(), payload.to_string())
    };
    let permission = json!({"toolCall": {"toolCallId": "t", "title": "Drop the table"},
        "options": [{"name": "Allow"}, {"name": "Reject"}]});
    let mut builder = BriefingBuilder::new(10_000);
    let mut take = |kind: Kind, id: Option<&str>, payload: &str| {
        builder.record(&Record::sample(kind, id, payload));
    };
    let stale = ask("q0", &json!({"message": "Which stale one?"}));
    take(Kind::Prompt, None, &prompt("before").1);
    take(Kind::Ask, Some(&stale.0), &stale.1);
    take(Kind::Prompt, None, &prompt("go").1);
    take(Kind::Update, None, &chunk("[rejoin] weaver goes on.").1);
    take(Kind::Update, None, &chunk("Asking.").1);
    for (id, payload) in [
        ask("q1", &json!({"message": "Which answered one?"})),
        ask("q2", &json!({"message": "Which database?"})),
        ask("q3", &permission),
    ] {
        take(Kind::Ask, Some(&id), &payload);
    }
    take(Kind::Answer, Some("q1"), "{}");
    take(Kind::End, None, r#"{"interrupted":"x"}"#);
    builder.say_how_to_get_more("More: ask.\n".to_owned());
    let given = builder.finish().unwrap();
    assert_eq!((given.shown, given.turns), (2, 2));
    let record = record(&given.text);
    assert_eq!(
        record[3..],
        [
            "[rejoin-1: turn 2, the user]",
            "go",
            "[rejoin-1: the agent]",
            "Asking.",
            "[rejoin-1: this turn was interrupted]",
            "[rejoin-1: the user has not answered this question]",
            "Which database?",
            "[rejoin-1: the user has not answered this question]",
            "Drop the table: Allow / Reject",
        ]
    );
    assert!(
        given
            .text
            .ends_with(": the record ends]\nMore: ask.\nThe user's new message follows.\n")
    );
}
