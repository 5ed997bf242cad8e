//! What leads to the database stays with rejoin: agents and commands get none of it, and the `rejoin
//! mcp` that an agent is offered reaches the conversations through the process that offers it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::cluster;
use super::processes::{Process, load, prompt};
use crate::mcp_server::Client;
use crate::support::wrapped::Wrapped;

/// What nothing that rejoin starts may see.
const SECRET: &str = "hidden-text";

/// A command of rejoin whose environment has an address with a password, and another password.
fn rejoin(store: &Path, arguments: &[&str]) -> Command {
    let address = store.to_str().unwrap();
    let address = address.replace("rejoin@", &format!("rejoin:{SECRET}@"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command
        .args(arguments)
        .env("REJOIN_STORE", address)
        .env("REJOIN_STORE_PASSWORD_COMMAND", format!("echo {SECRET}"))
        .env("PGPASSWORD", SECRET)
        .env("PGPASSFILE", format!("/{SECRET}"))
        .env("PGDATABASE", "of-the-user")
        .env("OF_THE_USER", "kept");
    command
}

fn check(environment: &str) {
    assert!(environment.contains("OF_THE_USER=kept"), "{environment}");
    // The address has its own.
    assert!(
        environment.contains("PGDATABASE=of-the-user"),
        "{environment}"
    );
    for withheld in [SECRET, "REJOIN_STORE", "PGPASS"] {
        assert!(!environment.contains(withheld), "{environment}");
    }
}

#[test]
fn commands_get_nothing_that_leads_to_the_store() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut process = Process::of(rejoin(&place, &["serve"]));
    let hello = json!({ "protocolVersion": 1 });
    process.ask("initialize", &hello).unwrap();
    let session = process.new_session();
    let mode = json!({ "sessionId": session, "modeId": "auto" });
    process.ask("session/set_mode", &mode).unwrap();
    process
        .ask("session/prompt", &prompt(&session, "/run env"))
        .unwrap();
    let output = process.output.clone();
    check(&output);
    process.leave();
}

#[test]
fn an_agent_looks_up_conversations_without_a_password() {
    let Some(place) = cluster::store() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("environment");
    let begin = |name: &str| {
        let agent = Wrapped::new(
            folder.path(),
            &["--tag".to_owned(), name.to_owned(), "--resume".to_owned()],
        );
        let flags = agent.arguments();
        let noted = r#"env >"$0"; exec "$@""#;
        let mut arguments = vec!["wrap", "--name", name, "--", "sh", "-c", noted];
        arguments.push(seen.to_str().unwrap());
        arguments.extend(flags.iter().skip(1).map(String::as_str));
        let mut process = Process::of(rejoin(&place, &arguments));
        let hello = json!({ "protocolVersion": 1 });
        process.ask("initialize", &hello).unwrap();
        // The agent is killed with what stands for it.
        (process, agent)
    };
    let (mut first, first_agent) = begin("one");
    let session = first.new_session();
    let elsewhere = json!({ "cwd": "/elsewhere", "mcpServers": [] });
    let elsewhere = first.ask("session/new", &elsewhere).unwrap();
    let elsewhere = elsewhere["sessionId"].as_str().unwrap().to_owned();
    for session in [&session, &elsewhere] {
        first
            .ask("session/prompt", &prompt(session, "say one"))
            .unwrap();
    }
    first.leave();
    drop(first_agent);
    check(&std::fs::read_to_string(&seen).unwrap());

    // Another agent is handed the conversation, and offered the rest of it.
    let (mut second, _second_agent) = begin("two");
    second.ask("session/load", &load(&session, false)).unwrap();
    let record = std::fs::read_to_string(folder.path().join("agent.jsonl")).unwrap();
    let received = record
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let received: Vec<Value> = received.collect();
    let mut offered = received.iter().filter_map(|line| {
        let servers = line["params"]["mcpServers"].as_array()?;
        servers.iter().find(|server| server["name"] == "rejoin")
    });
    let server = offered.next_back().expect("it was offered");
    assert!(!server.to_string().contains(SECRET), "{server}");
    let start = |key: Option<&str>| {
        let mut command = Command::new(server["command"].as_str().unwrap());
        command.env_clear();
        for argument in server["args"].as_array().unwrap() {
            command.arg(argument.as_str().unwrap());
        }
        for variable in server["env"].as_array().unwrap() {
            let (name, value) = (&variable["name"], &variable["value"]);
            let value = key.unwrap_or(value.as_str().unwrap());
            command.env(name.as_str().unwrap(), value);
        }
        command
    };
    let client = Client::of(start(None));
    let (text, _) = client.answer("list", json!({}));
    assert!(text.contains(&session), "{text}");
    assert!(!text.contains(&elsewhere), "{text}");
    let refused = client.refusal("read", json!({ "session": elsewhere }));
    assert!(refused.contains("are not shown here"), "{refused}");
    // Who has no key gets nothing.
    let output = start(Some("guessed")).output().unwrap();
    assert_eq!(output.stdout, b"");
    drop(client);
    second.leave();
}
