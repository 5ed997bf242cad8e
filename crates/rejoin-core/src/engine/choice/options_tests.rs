//! Tests of the options of a session whose agent is chosen.

use super::*;
use crate::engine::known::AgentOrigin;

fn found(id: &str, name: &str) -> FoundAgent {
    FoundAgent::sample(id, name, AgentOrigin::Installed)
}

/// The options of a session with the agent `claude-acp`.
fn options(logged: Option<&str>) -> Options {
    let found = [found("claude-acp", "Claude"), found("gemini", "Gemini")];
    Options::new(&found, &found[0], logged.map(str::to_owned))
}

fn answered(answer: &str) -> AttachOutcome {
    AttachOutcome {
        answer: Some(answer.to_owned()),
        ..AttachOutcome::default()
    }
}

/// Ids, names and values in a list.
fn shown(result: &str) -> Vec<String> {
    let list = text_elements(text_member(result, "configOptions").unwrap());
    let member = |option, name| string_member(option, name).unwrap_or_default();
    list.map(|option| {
        let [id, name, value] = ["id", "name", "currentValue"].map(|name| member(option, name));
        format!("{id} {name} {value}")
    })
    .collect()
}

const AGENT_OPTION: &str = "rejoin_agent Agent claude-acp";

const ANSWER: &str = r#"{"modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code","description":"Writes"}]},
    "models":{"currentModelId":"m1","availableModels":[{"modelId":"m1","name":"One"}]},"n":1e400}"#;

#[test]
fn modes_and_models_are_options() {
    let options = options(None);
    let attached = options.attached(answered(ANSWER));
    let answer = attached.answer.unwrap();
    assert_eq!(
        shown(&answer),
        [
            AGENT_OPTION,
            "rejoin_mode Mode ask",
            "rejoin_model Model m1"
        ]
    );
    assert!(answer.contains(r#""n":1e400"#), "{answer}");
    assert!(answer.contains(r#""description":"Writes""#), "{answer}");
    let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"code"}"#;
    let block = options.block(&Block::of(Kind::Info, mode.to_owned()));
    let payloads: Vec<_> = block.iter().map(|entry| entry.payload).collect();
    assert_eq!(payloads[0], mode);
    assert_eq!(shown(payloads[1])[1], "rejoin_mode Mode code");
    let model = Block::of(Kind::Info, r#"{"modelId":"m2"}"#.to_owned());
    options.block(&model);
    assert_eq!(shown(&options.result())[2], "rejoin_model Model m2");
}

#[test]
fn options_of_the_agent_follow_and_take_the_place_of_modes() {
    let options = options(None);
    let own = r#"[{"id":"mode","name":"Mode","category":"mode","currentValue":"x"},{"id":"agent","name":"Agent","currentValue":"y","n":1e400}]"#;
    let mut answer = ANSWER.to_owned();
    answer.insert_str(1, &format!(r#""configOptions":{own},"#));
    let attached = options.attached(answered(&answer)).answer.unwrap();
    assert_eq!(
        shown(&attached),
        [
            AGENT_OPTION,
            "rejoin_model Model m1",
            "mode Mode x",
            "agent Agent (Claude) y"
        ]
    );
    assert!(attached.contains(r#""currentValue":"y","n":1e400"#));
    let result = options.with_all(r#"{"configOptions":[{"id":"a","name":"A"}],"n":1e400}"#);
    let expected = [
        AGENT_OPTION,
        "rejoin_mode Mode ask",
        "rejoin_model Model m1",
        "a A ",
    ];
    assert_eq!(shown(&result), expected);
    assert!(result.contains(r#""n":1e400"#));
    // As a log has them, with ours among them.
    assert_eq!(shown(&options.with_all(&result)), expected);
}

#[test]
fn a_log_names_the_chosen_agent() {
    let options = options(None);
    options.choose("gemini", &[found("gemini", "Gemini")]);
    let update = options.update();
    assert_eq!(Options::chosen_in(&update).as_deref(), Some("gemini"));
    let params = format!(r#"{{"update":{update},"_meta":{{}}}}"#);
    assert_eq!(Options::chosen_in(&params).as_deref(), Some("gemini"));
    let other = r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"agent","currentValue":"x"}]}"#;
    assert_eq!(Options::chosen_in(other), None);
}

#[test]
fn what_the_log_has_is_not_logged_again() {
    let first = options(None);
    first.attached(answered(ANSWER));
    let update = first.update();
    let again = options(Some(&update));
    let list = text_member(&update, "configOptions").unwrap();
    let of_agent = format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{list}}}"#);
    let mut attached = answered(ANSWER);
    attached.snapshots = Block::of(Kind::Info, of_agent.clone());
    attached.gone = vec!["config_option_update", "current_mode_update"];
    let attached = again.attached(attached);
    assert!(attached.snapshots.is_empty(), "{:?}", attached.snapshots);
    assert_eq!(again.change(), None);
    assert_eq!(attached.gone, ["current_mode_update"]);
    let block = again.block(&Block::of(Kind::Info, of_agent));
    assert!(block.iter().all(|entry| entry.known), "{block:?}");
}

#[test]
fn other_options_than_those_of_the_log_are_a_change() {
    let first = options(None);
    assert_eq!(first.change(), None);
    let again = options(Some(&first.update()));
    again.attached(answered(ANSWER));
    assert!(again.change().unwrap().contains("rejoin_mode"));
    assert_eq!(again.change(), None);
}

#[test]
fn nothing_of_an_earlier_agent_is_recorded() {
    let options = options(None);
    let event = || EngineEvent::Block(Block::of(Kind::Update, "{}".to_owned()));
    assert!(options.filter(event()).is_some());
    options.end();
    assert!(options.filter(event()).is_none());
}
