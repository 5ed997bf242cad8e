//! The process that has a session open, as other processes report it.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// The maximum length of a client's name, in bytes; longer names are truncated.
const LONGEST_NAME: usize = 100;
/// Appended as a second line when the process is ending.
const ENDING: &str = "\n{\"ending\":true}";

/// The process that has a session open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// The name of its client, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The name of the socket on which it can be reached, if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// When it began; see [`start_of`](crate::sys::processes::start_of).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<NonZeroU64>,
    /// Whether it is ending and about to release the session.
    #[serde(skip)]
    pub ending: bool,
}

impl Holder {
    /// This process, serving a client of this name.
    pub fn this_process(client: Option<&str>) -> Self {
        Self {
            pid: std::process::id(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            client: client.map(shortened),
            socket: None,
            started: None,
            ending: false,
        }
    }

    /// Whether it runs on the host of this process.
    pub fn is_on_this_host(&self) -> bool {
        self.host == Self::this_process(None).host
    }

    /// The name of its socket, if that can be reached from here.
    pub fn local_socket(&self) -> Option<&str> {
        self.socket.as_deref().filter(|_| self.is_on_this_host())
    }

    /// Whether other processes reach it from here.
    pub fn can_be_reached(&self) -> bool {
        self.local_socket().is_some()
    }

    /// Parses a hint.
    pub(in crate::store) fn read(hint: &[u8]) -> Option<Self> {
        let line = hint.split(|byte| *byte == b'\n').next()?;
        let holder: Self = serde_json::from_slice(line).ok()?;
        Some(Self {
            ending: &hint[line.len()..] == ENDING.as_bytes(),
            ..holder
        })
    }

    /// The text of the hint.
    pub(in crate::store) fn hint(&self) -> Option<String> {
        let mut hint = serde_json::to_string(self).ok()?;
        if self.ending {
            hint.push_str(ENDING);
        }
        Some(hint)
    }

    /// The text that is appended to a hint when its process is ending.
    pub(in crate::store) fn ending() -> &'static [u8] {
        ENDING.as_bytes()
    }

    pub(in crate::store) fn describe(holder: Option<&Self>) -> String {
        let Some(Self {
            pid, host, client, ..
        }) = holder
        else {
            return "in use by another process".to_owned();
        };
        let this = Self::this_process(None);
        let process = if *pid == this.pid && *host == this.host {
            format!("this process, {pid} on host {host}")
        } else {
            format!("process {pid} on host {host}")
        };
        match client {
            Some(client) => format!("open in {client} ({process})"),
            None => format!("in use by {process}"),
        }
    }
}

/// A client's name for display: short, without control characters.
fn shortened(name: &str) -> String {
    let mut shown: String = name.chars().filter(|c| !c.is_control()).collect();
    shown.truncate(shown.floor_char_boundary(LONGEST_NAME));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(client: Option<&str>) -> Holder {
        Holder {
            pid: 1816,
            host: "vm".to_owned(),
            client: client.map(str::to_owned),
            socket: None,
            started: None,
            ending: false,
        }
    }

    #[test]
    fn a_hint_reads_back() {
        for client in [None, Some("CodeCompanion")] {
            for ending in [false, true] {
                let holder = Holder {
                    ending,
                    ..holder(client)
                };
                let hint = holder.hint().unwrap();
                assert_eq!(Holder::read(hint.as_bytes()), Some(holder));
            }
        }
        let hint = holder(None).hint().unwrap();
        assert_eq!(hint, r#"{"pid":1816,"host":"vm"}"#);
        let ended = [hint.as_bytes(), Holder::ending()].concat();
        assert!(Holder::read(&ended).unwrap().ending);
        for broken in ["", "7", r#"{"pid":1816"#, "\n{\"ending\":true}"] {
            assert_eq!(Holder::read(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn the_description_names_the_client() {
        let described = |client| Holder::describe(Some(&holder(client)));
        assert_eq!(described(None), "in use by process 1816 on host vm");
        assert_eq!(
            described(Some("CodeCompanion")),
            "open in CodeCompanion (process 1816 on host vm)"
        );
        assert_eq!(Holder::describe(None), "in use by another process");
    }

    #[test]
    fn a_name_is_short_and_printable() {
        let client = Holder::this_process(Some(&"\u{1b}[é".repeat(100))).client;
        let client = client.unwrap();
        assert!(client.len() <= LONGEST_NAME && !client.contains('\u{1b}'));
    }
}
