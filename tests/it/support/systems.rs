//! What differs between systems: how folders are spelled, and which tests need Unix.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use regex::{Captures, Regex};

/// The folder in which sessions of tests work. It need not exist.
pub(crate) const FOLDER: &str = if cfg!(windows) { r"C:\w" } else { "/w" };

/// What cannot be tested on Windows, and why. Each is part of a test's name, or of the path of a
/// fixture without its extension.
const NOT_ON_WINDOWS: &[(&str, &str)] = &[
    (
        "a_conversation_for_a_program",
        "the home folder of its fixture is one of Unix",
    ),
    (
        "missing_agent_program_is_reported",
        "where Windows looks for programs is not known before one is started",
    ),
    ("cancel/sigterm_during_turn", SIGNALS),
    ("a_turn_is_cancelled_through_the_chain", SIGNALS),
    ("supervision/sigterm", SIGNALS),
    ("supervision/interrupted_turn", SIGNALS),
    ("subagents/agent_exit", SIGNALS),
    (
        "supervision/closed_output",
        "the fake agent cannot close its output there",
    ),
    ("supervision/process_left_behind", PIPES),
    ("supervision/start_failure_with_process", PIPES),
    ("fork/independent_of_source", INDEX),
    (
        "one_that_is_imported_or_deleted_here_is_listed_once_or_not_at_all",
        INDEX,
    ),
    ("history/damaged_session", OFFSETS),
    ("history/search_hits", OFFSETS),
    ("fork/fork_of_damaged_session", OFFSETS),
    ("mcp/servers/failed_server_reported", CHUNKS),
    ("mcp/servers/secrets_not_stored", CHUNKS),
    ("an_entry_says_what_the_tool_knows", FOLDERS),
    (
        "each_source_reads_every_kind_of_record_of_its_tool",
        FOLDERS,
    ),
    ("transcripts/live/", SOCKETS),
    ("restoring/modes_of_shared_session", SOCKETS),
    ("shared_with_version_1", SOCKETS),
    ("v2/session_in_both_versions", PATCHES),
    ("wrap/version_2/prompt", PATCHES),
    (
        "mcp/tools/working_directory",
        "the folder of its session is one of Unix",
    ),
    ("tools/cancelled_command", SHELL),
    ("tools/cancelled_terminal", SHELL),
    ("tools/client_terminal", SHELL),
    ("tools/command", SHELL),
    ("tools/crash_during_command", SHELL),
    ("tools/crash_during_terminal", SHELL),
    ("tools/late_terminal", SHELL),
    ("tools/long_command_output", SHELL),
    ("tools/terminal_of_silent_client", SHELL),
    ("tools/client_files", NAMES),
    ("tools/local_files", NAMES),
    ("tools/paths_outside_session", NAMES),
];
const SIGNALS: &str = "there are no signals that end a process";
const INDEX: &str = "the index of a process that runs cannot be removed";
const OFFSETS: &str = "its positions in the log count the bytes of a folder's name";
const FOLDERS: &str = "the conversations of its fixtures lie in folders of Unix";
const CHUNKS: &str = "where its text is cut depends on how the system words an exit code";
const SOCKETS: &str = "processes share no session there, which takes Unix sockets";
const PATCHES: &str = "a patch quotes the `\\` of its paths";
const PIPES: &str = "only the end of the pipe is seen there";
const SHELL: &str = "its commands are those of a Unix shell";
const NAMES: &str = "it names files below the session's folder as Unix does";

/// What Wine does otherwise than Windows, and what therefore cannot be tested there.
const NOT_UNDER_WINE: &[(&str, &str)] = &[
    ("damage/load_of_replaced_log", OPEN_FILES),
    ("damage/log_removed_while_open", OPEN_FILES),
    ("damage/log_replaced_during_turn", OPEN_FILES),
    ("damage/prompt_to_replaced_log", OPEN_FILES),
    ("v2/prompt_to_replaced_log", OPEN_FILES),
    ("fork/order_of_requests", OPEN_FILES),
    ("fork/refused_fork", OPEN_FILES),
    ("session/file_permissions", OPEN_FILES),
    ("list/session_index", WATCHES),
    ("modes/locked_session", WATCHES),
    ("processes/catch_up_on_take_over", WATCHES),
    ("processes/read_only_load", WATCHES),
    ("unstable/list_changed", WATCHES),
    ("unstable/list_subscription", WATCHES),
    ("v2/list_subscription", WATCHES),
    ("mcp/servers/end_after_crash", PROCESSES),
    ("supervision/kill_unresponsive_agent", PROCESSES),
    ("supervision/locks_while_agent_ends", PROCESSES),
    ("kill_loses_no_update_of_an_agent", PROCESSES),
];
const OPEN_FILES: &str = "under Wine, the name of an open file is removed when the file is closed";
const WATCHES: &str = "under Wine, what other processes change in a folder is not reported";
const PROCESSES: &str = "under Wine, a list of processes takes many seconds, or cannot be had";

/// Says that the tests run under Wine.
const WINE: &str = "REJOIN_TEST_WINE";

/// Whether a test can be run on this system. If not, it says why.
pub(crate) fn can_run(test: &str) -> bool {
    let windows = NOT_ON_WINDOWS.iter().filter(|_| cfg!(windows));
    let wine = NOT_UNDER_WINE.iter();
    let wine = wine.filter(|_| std::env::var_os(WINE).is_some());
    match windows.chain(wine).find(|(name, _)| test.contains(name)) {
        Some((_, reason)) => {
            println!("{test} cannot be run here: {reason}");
            false
        }
        None => true,
    }
}

