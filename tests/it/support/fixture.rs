//! Reads a transcript: what is sent, what must come, what happens in between. The language is
//! described in `fixtures/transcripts/README.md`.

use std::path::{Path, PathBuf};

use super::json::Json;

/// A conversation to be acted out.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    pub(crate) steps: Vec<Step>,
}

/// One step, and where it stands.
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
    /// Something happens to the connection.
    Happens(Event),
    /// Something happens to a session's file.
    Damage { session: String, damage: Damage },
    /// The index is gone.
    Unindex,
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
    Initialize,
    New,
    Crash,
    Restart,
    Eof,
    Stop,
    HangUp,
    Pause,
    Go,
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
    /// So many logs of these records, whole and with right checksums. All but the first have ids
    /// that count up from the one that is given.
    Log {
        records: Vec<String>,
        count: usize,
    },
    /// No damage: only remember the bytes.
    Note,
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
    /// A folder of the store has so many files.
    Files { folder: String, count: usize },
    /// Nobody else may read what is in the store.
    Private,
    /// No file of the store has this text in it.
    Nowhere(String),
}

impl Script {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut steps: Vec<Step> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let wrong = |reason: String| -> ! { panic!("{}:{}: {reason}", path.display(), at + 1) };
            let line = line.trim_end_matches(' ');
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The records of a log stand on lines of their own.
            if line.starts_with('{') {
                let last = steps.last_mut().map(|step| &mut step.action);
                match (last, Json::parse(line)) {
                    (Some(Action::Check(Check::Log { records, .. })), Ok(record)) => {
                        records.push(record);
                    }
                    (Some(Action::Damage { damage, .. }), Ok(_)) => match damage {
                        Damage::Log { records, .. } => records.push(line.to_owned()),
                        _ => wrong("this damage takes no records".to_owned()),
                    },
                    (_, Err(error)) => wrong(error.to_string()),
                    _ => wrong("records stand under `== store`, `== log` or `!log`".to_owned()),
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

fn action(line: &str) -> Result<Action, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match word {
        "->" => {
            let rest = rest.trim_start();
            Json::parse(rest).map_err(|error| format!("not JSON: {error}"))?;
            let bytes = [with_version(rest).as_bytes(), b"\n"].concat();
            Action::Send { bytes, times: 1 }
        }
        "->raw" => Action::Send {
            bytes: [&unescaped(rest)?[..], b"\n"].concat(),
            times: 1,
        },
        "->part" => Action::Send {
            bytes: unescaped(rest)?,
            times: 1,
        },
        "<-" => expect(Order::Next, rest)?,
        "<~" => expect(Order::Any, rest)?,
        "<-*" => expect(Order::Many, rest)?,
        "<-raw" => Action::Expect {
            order: Order::Next,
            pattern: Pattern::Raw(rest.to_owned()),
        },
        "<-?" => Action::Record,
        "==" => Action::Check(check(rest)?),
        _ if word.starts_with("->*") => Action::Send {
            bytes: [with_version(rest).as_bytes(), b"\n"].concat(),
            times: number(&word[3..])?,
        },
        _ if word.starts_with("<-*") => expect(Order::Times(number(&word[3..])?), rest)?,
        _ if word.starts_with('!') => happens(&word[1..], rest)?,
        _ => return Err(format!("{word:?} is no verb")),
    })
}

fn expect(order: Order, json: &str) -> Result<Action, String> {
    let pattern = Json::parse(json).map_err(|error| format!("not JSON: {error}"))?;
    let pattern = Pattern::Json(pattern);
    Ok(Action::Expect { order, pattern })
}

/// A message with the member that each one has to have.
fn with_version(json: &str) -> String {
    let comma = if json == "{}" { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0"{comma}{}"#, &json[1..])
}

fn happens(verb: &str, rest: &str) -> Result<Action, String> {
    let event = match verb {
        "initialize" => Event::Initialize,
        "new" => Event::New,
        "crash" => Event::Crash,
        "restart" => Event::Restart,
        "eof" => Event::Eof,
        "stop" => Event::Stop,
        "hang-up" => Event::HangUp,
        "pause" => Event::Pause,
        "go" => Event::Go,
        "unindex" => return Ok(Action::Unindex),
        "args" => {
            return Ok(Action::Args(
                rest.split_whitespace().map(str::to_owned).collect(),
            ));
        }
        _ => return damage(verb, rest),
    };
    match rest {
        "" => Ok(Action::Happens(event)),
        _ => Err(format!("`!{verb}` takes nothing")),
    }
}

fn damage(verb: &str, rest: &str) -> Result<Action, String> {
    let (session, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let damage = match verb {
        "append" => Damage::Append(quoted(rest)?.0),
        "prepend" => Damage::Prepend(quoted(rest)?.0),
        "write" => Damage::Write(quoted(rest)?.0),
        "replace" => {
            let (from, rest) = quoted(rest)?;
            Damage::Replace(from, quoted(rest)?.0)
        }
        "flip" => Damage::Flip(number(rest.strip_prefix("line ").unwrap_or_default())?),
        "cut" => Damage::Cut(number(rest)?),
        "rename" => Damage::Rename(rest.to_owned()),
        "log" => Damage::Log {
            records: Vec::new(),
            count: match rest.strip_prefix('*') {
                Some(count) => number(count)?,
                None => 1,
            },
        },
        "note" => Damage::Note,
        _ => return Err(format!("`!{verb}` is no verb")),
    };
    Ok(Action::Damage {
        session: session.to_owned(),
        damage,
    })
}

fn check(rest: &str) -> Result<Check, String> {
    let (what, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let session = rest.to_owned();
    Ok(match what {
        "store" | "log" => Check::Log {
            session,
            whole: what == "log",
            records: Vec::new(),
        },
        "noted" => Check::Noted(session),
        "absent" => Check::Absent(session),
        "files" => {
            let (folder, count) = rest.split_once(' ').ok_or("a folder and a number")?;
            Check::Files {
                folder: folder.to_owned(),
                count: number(count)?,
            }
        }
        "private" => Check::Private,
        "nowhere" => Check::Nowhere(rest.to_owned()),
        _ => return Err(format!("`== {what}` is no check")),
    })
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// A quoted text at the start, and what follows it.
fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let inside = text
        .trim_start()
        .strip_prefix('"')
        .ok_or("a quoted text is missing")?;
    let mut escaped = false;
    let end = inside.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let end = end.ok_or("a quote is not closed")?;
    let text = inside[..end]
        .replace("\\\"", "\"")
        .replace("\\n", "\n")
        .replace("\\r", "\r")
        .replace("\\\\", "\\");
    Ok((unescaped(&text)?, &inside[end + 1..]))
}

/// A text in which `\x` and two digits stand for one byte. JSON has no such escape.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).ok_or("`\\x` takes two digits")?;
        let byte = u8::from_str_radix(digits, 16).map_err(|_| "`\\x` takes two digits")?;
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let send = |bytes: &[u8], times| {
            Ok(Action::Send {
                bytes: bytes.to_vec(),
                times,
            })
        };
        assert_eq!(
            action(r#"-> {"id":1.0}"#),
            send(b"{\"jsonrpc\":\"2.0\",\"id\":1.0}\n", 1)
        );
        assert_eq!(action("->*3 {}"), send(b"{\"jsonrpc\":\"2.0\"}\n", 3));
        assert_eq!(action(r"->raw a\xff\n"), send(b"a\xff\\n\n", 1));
        assert_eq!(action("->part {"), send(b"{", 1));
        assert_eq!(action("<-*2 7"), expect(Order::Times(2), "7"));
        assert_eq!(
            action(r#"!replace <session:0> "a\"\n" "\x00""#),
            Ok(Action::Damage {
                session: "<session:0>".to_owned(),
                damage: Damage::Replace(b"a\"\n".to_vec(), vec![0]),
            })
        );
        for bad in [
            "-> {",
            "<- x",
            "!dance",
            "!crash now",
            "== so",
            "hello",
            "->*x {}",
            r"->raw \x1",
            "!append <session:0> x",
        ] {
            assert!(action(bad).is_err(), "{bad}");
        }
    }
}
