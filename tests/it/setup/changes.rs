//! What surrounds the change of a file: questions, files that were kept, links, damage, and
//! settings that the user has edited since.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::Value;

use super::{Home, is_as_in};

const SETTINGS: &str = r#"{
  "agent_servers": {
    "Gemini": { "command": "gemini", "args": ["--acp"] } // mine
  }
}
"#;

/// A home folder in which Zed was set up, and where its settings are.
fn set_up() -> (Home, PathBuf) {
    set_up_with(SETTINGS)
}

/// The same with these settings.
fn set_up_with(settings: &str) -> (Home, PathBuf) {
    let home = Home::new();
    let path = home.settings("zed", settings);
    home.runs(&["setup", "zed", "--yes"]);
    (home, path)
}

#[test]
fn nothing_is_changed_without_an_agreement() {
    let home = Home::new();
    let path = home.settings("zed", SETTINGS);
    let dry = home.runs(&["setup", "--dry-run"]);
    assert!(
        dry.contains("+    \"Gemini\": { \"command\": \"<home>/bin/rejoin\""),
        "{dry}"
    );
    assert!(
        dry.ends_with("Nothing was changed, because of --dry-run.\n"),
        "{dry}"
    );
    let (shown, text) = home.fails(&["setup"], 2);
    assert!(dry.starts_with(&shown), "{shown}");
    assert_eq!(
        text,
        "rejoin: nothing was changed: there is no terminal on which to ask\n  \
         hint: add `--yes` to make this change\n"
    );
    assert_eq!(fs::read_to_string(path).unwrap(), SETTINGS);
}

#[test]
fn what_is_shown_has_colours_and_no_keys() {
    let home = Home::new();
    let key = r#""env": { "API_KEY": "a\"b", "MODE": "x" }, "command": "gemini","#;
    home.settings("zed", &SETTINGS.replace(r#""command": "gemini","#, key));
    let mut command = home.command(&["setup", "zed", "--dry-run"]);
    let output = command.env("CLICOLOR_FORCE", "1").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for (colour, text) in [
        (
            "31",
            r#"-    "Gemini": { "env": { "API_KEY": "…", "MODE": "…" }, "command": "gemini""#,
        ),
        (
            "32",
            r#"+    "Gemini": { "env": { "API_KEY": "…", "MODE": "…" }, "command": "/"#,
        ),
    ] {
        assert!(
            shown.contains(&format!("\u{1b}[{colour}m{text}")),
            "{shown}"
        );
    }
}

#[test]
fn what_the_user_edited_since_stays() {
    let (home, path) = set_up();
    let changed = fs::read_to_string(&path).unwrap();
    let edited = changed
        .replace("// mine", "/* yours */")
        .replace("\"--acp\"", "\"--acp\", \"-m\", \"pro\"");
    fs::write(&path, &edited).unwrap();
    let said = home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert!(
        said.ends_with("rejoin is gone, what else you changed has stayed.\n"),
        "{said}"
    );
    let expected = SETTINGS
        .replace("// mine", "/* yours */")
        .replace("\"--acp\"", "\"--acp\", \"-m\", \"pro\"");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    // The file that was kept differs from it, and stays.
    let kept = path.with_file_name("settings.json.before-rejoin");
    assert_eq!(fs::read_to_string(kept).unwrap(), SETTINGS);
}

#[test]
fn several_changes_are_undone_together() {
    let (home, path) = set_up();
    let new = "\"Claude\": { \"command\": \"claude-agent-acp\" },\n    \"Gemini\"";
    let edited = |text: &str| text.replace("\"Gemini\"", new);
    let changed = fs::read_to_string(&path).unwrap();
    fs::write(&path, edited(&changed)).unwrap();
    home.runs(&["setup", "zed", "--yes"]);
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), edited(SETTINGS));
    let said = home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert!(
        said.contains("no agent here is wrapped by `rejoin setup`"),
        "{said}"
    );
}

