//! `--notify`: how the user is notified that a turn has ended or waits for an answer.

use std::ffi::OsString;
use std::path::Path;

use rejoin::session::{NoticeWay, NotifyOptions};

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::programs::on_path;
use crate::cli::store_path;
use crate::cli::values::Timeout;

/// The word for the system's own way.
const DESKTOP: &str = "desktop";

/// The terminal of a process.
const TERMINAL: &str = "/dev/tty";

/// When the user is notified, and how.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "notices")]
pub(super) struct Args {
    /// Run this shell command when a turn ends, fails or waits for an answer while no client is active.
    /// The command gets a JSON object on stdin. `desktop` uses the system's own notices.
    #[arg(
        long,
        env = "REJOIN_NOTIFY",
        value_name = "COMMAND",
        hide_env_values = true
    )]
    notify: Option<String>,
    /// For how long no client may have prompted or answered before the user is notified.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    notify_after: Timeout,
}

impl Args {
    /// What was chosen, if anything.
    pub(super) fn options(&self, global: &Global) -> Result<Option<NotifyOptions>, Failure> {
        let way = match self.notify.as_deref() {
            None | Some("") => return Ok(None),
            Some(DESKTOP) => desktop()?,
            Some(command) => NoticeWay::Command(command.to_owned()),
        };
        Ok(Some(NotifyOptions {
            way,
            after: self.notify_after.0.unwrap_or_default(),
            launch: store_path::launch(global)?,
        }))
    }
}

/// The system's own way, or else the terminal.
fn desktop() -> Result<NoticeWay, Failure> {
    let program = |words: &[&str]| NoticeWay::Desktop(words.iter().map(OsString::from).collect());
    if cfg!(target_os = "macos") {
        let script = [
            "on run argv",
            "display notification (item 2 of argv) with title (item 1 of argv)",
            "end run",
        ];
        let [begin, show, end] = script;
        return Ok(program(&["osascript", "-e", begin, "-e", show, "-e", end]));
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"];
    if has_desktop.into_iter().any(is_set) && on_path("notify-send").is_some() {
        return Ok(program(&["notify-send", "--app-name=rejoin", "--"]));
    }
    if cfg!(unix) {
        return Ok(NoticeWay::Terminal(Path::new(TERMINAL).to_owned()));
    }
    Err(
        Failure::usage("`--notify desktop` is not supported on this system")
            .hint("name a command with --notify"),
    )
}
