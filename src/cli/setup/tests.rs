//! Settings of any form are changed as text, and brought back to the byte.

use std::collections::BTreeMap;

use jsonc_parser::JsonValue;
use proptest::prelude::*;
use serde_json::{Value, json};

use rejoin::engine::known::KnownAgent;

use super::document::Document;
use super::wrapping::{Wrapper, unwrap};

/// Space between two tokens, with or without comments.
fn space() -> impl Strategy<Value = String> {
    let some = |text: &str| Just(text.to_owned()).boxed();
    prop_oneof![
        6 => some(""),
        4 => some(" "),
        4 => some("\n  "),
        1 => some("\n\t\t"),
        1 => some("\n\n"),
        1 => some(" // a { comment\n "),
        1 => some(" /* another, \"one\" */ "),
    ]
}

/// Elements or members between brackets.
fn list(
    open: char,
    close: char,
    items: Vec<(String, String, String)>,
    end: String,
    trailing: bool,
) -> String {
    let last = items.len();
    let mut out = open.to_string();
    for (number, (before, item, behind)) in items.into_iter().enumerate() {
        out.extend([before, item, behind]);
        if number + 1 < last || trailing {
            out.push(',');
        }
    }
    out + &end + &close.to_string()
}

fn spaced(item: impl Strategy<Value = String>) -> impl Strategy<Value = (String, String, String)> {
    (space(), item, space())
}

fn strings() -> impl Strategy<Value = String> {
    let items = prop::collection::vec(
        spaced("[a-z/:,-]{0,4}".prop_map(|text| json!(text).to_string())),
        0..4,
    );
    (items, space(), any::<bool>())
        .prop_map(|(items, end, trailing)| list('[', ']', items, end, trailing))
}

fn member(
    name: &'static str,
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    (space(), space(), value).prop_map(move |(a, b, value)| format!("\"{name}\"{a}:{b}{value}"))
}

fn entry() -> impl Strategy<Value = String> {
    let command = member("command", "\"[a-z/]{1,6}\"");
    let args = prop::option::of(member("args", strings()));
    let env = prop::option::of(member("env", Just("{ \"A\": \"1\" }".to_owned())));
    let order = Just(vec![0, 1, 2]).prop_shuffle();
    let custom = (command, args, env, order).prop_map(|(command, args, env, order)| {
        let members = [Some(command), args, env];
        let members = order
            .into_iter()
            .filter_map(move |number: usize| members[number].clone());
        members.collect::<Vec<_>>()
    });
    let registry = Just(vec!["\"type\": \"registry\"".to_owned()]);
    (
        prop_oneof![3 => custom, 1 => registry],
        prop::collection::vec(space(), 6),
        space(),
        any::<bool>(),
    )
        .prop_map(|(members, spaces, end, trailing)| {
            let items = members.into_iter().enumerate();
            let items = items.map(|(n, member)| (spaces[n].clone(), member, spaces[n + 3].clone()));
            list('{', '}', items.collect(), end, trailing)
        })
}

fn settings() -> impl Strategy<Value = String> {
    let names = prop::sample::subsequence(vec!["claude-acp", "gemini", "mine", "other"], 0..=4);
    let agents = (
        names,
        prop::collection::vec(entry(), 4),
        prop::collection::vec(space(), 8),
        space(),
        any::<bool>(),
    );
    let agents = agents.prop_map(|(names, entries, spaces, end, trailing)| {
        let items = names.into_iter().enumerate().map(|(n, name)| {
            (
                spaces[n].clone(),
                format!("\"{name}\": {}", entries[n]),
                spaces[n + 4].clone(),
            )
        });
        list('{', '}', items.collect(), end, trailing)
    });
    let agents = prop::option::of(member("agent_servers", agents));
    let other = prop::option::of(Just("\"theme\": \"x // y\"".to_owned()));
    let root = (
        other,
        agents,
        prop::collection::vec(space(), 5),
        any::<bool>(),
    );
    let root = root.prop_map(|(other, agents, spaces, trailing)| {
        let items = other.into_iter().chain(agents).enumerate();
        let items = items.map(|(n, item)| (spaces[n].clone(), item, spaces[n + 2].clone()));
        list('{', '}', items.collect(), spaces[4].clone(), trailing)
    });
    (space(), root, space(), any::<bool>()).prop_map(|(before, root, behind, windows)| {
        let text = format!("{before}{root}{behind}");
        // A list without elements has no comma.
        let text = text.replace("[,", "[").replace("{,", "{");
        if windows {
            text.replace('\n', "\r\n")
        } else {
            text
        }
    })
}

/// The meaning of the settings.
fn meant(text: &str) -> Value {
    let value = jsonc_parser::parse_to_value(text, &jsonc_parser::ParseOptions::default());
    value.unwrap().map_or(Value::Null, value_of)
}

fn value_of(value: JsonValue<'_>) -> Value {
    match value {
        JsonValue::String(text) => json!(text),
        JsonValue::Array(items) => items.into_iter().map(value_of).collect(),
        JsonValue::Object(members) => {
            let members = members.into_iter();
            let members = members.map(|(name, value)| (name.to_string(), value_of(value)));
            json!(members.collect::<BTreeMap<_, _>>())
        }
        other => json!(format!("{other:?}")),
    }
}

proptest! {
    #[test]
    fn any_settings_are_changed_and_brought_back(before in settings()) {
        let Ok(document) = Document::parse(&before) else {
            return Err(TestCaseError::reject("a comma without an element"));
        };
        let options = ["--store".to_owned(), "/s".to_owned()];
        let wrapper = Wrapper {
            rejoin: "/bin/rejoin",
            options: &options,
            typed: true,
            resolve: &|program| Some(format!("/whole/{program}")),
            interpreter: &|_| None,
            speaks_no_acp: &|_| false,
            is_gone: &|_| false,
            command: &|agent: &KnownAgent, _| Some(vec![format!("/bin/{}", agent.name)]),
        };
        let after = wrapper.wrap(&document).text;
        let changed = Document::parse(&after).unwrap();
        // Each agent is wrapped, with its own arguments behind.
        let (old, new) = (meant(&before), meant(&after));
        for (name, entry) in old["agent_servers"].as_object().into_iter().flatten() {
            let now = &new["agent_servers"][name];
            if entry["command"].is_null() {
                prop_assert_eq!(entry, now);
                continue;
            }
            let program = format!("/whole/{}", entry["command"].as_str().unwrap());
            let mut arguments = vec![json!("wrap"), json!("--store"), json!("/s"), json!("--"), json!(program)];
            arguments.extend(entry["args"].as_array().cloned().unwrap_or_default());
            prop_assert_eq!(&now["command"], "/bin/rejoin");
            prop_assert_eq!(&now["args"], &json!(arguments));
            prop_assert_eq!(&now["env"], &entry["env"]);
        }
        prop_assert_eq!(&old["theme"], &new["theme"]);
        // Nothing is done twice.
        prop_assert_eq!(&wrapper.wrap(&changed).text, &after);
        // And back again.
        prop_assert_eq!(&unwrap(&changed, &[document]).text, &before);
    }
}
