//! The entry for the ACP registry: its form, its icon, and that the program passes the registry's
//! checks.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/registry/rejoin")
}

fn entry() -> Value {
    let text = std::fs::read_to_string(folder().join("agent.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_entry_has_the_form_that_the_registry_wants() {
    let entry = entry();
    assert_eq!(entry["id"], folder().file_name().unwrap().to_str().unwrap());
    assert_eq!(entry["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(entry["license"], env!("CARGO_PKG_LICENSE"));
    for name in ["name", "description"] {
        assert!(!entry[name].as_str().unwrap().is_empty());
    }
    let known = [
        "id",
        "name",
        "version",
        "description",
        "repository",
        "website",
        "authors",
        "license",
        "license_url",
        "distribution",
    ];
    for name in entry.as_object().unwrap().keys() {
        assert!(known.contains(&&**name), "{name}");
    }
    let distribution = entry["distribution"].as_object().unwrap();
    assert!(!distribution.is_empty());
    for (kind, distributed) in distribution {
        let version = env!("CARGO_PKG_VERSION");
        let package = match &**kind {
            "npx" => format!("rejoin@{version}"),
            "uvx" => format!("rejoin=={version}"),
            other => panic!("{other} is not checked"),
        };
        assert_eq!(
            *distributed,
            json!({ "package": package, "args": ["agent"] })
        );
    }
}

#[test]
fn the_icon_is_small_and_has_no_colours_of_its_own() {
    let icon = std::fs::read_to_string(folder().join("icon.svg")).unwrap();
    for part in [
        r#"width="16""#,
        r#"height="16""#,
        r#"viewBox="0 0 16 16""#,
        "currentColor",
    ] {
        assert!(icon.contains(part), "{part}");
    }
    for name in ["fill", "stroke", "color", "stop-color"] {
        for rest in icon.split(&format!(r#"{name}=""#)).skip(1) {
            let value = rest.split('"').next().unwrap();
            let plain = ["none", "currentColor", "inherit"].contains(&value);
            assert!(plain, "{name} is {value}");
        }
    }
    assert!(!icon.contains("style"));
}

#[test]
fn the_program_answers_in_an_empty_home_folder() {
    let home = tempfile::tempdir().unwrap();
    let mut rejoin = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .arg("agent")
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": 1,
            "clientInfo": { "name": "ACP Registry Validator", "version": "1.0.0" },
            "clientCapabilities": {
                "terminal": true,
                "fs": { "readTextFile": true, "writeTextFile": true },
            },
        },
    });
    let mut input = rejoin.stdin.take().unwrap();
    writeln!(input, "{request}").unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(rejoin.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["result"]["agentInfo"]["name"], "rejoin");
    let methods = answer["result"]["authMethods"].as_array().unwrap();
    assert!(!methods.is_empty());
    for method in methods {
        assert_eq!(method["type"], "agent");
        assert!(method["id"].is_string() && method["name"].is_string());
    }
    drop(input);
    assert!(rejoin.wait().unwrap().success());
}
