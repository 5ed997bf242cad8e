//! What the built-in engine shows on demand.

use super::*;

#[test]
fn thoughts_and_the_answer_are_different_messages() {
    let answer = ask("/think about\nthe sea");
    assert_eq!(answer.said("agent_thought_chunk"), "about\nthe sea");
    let kinds: Vec<_> = answer.runs().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["agent_thought_chunk", "agent_message_chunk"]);
    assert!(
        ask("/think")
            .said("agent_thought_chunk")
            .contains("This is a thought.")
    );
}

#[test]
fn a_plan_moves_on_step_by_step() {
    let statuses = |update: &Value| -> String {
        let entries = update["entries"].as_array().unwrap();
        let initials = entries
            .iter()
            .map(|entry| entry["status"].as_str().unwrap());
        initials
            .map(|status| status.chars().next().unwrap())
            .collect()
    };
    let answer = ask("/plan");
    let updates = answer.updates();
    let plans = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "plan");
    let plans: Vec<_> = plans.map(statuses).collect();
    assert_eq!(plans, ["ppp", "ipp", "cip", "cci", "ccc"]);
    assert!(answer.text().contains("done"));
}

#[test]
fn an_image_is_part_of_the_answer() {
    let answer = ask("/image");
    assert_eq!(answer.runs().len(), 1);
    let updates = answer.updates();
    let images = updates
        .iter()
        .filter(|update| update["content"]["type"] == "image");
    assert_eq!(images.count(), 1);
}

#[test]
fn a_resource_comes_with_its_text_and_as_a_link() {
    let updates = ask("/resource").updates();
    let kinds: Vec<_> = updates
        .iter()
        .map(|update| &update["content"]["type"])
        .collect();
    assert!(
        kinds.ends_with(&[&json!("resource"), &json!("resource_link")]),
        "{kinds:?}"
    );
}

#[test]
fn a_tool_call_goes_through_all_its_states() {
    let answer = ask("/tool");
    let kinds: Vec<_> = answer.runs().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(
        kinds,
        [
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk"
        ]
    );
    let updates = answer.updates();
    let call = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "tool_call")
        .unwrap();
    assert_eq!(call["kind"], "edit");
    assert_eq!(call["status"], "pending");
    assert!(call["rawInput"].is_object());
    let path = call["locations"][0]["path"].as_str().unwrap();
    assert!(std::path::Path::new(path).starts_with(HOME), "{path}");
    let moved = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call_update");
    let moved: Vec<_> = moved.collect();
    assert_eq!(moved[0]["status"], "in_progress");
    assert_eq!(moved[1]["status"], "completed");
    assert_eq!(moved[1]["content"][0]["type"], "diff");
    assert_eq!(moved[1]["content"][0]["path"], path);
    assert_eq!(moved[1]["content"][1]["type"], "content");
    assert!(moved[1]["rawOutput"].is_object());

    for kind in [
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ] {
        let updates = ask(&format!("/tool {kind}")).updates();
        let call = updates
            .iter()
            .find(|update| update["sessionUpdate"] == "tool_call")
            .unwrap();
        assert_eq!(call["kind"], kind);
    }
    let failed = ask("/tool fail");
    assert_eq!(failed.end, END_TURN);
    assert_eq!(failed.last_status(), "failed");
    assert_eq!(ask("/tool sing").lines.len(), ask("/tool sing").runs()[0].1);
}

#[test]
fn a_demo_has_one_of_each() {
    let answer = ask("/demo");
    let kinds: Vec<_> = answer.runs().into_iter().map(|(kind, _)| kind).collect();
    for kind in [
        "agent_thought_chunk",
        "agent_message_chunk",
        "plan",
        "tool_call",
        "tool_call_update",
    ] {
        assert!(kinds.iter().any(|have| have == kind), "{kind} is missing");
    }
    assert_eq!(ask("/mixed"), answer);
}

