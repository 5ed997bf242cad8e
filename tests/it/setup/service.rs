//! `rejoin setup import`: the service's file, and what the system is asked to do with it.

use std::fs;

use super::Home;

/// A program that writes down with what it was started.
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$*\" >> \"$HOME/asked\"\n";
/// One that has nobody to ask.
const FAILS: &str = "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n";

const UNIT: &str = ".config/systemd/user/rejoin-import.service";

fn systemctl(home: &Home, script: &str) {
    home.program("systemctl");
    fs::write(home.path("bin/systemctl"), script).unwrap();
}

fn asked(home: &Home) -> Vec<String> {
    let asked = fs::read_to_string(home.path("asked")).unwrap_or_default();
    fs::remove_file(home.path("asked")).ok();
    asked.lines().map(str::to_owned).collect()
}

#[test]
fn a_service_is_installed_and_removed() {
    let home = Home::new();
    systemctl(&home, SYSTEMCTL);
    let said = home.runs(&["setup", "import", "--dry-run"]);
    assert!(
        said.contains("+ExecStart=\"<home>/bin/rejoin\" \"import\" \"--watch\""),
        "{said}"
    );
    assert!(
        said.contains("systemctl --user enable rejoin-import.service"),
        "{said}"
    );
    assert!(!home.path(UNIT).exists() && asked(&home).is_empty());
    let (_, why) = home.fails(&["setup", "import"], 2);
    assert!(why.contains("add `--yes`"), "{why}");
    home.runs(&["setup", "import", "--yes"]);
    let text = fs::read_to_string(home.path(UNIT)).unwrap();
    assert!(text.contains("\nWantedBy=default.target\n"), "{text}");
    let unit = "rejoin-import.service";
    let started = [
        "--user daemon-reload".to_owned(),
        format!("--user enable {unit}"),
        format!("--user restart {unit}"),
    ];
    assert_eq!(asked(&home), started);
    // A service does not have the environment of this shell.
    let mut named = home.command(&["setup", "import", "--dry-run"]);
    let said = named.env("REJOIN_STORE", "/srv/own").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(r#""--store" "/srv/own""#), "{said}");
    let mut named = home.command(&["setup", "import", "--yes"]);
    let refused = named.env("REJOIN_STORE", "postgres://ada:secret@db/rejoin");
    let refused = refused.output().unwrap();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && why.contains("--store"),
        "{why}"
    );
    assert!(
        !fs::read_to_string(home.path(UNIT))
            .unwrap()
            .contains("secret")
    );
    // Again, with another store and another folder of a tool.
    let mut again = home.command(&["--store", "/srv/50%", "setup", "import", "--yes"]);
    let output = again.env("CODEX_HOME", "/srv/codex").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(home.path(UNIT)).unwrap();
    assert!(
        text.contains("\"import\" \"--store\" \"/srv/50%%\" \"--watch\""),
        "{text}"
    );
    assert!(
        text.contains("\nEnvironment=\"CODEX_HOME=/srv/codex\"\n"),
        "{text}"
    );
    asked(&home);
    home.runs(&["setup", "import", "--undo", "--yes"]);
    assert!(!home.path(UNIT).exists());
    let stopped = [
        format!("--user disable --now {unit}"),
        "--user daemon-reload".to_owned(),
    ];
    assert_eq!(asked(&home), stopped);
    let said = home.runs(&["setup", "import", "--undo", "--yes"]);
    assert!(said.contains("it is not installed"), "{said}");
    assert!(asked(&home).is_empty());
}

#[test]
fn a_service_that_cannot_run_is_not_left_behind() {
    let home = Home::new();
    systemctl(&home, FAILS);
    let (_, why) = home.fails(&["setup", "import", "--yes"], 1);
    assert!(why.contains("Failed to connect to bus"), "{why}");
    assert!(!home.path(UNIT).exists());
}

#[test]
fn a_system_without_services_says_so() {
    let home = Home::new();
    let (_, why) = home.fails(&["setup", "import", "--yes"], 1);
    assert!(why.contains("neither systemd nor launchd"), "{why}");
    assert!(why.contains("rejoin import --watch"), "{why}");
}