#[test]
fn without_the_kept_file_the_agents_come_back() {
    let (home, path) = set_up();
    fs::remove_file(path.with_file_name("settings.json.before-rejoin")).unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    let program = home.path("bin/gemini");
    let expected = SETTINGS.replace("\"gemini\"", &format!("{program:?}"));
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_missing_file_is_created_and_removed() {
    let home = Home::new();
    let path = home.path(".jetbrains/acp.json");
    let said = home.runs(&["setup", "jetbrains", "--yes"]);
    assert!(said.contains("Created ~/.jetbrains/acp.json.\n"), "{said}");
    let made: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let entry = &made["agent_servers"]["Gemini CLI (rejoin)"];
    assert_eq!(entry["args"][3], "--acp", "{made}");
    let said = home.runs(&["setup", "jetbrains", "--undo", "--yes"]);
    assert!(said.ends_with("Removed ~/.jetbrains/acp.json, which `rejoin setup` created.\n"));
    assert!(!path.exists());
}

#[test]
fn links_and_permissions_stay() {
    let home = Home::new();
    let path = home.settings("zed", "");
    fs::remove_file(&path).unwrap();
    let real = home.path("dotfiles.json");
    fs::write(&real, SETTINGS).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &path).unwrap();
    home.runs(&["setup", "zed", "--yes"]);
    assert!(path.is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("\"wrap\""));
    let kept = path.with_file_name("settings.json.before-rejoin");
    for file in [&real, &kept] {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o640);
    }
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert!(path.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), SETTINGS);
}

