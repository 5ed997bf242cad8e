//! Reads a transcript: what is sent, what must come, what happens in between. The language is
//! described in `fixtures/transcripts/README.md`.

use std::path::{Path, PathBuf};

use super::json::Json;
use super::systems::local;
use super::verbs::action;

/// A conversation to be played.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    pub(crate) steps: Vec<Step>,
}

/// One step, and its line.
#[derive(Debug)]
pub(crate) struct Step {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Which connection it is about: 1, or what `@` says.
    pub(crate) connection: usize,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Send these bytes so many times. Names are filled in.
    Send { bytes: Vec<u8>, times: usize },
    /// Something must come.
    Expect { order: Order, pattern: Pattern },
    /// Whatever comes until the last request is answered; only for writing fixtures.
    Record,
    /// The options of what is started from now on.
    Args(Vec<String>),
    /// What is started from now on wraps an agent with these flags.
    Agent(Vec<String>),
    /// What is started from now on is `rejoin agent`, which finds a program of this name: an agent
    /// with these flags.
    Installed(Vec<String>),
    /// This program is gone.
    Uninstalled(String),
    /// From now on, names mean an MCP server and the file in which it notes what happens to it.
    Servers,
    /// An MCP server that the program does not start is started, and a name means its address.
    HttpServer,
    /// Something happens to the connection.
    Happens(Event),
    /// Something happens to a session's file.
    Damage { session: String, damage: Damage },
    /// The index is gone.
    Unindex,
    /// Processes cannot reach each other.
    NoSockets,
    /// Something must be so on disk.
    Check(Check),
}

/// What must come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    Json(Json),
    /// To the byte, but for names.
    Raw(String),
}

/// When it must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Next.
    Next,
    /// Next, or after some of its neighbours of this kind.
    Any,
    /// So many times.
    Times(usize),
    /// As often as it fits.
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// With this version of the protocol.
    Initialize(u8),
    New(u8),
    Crash,
    Restart,
    Eof,
    Stop,
    HangUp,
    Pause,
    Go,
    KillAgent,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Damage {
    Append(Vec<u8>),
    Prepend(Vec<u8>),
    Write(Vec<u8>),
    Replace(Vec<u8>, Vec<u8>),
    /// One bit in the middle of this line, counted from 1.
    Flip(usize),
    /// So many bytes off the end.
    Cut(usize),
    Rename(String),
    /// A copy takes the place of the file, as editors and programs that synchronize do it.
    Swap,
    Remove,
    /// So many logs of these records, whole and with right checksums. All but the first have ids
    /// that count up from the one that is given.
    Log {
        records: Vec<String>,
        count: usize,
    },
    /// No damage: only remember the bytes.
    MetadataChange,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Check {
    /// These records are in the log, in this order; nothing else is if `whole`.
    Log {
        session: String,
        whole: bool,
        records: Vec<Json>,
    },
    /// The file is as it was when it was noted or damaged.
    Noted(String),
    /// There is no such file.
    Absent(String),
    /// Its lock holder is ending, or has ended.
    Ending(String),
    /// A folder of the store has so many files.
    Files { folder: String, count: usize },
    /// No other user may read the store.
    Private,
    /// No file of the store has this text in it.
    Nowhere(String),
    /// Something must be so with the wrapped agent.
    Agent(Saw),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Saw {
    /// It received these lines, in this order, perhaps among others.
    Lines(Vec<Json>),
    /// It received this method so often.
    Calls(String, usize),
    /// It was started so often.
    Starts(usize),
    /// Nothing of it is left.
    Gone,
}

impl Script {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut steps: Vec<Step> = Vec::new();
        for (at, line) in local(&text).lines().enumerate() {
            let wrong = |reason: String| -> ! { panic!("{}:{}: {reason}", path.display(), at + 1) };
            let line = line.trim_end_matches(' ');
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The records of a log are on lines of their own.
            if line.starts_with('{') {
                let last = steps.last_mut().map(|step| &mut step.action);
                match (last, Json::parse(line)) {
                    (
                        Some(Action::Check(
                            Check::Log { records, .. } | Check::Agent(Saw::Lines(records)),
                        )),
                        Ok(record),
                    ) => {
                        records.push(record);
                    }
                    (Some(Action::Damage { damage, .. }), Ok(_)) => match damage {
                        Damage::Log { records, .. } => records.push(line.to_owned()),
                        _ => wrong("this damage takes no records".to_owned()),
                    },
                    (_, Err(error)) => wrong(error.to_string()),
                    _ => wrong(
                        "records belong under `== store`, `== log`, `== agent saw` or `!log`"
                            .to_owned(),
                    ),
                }
                continue;
            }
            let (connection, rest) = match line.strip_prefix('@').and_then(|l| l.split_once(' ')) {
                Some((number, rest)) => match number.parse() {
                    Ok(number) => (number, rest),
                    Err(_) => wrong("`@` takes a number".to_owned()),
                },
                None => (1, line),
            };
            match action(rest) {
                Ok(action) => steps.push(Step {
                    line: at + 1,
                    connection,
                    action,
                }),
                Err(reason) => wrong(reason),
            }
        }
        Self {
            path: path.to_owned(),
            steps,
        }
    }
}