/// Gives a program another path.
pub(crate) fn link(program: &Path, link: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(program, link);
    #[cfg(not(unix))]
    std::fs::copy(program, link).map(drop)
}

/// Asks a process to end, as a system that shuts down does. Windows has no such signal.
pub(crate) fn ask_to_end(process: u32) {
    let kill = format!("kill -TERM {process}");
    let asked = output("sh", &["-c", &kill]);
    assert!(asked.is_some_and(|asked| asked.status.success()), "{kill}");
}

/// Has a process hang: nothing of it runs until it goes on.
#[cfg(unix)]
pub(crate) fn pause(process: u32) {
    let paused = output("sh", &["-c", &format!("kill -STOP {process}")]);
    assert!(
        paused.is_some_and(|paused| paused.status.success()),
        "{process}"
    );
}

/// Has it go on.
#[cfg(unix)]
pub(crate) fn go_on(process: u32) {
    output("sh", &["-c", &format!("kill -CONT {process}")]);
}

/// Ends a process at once. It may have ended this very moment.
pub(crate) fn kill(process: u32) {
    if cfg!(windows) {
        output("taskkill", &["/F", "/PID", &process.to_string()]);
    } else {
        output("sh", &["-c", &format!("kill -KILL {process}")]);
    }
}

/// Whether there is such a process, and not only what its parent has not taken note of yet.
pub(crate) fn is_running(process: u32) -> bool {
    if cfg!(windows) {
        return is_listed(process);
    }
    if !Path::new("/proc/self/stat").exists() {
        let asked = output("sh", &["-c", &format!("kill -0 {process}")]);
        return asked.is_some_and(|asked| asked.status.success());
    }
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether Windows lists a process. Wine's `tasklist` lists none, and later versions of Windows have
/// no `wmic`.
fn is_listed(process: u32) -> bool {
    let lists: [(&str, &[&str]); 2] = [
        ("tasklist", &["/NH", "/FO", "CSV"]),
        ("wmic", &["process", "get", "processid"]),
    ];
    let own = std::process::id().to_string();
    let process = process.to_string();
    for (program, arguments) in lists {
        let list = output(program, arguments).map_or_else(Vec::new, |output| output.stdout);
        // One of them writes UTF-16.
        let list: Vec<u8> = list.into_iter().filter(|byte| *byte != 0).collect();
        let list = String::from_utf8_lossy(&list);
        let mut words = list.split(|c: char| !c.is_ascii_digit());
        if words.clone().any(|word| word == own) {
            return words.any(|word| word == process);
        }
    }
    panic!("no list of processes can be had");
}

fn output(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).output().ok()
}

/// The text of a fixture, or other JSON, with its folders as this system spells them.
pub(crate) fn local(text: &str) -> Cow<'_, str> {
    if cfg!(windows) {
        Cow::Owned(windows(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// The same for Windows: the folders that fixtures name are on a drive, and `\` separates them,
/// which JSON escapes, twice in JSON within a string.
fn windows(text: &str) -> String {
    let folder = r#"(\\?["` ])(/(?:[vwxyzW]|w-a|elsewhere|etc|no|usr)(?:/[^"`\\ ]*)?)(["`\\ ,])"#;
    let folder = Regex::new(folder).expect("it is written out");
    let root = Regex::new(r#"("cwd":")(/)(")"#).expect("it is written out");
    let below = Regex::new(r#"()<dir:0>(/[^"`\\]+)()"#).expect("it is written out");
    let spelled = |drive: &'static str| {
        move |found: &Captures<'_>| {
            let separator = match &found[1] {
                before if before.starts_with('\\') => r"\\\\",
                _ => r"\\",
            };
            let path = found[2].replace('/', separator);
            [&found[1], drive, &path, &found[3]].concat()
        }
    };
    let text = text.replace("exit status: ", "exit code: ");
    let text = text.replace("exit status ", "exit code ");
    let text = text.replace("file:///w/", "file:///C:/w/");
    let text = folder.replace_all(&text, spelled("C:"));
    let text = root.replace_all(&text, spelled("C:"));
    below.replace_all(&text, spelled("<dir:0>")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_fixtures_are_on_a_drive_of_windows() {
        for (text, expected) in [
            (r#"{"cwd":"/w"}"#, r#"{"cwd":"C:\\w"}"#),
            (r#"{"cwd":"/"}"#, r#"{"cwd":"C:\\"}"#),
            (r#"["/x/","/y/../z"]"#, r#"["C:\\x\\","C:\\y\\..\\z"]"#),
            (
                r#"update {\"path\":\"/x/y\"}"#,
                r#"update {\"path\":\"C:\\\\x\\\\y\"}"#,
            ),
            (
                r#""no folder /w to start""#,
                r#""no folder C:\\w to start""#,
            ),
            (r#""`<dir:0>/a/b`: no""#, r#""`<dir:0>\\a\\b`: no""#),
            (
                r#""/write a" "/echo" "../x""#,
                r#""/write a" "/echo" "../x""#,
            ),
            (r#""file:///w/a.png""#, r#""file:///C:/w/a.png""#),
            ("(exit status: 3; it said", "(exit code: 3; it said"),
            ("(exit status 3); it said", "(exit code 3); it said"),
        ] {
            assert_eq!(windows(text), expected);
        }
    }
}