#[test]
fn damaged_settings_are_left_alone() {
    let home = Home::new();
    for (text, why) in [
        (
            "{\n  \"a\": 1\n  \"b\": 2\n}",
            "line 2, column 9: expected comma",
        ),
        (
            "{ \"agent_servers\": [] }",
            "line 1, column 20: the value of `agent_servers` must be an object",
        ),
        ("[]", "line 1, column 1: an object must be here"),
        (
            "{ \"a\": 'b' }",
            "line 1, column 8: single-quoted strings are not allowed",
        ),
    ] {
        let path = home.settings("zed", text);
        let (shown, said) = home.fails(&["setup", "zed", "--yes"], 1);
        assert_eq!(shown, "");
        let start = format!("rejoin: cannot read <home>/.config/zed/settings.json: {why}\n");
        assert!(said.starts_with(&start), "{said}");
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    // Other editors are set up all the same.
    let jetbrains = home.settings("jetbrains", SETTINGS);
    let (_, said) = home.fails(&["setup", "--yes"], 1);
    assert!(
        said.contains("zed/settings.json: line 1, column 8"),
        "{said}"
    );
    assert!(fs::read_to_string(jetbrains).unwrap().contains("\"wrap\""));
    home.settings("zed", "\u{0}");
    let path = home.path(".config/zed/settings.json");
    fs::write(&path, b"{\n\"a\": \"\xff\"}").unwrap();
    let (_, said) = home.fails(&["setup", "zed", "--yes"], 1);
    assert!(said.contains("line 2 is not UTF-8"), "{said}");
}

#[test]
fn nobody_is_here() {
    let home = Home::new();
    let said = home.run(&["setup"]);
    assert_eq!(said.status.code(), Some(0));
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(
        text.contains("found no settings of Zed or of a JetBrains IDE"),
        "{text}"
    );
    // Nothing is installed either.
    for name in ["claude-agent-acp", "gemini", "npx"] {
        fs::remove_file(home.path("bin").join(name)).unwrap();
    }
    let said = home.runs(&["setup", "zed"]);
    assert!(
        said.contains("no agent is configured here, and none was found"),
        "{said}"
    );
}

#[test]
fn the_store_and_the_build_folder_are_named() {
    let home = Home::new();
    let path = home.settings("zed", SETTINGS);
    fs::remove_file(home.path("bin/rejoin")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.args(["--store", "/some/store", "setup", "zed", "--yes"]);
    let command = command.env_clear().env("HOME", home.path(""));
    let output = command.env("PATH", home.path("bin")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("it is in a build folder"), "{text}");
    let text = fs::read_to_string(path).unwrap();
    let start = r#""args": ["wrap", "--store", "/some/store", "--", ""#;
    assert!(text.contains(start), "{text}");
}

#[test]
fn zed_in_flatpak_is_found() {
    let home = Home::new();
    let folder = home.path(".var/app/dev.zed.Zed/config/zed");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("settings.json"), SETTINGS).unwrap();
    let said = home.runs(&["setup", "--yes"]);
    if cfg!(target_os = "linux") {
        assert!(
            said.contains("~/.var/app/dev.zed.Zed/config/zed/settings.json"),
            "{said}"
        );
    }
}

#[test]
fn help_for_other_editors() {
    let home = Home::new();
    for folder in [".config/nvim", ".emacs.d"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    let said = home.runs(&["setup"]);
    assert!(
        said.contains("Neovim: `rejoin setup neovim` prints what to paste."),
        "{said}"
    );
    assert!(
        said.contains("Emacs: `rejoin setup emacs` prints what to paste."),
        "{said}"
    );
    for editor in ["neovim", "emacs"] {
        let said = home.runs(&["setup", editor]);
        let path = format!("fixtures/setup/{editor}.txt");
        is_as_in(std::path::Path::new(&path), &said);
    }
}

#[test]
fn what_is_no_file_with_settings_is_left_alone() {
    let home = Home::new();
    let path = home.settings("zed", "");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let said = home.fails(&["setup", "zed", "--yes"], 1).1;
    assert!(
        said.contains("settings.json: it is a folder\n  hint:"),
        "{said}"
    );
    fs::remove_dir(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    for more in ["--yes", "--undo"] {
        let said = home.fails(&["setup", "zed", more], 1).1;
        assert!(said.contains("it is no regular file"), "{said}");
    }
}

#[test]
fn what_is_not_clear_is_not_changed() {
    let home = Home::new();
    let one = r#""a": { "command": "gemini", "args": [] }"#;
    for (settings, problem) in [
        (
            format!("{{ \"agent_servers\": {{\n  {one},\n  {one} }} }}"),
            "line 3, column 3: \"a\" is here twice: remove one of them",
        ),
        (
            r#"{ "agent_servers": { "a": { "command": "x", "command": "y" } } }"#.to_owned(),
            "line 1, column 45: \"command\" is here twice",
        ),
    ] {
        let path = home.settings("zed", &settings);
        for more in ["--yes", "--undo"] {
            let said = home.fails(&["setup", "zed", more], 1).1;
            assert!(said.contains(problem), "{said}");
        }
        assert_eq!(fs::read_to_string(path).unwrap(), settings);
    }
    let settings = r#"{ "agent_servers": { "a": { "command": "", "args": [] } } }"#;
    let path = home.settings("zed", settings);
    let said = home.runs(&["setup", "zed", "--yes"]);
    assert!(
        said.contains("a: has no `command` that can be changed: left alone"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(path).unwrap(), settings);
}

#[test]
fn a_path_that_was_corrected_by_hand_is_undone() {
    let home = Home::new();
    let path = home.settings("zed", SETTINGS);
    home.runs(&["setup", "zed", "--yes"]);
    let text = fs::read_to_string(&path).unwrap();
    let mine = home.path("bin/rejoin").to_str().unwrap().to_owned();
    let corrected = text.replace(&mine, "/opt/tools/rejoin");
    assert_ne!(text, corrected);
    fs::write(&path, corrected).unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), SETTINGS);
}

#[test]
fn doctor_and_setup_count_the_same_agents() {
    let home = Home::new();
    let settings = r#"{ "agent_servers": { "gemini": { "type": "registry" } } }"#;
    home.settings("zed", settings);
    home.runs(&["setup", "zed", "--yes"]);
    let said = home.runs(&["setup", "zed", "--yes"]);
    assert!(said.contains("nothing to change"), "{said}");
    let doctor = home.run(&["doctor"]);
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    let whole = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole.contains("1 agent, with rejoin in front"), "{doctor}");
}

#[test]
fn notes_written_into_new_settings_stay() {
    let (home, path) = set_up_with("");
    let made = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("// my notes\n{made}")).unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "// my notes\n{}\n");
    // The empty file that was kept says nothing of what is written later.
    let settings = "// notes\n{\n  // my agents go here\n  \"agent_servers\": {}\n  /* end */\n}\n";
    fs::write(&path, settings).unwrap();
    home.runs(&["setup", "zed", "--yes"]);
    let edited = fs::read_to_string(&path).unwrap().replace("my", "MY");
    fs::write(&path, edited).unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    let left = fs::read_to_string(&path).unwrap();
    for note in ["// notes\n", "// MY agents go here\n", "/* end */\n"] {
        assert!(left.contains(note), "{left}");
    }
}