#[test]
fn slow_command() {
    for (asked, millis, chunks) in [
        ("/slow", 5000, 50),
        ("/slow 2", 2000, 20),
        ("/slow 0.25", 250, 2),
        ("/slow 0", 0, 0),
        ("/tool slow 3", 3000, 0),
        ("/plan 2", 6000, 0),
    ] {
        let (answer, took) = run(async {
            let start = Instant::now();
            let asked = prompt(&text(asked));
            let answer = converse(open(Vec::new()), &asked, |_, _| false).await;
            (answer, start.elapsed())
        });
        check(&answer);
        assert_eq!(answer.end, END_TURN);
        // The paused clock moves in whole milliseconds, and a timer may come one late.
        let late = took.saturating_sub(Duration::from_millis(millis));
        assert!(took.as_millis() >= u128::from(millis), "{asked}: {took:?}");
        assert!(late <= Duration::from_millis(2), "{asked}: {took:?}");
        if asked.starts_with("/slow") {
            assert_eq!(answer.lines.len(), chunks + 2, "{asked}");
        }
    }
}

#[test]
fn a_flood_is_numbered_and_complete() {
    let answer = ask("/flood 300 20");
    assert_eq!(answer.runs(), [("agent_message_chunk".to_owned(), 300)]);
    let said = answer.text();
    assert_eq!(said.len(), 300 * 20);
    for (at, line) in said.lines().enumerate() {
        let expected = format!("{}/300 ", at + 1);
        assert!(line.starts_with(&expected), "{line:?} is not {expected:?}");
    }
    assert_eq!(ask("/flood").lines.len(), 1000);
    let said = ask("/flood 10000000 1000000").text();
    assert!(said.contains("at most 4294967296 bytes"), "{said}");
}

#[test]
fn fail_command() {
    for (asked, expected) in [
        ("/fail refusal", StopReason::Refusal),
        ("/fail max_tokens", StopReason::MaxTokens),
        ("/fail max-turn-requests", StopReason::MaxTurnRequests),
        ("/fail nicely", StopReason::EndTurn),
    ] {
        let answer = ask(asked);
        assert_eq!(answer.end, Ok(expected), "{asked}");
        assert_ne!(answer.text(), "");
    }
    for asked in ["/fail", "/fail ERROR"] {
        let answer = ask(asked);
        assert_ne!(answer.text(), "");
        let error = answer.end.unwrap_err();
        assert_eq!(error.code, -32603);
        assert!(error.message.contains("/fail"), "{error}");
    }
}

#[test]
fn commands_are_announced_listed_and_in_the_manual() {
    let commands = open(Vec::new()).conversation.commands().unwrap();
    let announced: Value = serde_json::from_str(&commands).unwrap();
    Schema::of::<Vec<v1::AvailableCommand>>().assert_valid(&announced);
    let typed: Vec<v1::AvailableCommand> = serde_json::from_value(announced.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), announced);
    let help = ask("/help").text();
    let manual = include_str!("../../../docs/local-engine.md");
    for command in typed {
        let name = command.name;
        // Clients show the hint after the name while an argument is typed, as if it were one.
        let hint = announced_hint(&announced, &name);
        assert!(help.contains(&format!("- `/{name}{hint}`: ")), "{name}");
        assert!(
            manual.contains(&format!("\n### `/{name}{hint}`\n")),
            "{name}{hint}"
        );
        assert!(
            !ask(&format!("/{name}"))
                .text()
                .contains("There is no command")
        );
    }
}

/// The hint of a command as it follows its name.
fn announced_hint(announced: &Value, name: &str) -> String {
    let mut commands = announced.as_array().unwrap().iter();
    let command = commands.find(|command| command["name"] == name).unwrap();
    let hint = command["input"]["hint"].as_str();
    hint.map_or_else(String::new, |hint| format!(" {hint}"))
}

/// The engine can be shared and printed.
#[test]
fn the_engine_says_who_it_is() {
    fn shared<T: Engine + Clone + Debug + 'static>(engine: T) -> Arc<dyn Engine> {
        Arc::new(engine)
    }
    let who = shared(LocalEngine::new()).identity();
    assert_eq!(who.name, "local");
    assert_eq!(who.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
}
