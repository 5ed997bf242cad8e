//! Tests of what replays send in place of terminals.

use serde_json::{Value, json};

use super::*;
use crate::engine::agent::parse::PayloadForm;
use crate::record::Kind;

fn note(terminals: &mut AgentTerminals, update: &str) {
    terminals.update(&NormalizedUpdate {
        kind: Kind::Update,
        form: PayloadForm::Update,
        payload: update.into(),
        is_call: true,
        continues: false,
    });
}

fn shows(id: &str, items: &[&str]) -> String {
    let items = items.join(" , ");
    format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{id}","content":[ {items} ]}}"#)
}

fn live(id: &str) -> String {
    format!(r#"{{"type":"terminal","terminalId":"{id}"}}"#)
}

fn text(output: &str) -> String {
    terminal_text::item(output, false, None)
}

fn end(terminals: &mut AgentTerminals, id: &str) -> Vec<String> {
    terminals.ended(id, &format!("of {id}"), false, None)
}

#[test]
fn text_takes_the_place_of_a_terminal_that_ended() {
    let mut terminals = AgentTerminals::default();
    let diff = r#"{"type":"diff","n":1e400}"#;
    note(
        &mut terminals,
        &shows("a", &[diff, &live("t"), &live("s"), "7"]),
    );
    note(&mut terminals, &shows("b\\\"", &[&live("s")]));
    note(&mut terminals, &shows("c", &[diff]));
    assert_eq!(terminals.flush(), [""; 0]);
    assert_eq!(
        end(&mut terminals, "t"),
        [shows("a", &[diff, &text("of t"), &live("s"), "7"])]
    );
    assert_eq!(
        end(&mut terminals, "s"),
        [
            shows("a", &[diff, &text("of t"), &text("of s"), "7"]),
            shows("b\\\"", &[&text("of s")])
        ]
    );
    assert_eq!(end(&mut terminals, "other"), [""; 0]);
    assert_eq!(terminals.flush(), [""; 0]);
}

#[test]
fn content_that_names_it_again_gets_it_again() {
    let mut terminals = AgentTerminals::default();
    assert_eq!(end(&mut terminals, "t"), [""; 0]);
    note(&mut terminals, &shows("a", &[&live("t")]));
    assert_eq!(terminals.flush(), [shows("a", &[&text("of t")])]);
    assert_eq!(terminals.flush(), [""; 0]);
    note(
        &mut terminals,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}"#,
    );
    note(
        &mut terminals,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","content":null}"#,
    );
    assert_eq!(terminals.flush(), [""; 0]);
    note(&mut terminals, &shows("a", &["1", &live("t")]));
    assert_eq!(terminals.flush(), [shows("a", &["1", &text("of t")])]);
    let again = terminals.ended("t", "more", false, None);
    assert_eq!(again, [shows("a", &["1", &text("more")])]);
    note(&mut terminals, &shows("a", &["1"]));
    assert_eq!(end(&mut terminals, "t"), [""; 0]);
}

#[test]
fn terminals_for_display_and_other_mentions_stay() {
    let mut terminals = AgentTerminals::default();
    let begun = format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"a","content":[{}],"_meta":{{"terminal_info":{{"terminal_id":"t"}}}}}}"#,
        live("t")
    );
    note(&mut terminals, &begun);
    note(&mut terminals, &shows("b", &[&live("t")]));
    note(
        &mut terminals,
        &shows(
            "c",
            &[
                r#"{"type":"x","terminalId":"s"}"#,
                &format!("[{}]", live("s")),
            ],
        ),
    );
    note(&mut terminals, r#"{"toolCallId":"d","content":"terminal"}"#);
    note(
        &mut terminals,
        r#"{"toolCallId":7,"content":[{"type":"terminal","terminalId":"s"}]}"#,
    );
    assert_eq!(end(&mut terminals, "t"), [""; 0]);
    assert_eq!(end(&mut terminals, "s"), [""; 0]);
}

#[test]
fn the_end_of_a_turn_forgets_what_is_done() {
    let mut terminals = AgentTerminals::default();
    note(&mut terminals, &shows("a", &[&live("t")]));
    note(&mut terminals, &shows("b", &[&live("t"), &live("s")]));
    end(&mut terminals, "t");
    end(&mut terminals, "unnamed");
    terminals.turn_ends();
    let left: Vec<_> = terminals.calls.iter().map(|call| &*call.id).collect();
    assert_eq!(left, ["b"]);
    assert_eq!(terminals.ended.len(), 1);
    assert_eq!(
        end(&mut terminals, "s"),
        [shows("b", &[&text("of t"), &text("of s")])]
    );
    terminals.turn_ends();
    assert!(terminals.calls.is_empty() && terminals.ended.is_empty());
    assert_eq!(terminals.kept, 0);
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut terminals = AgentTerminals::default();
    let output = "o".repeat(terminal_text::OUTPUT_LIMIT);
    for number in 0..40 {
        terminals.ended(&number.to_string(), &output, false, None);
    }
    assert!(terminals.kept <= KEPT_LIMIT && terminals.kept > KEPT_LIMIT / 2);
    note(&mut terminals, &shows("a", &[&live("0"), &live("39")]));
    let updates = terminals.flush();
    let update: Value = serde_json::from_str(&updates[0]).unwrap();
    assert_eq!(
        update["content"][0],
        json!({"type": "terminal", "terminalId": "0"})
    );
    assert_eq!(update["content"][1]["type"], "content");
}

#[test]
fn parameters_with_more_members_are_read_too() {
    let mut terminals = AgentTerminals::default();
    let params = format!(r#"{{"_meta":{{}},"update":{}}}"#, shows("a", &[&live("t")]));
    terminals.update(&NormalizedUpdate {
        kind: Kind::UpdateParams,
        form: PayloadForm::Params,
        payload: params.into(),
        is_call: true,
        continues: false,
    });
    assert_eq!(end(&mut terminals, "t"), [shows("a", &[&text("of t")])]);
}