#[test]
fn one_agent_by_two_names_gets_one_entry() {
    let settings = "{ \"agent_servers\": { \"claude-acp\": {}, \"Claude Agent\": {} } }\n";
    let (home, path) = set_up_with(settings);
    let changed = fs::read_to_string(&path).unwrap();
    assert_eq!(
        changed.matches("Claude Agent (rejoin)").count(),
        1,
        "{changed}"
    );
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), settings);
}

#[test]
fn a_program_that_was_changed_since_stays() {
    let (home, path) = set_up();
    let gemini = home.path("bin/gemini");
    let changed = fs::read_to_string(&path).unwrap();
    let edited = changed.replace(gemini.to_str().unwrap(), "/opt/other-agent");
    assert_ne!(edited, changed);
    fs::write(&path, edited).unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    let expected = SETTINGS.replace("\"gemini\"", "\"/opt/other-agent\"");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_kept_file_that_cannot_be_read_is_passed_over() {
    let (home, path) = set_up();
    let kept = path.with_file_name("settings.json.before-rejoin");
    fs::write(&kept, "{ \"agent_servers\": { \"Gem").unwrap();
    home.runs(&["setup", "zed", "--undo", "--yes"]);
    let left = fs::read_to_string(&path).unwrap();
    assert!(!left.contains("rejoin"), "{left}");
}

#[test]
fn what_would_break_the_settings_is_not_written() {
    let settings = "{\n \"agent_servers\": {\n \"Claude Agent\": {} } }\n";
    let (home, path) = set_up_with(settings);
    let edited = fs::read_to_string(&path).unwrap();
    let start = edited.find("\"Claude Agent (rejoin)\"").unwrap();
    let edited = format!("{}// durable one\n{}", &edited[..start], &edited[start..]);
    let end = edited.rfind("\"Claude Agent\"").unwrap();
    let joined = format!("{} {}", edited[..end].trim_end(), &edited[end..]);
    fs::write(&path, &joined).unwrap();
    let (_, text) = home.fails(&["setup", "zed", "--undo", "--yes"], 1);
    assert!(text.contains("without breaking it"), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), joined);
}

#[test]
fn what_cannot_start_is_reported() {
    let home = Home::new();
    home.program("claude");
    let rejoin = home.path("bin/rejoin");
    let settings = format!(
        r#"{{ "agent_servers": {{
  "plain": {{ "command": "claude" }},
  "wrapped": {{ "command": {rejoin:?}, "args": ["wrap", "--", "claude"] }},
  "named": {{ "command": {rejoin:?}, "args": ["wrap", "--name", "claude", "--", "claude"] }},
  "no dashes": {{ "command": {rejoin:?}, "args": ["wrap", "claude-agent-acp"] }},
  "mistyped": {{ "command": {rejoin:?}, "args": ["warp", "--", "claude-agent-acp"] }}
}} }}"#
    );
    home.settings("zed", &settings);
    let doctor = home.run(&["doctor", "--json"]);
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    for (entry, why) in [
        ("plain", "is not an ACP agent with these arguments"),
        ("wrapped", "is not an ACP agent with these arguments"),
        ("no dashes", "`--` belongs before the agent's command"),
        ("mistyped", "has no command `warp`"),
    ] {
        let found = doctor
            .split('{')
            .find(|part| part.contains(&format!("Zed, {entry}\"")));
        assert!(
            found.is_some_and(|found| found.contains(why)),
            "{entry}: {doctor}"
        );
    }
    assert!(!doctor.contains("Zed, named\""), "{doctor}");
}
