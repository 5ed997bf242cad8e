//! Reads the lines of a transcript, verb by verb.

use super::fixture::{Action, Check, Damage, Event, Order, Pattern, Saw};
use super::json::Json;

/// Reads one line.
pub(super) fn action(line: &str) -> Result<Action, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match word {
        "->" => {
            let rest = rest.trim_start();
            let filled = with_numbers(rest);
            Json::parse(&filled).map_err(|error| format!("not JSON: {error}"))?;
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

/// A message with a number in place of each name of a number: `"id":<ask:0>`.
fn with_numbers(json: &str) -> String {
    let mut parts = json.split(":<");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('>') {
            Some((name, rest)) if name.contains(':') => filled.extend([":0", rest]),
            _ => filled.extend([":<", part]),
        }
    }
    filled
}

/// A message with the member that each one has to have.
fn with_version(json: &str) -> String {
    let comma = if json == "{}" { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0"{comma}{}"#, &json[1..])
}

fn happens(verb: &str, rest: &str) -> Result<Action, String> {
    let event = match verb {
        "initialize" | "new" => {
            let version = match rest {
                "" => 1,
                "2" => 2,
                _ => return Err(format!("`!{verb}` takes 2, or nothing")),
            };
            return Ok(Action::Happens(match verb {
                "initialize" => Event::Initialize(version),
                _ => Event::New(version),
            }));
        }
        "crash" => Event::Crash,
        "restart" => Event::Restart,
        "eof" => Event::Eof,
        "stop" => Event::Stop,
        "hang-up" => Event::HangUp,
        "pause" => Event::Pause,
        "go" => Event::Go,
        "kill-agent" | "kill-server" => Event::KillAgent,
        "unindex" => return Ok(Action::Unindex),
        "no-sockets" => return Ok(Action::NoSockets),
        "args" => return Ok(Action::Args(words(rest))),
        "agent" => return Ok(Action::Agent(words(rest))),
        "installed" => return Ok(Action::Installed(words(rest))),
        "uninstalled" => return Ok(Action::Uninstalled(rest.to_owned())),
        "servers" => return Ok(Action::Servers),
        "http-server" => return Ok(Action::HttpServer),
        _ => return damage(verb, rest),
    };
    match rest {
        "" => Ok(Action::Happens(event)),
        _ => Err(format!("`!{verb}` takes nothing")),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
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
        "swap" => Damage::Swap,
        "remove" => Damage::Remove,
        "log" => Damage::Log {
            records: Vec::new(),
            count: match rest.strip_prefix('*') {
                Some(count) => number(count)?,
                None => 1,
            },
        },
        "note" => Damage::MetadataChange,
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
        "ending" => Check::Ending(session),
        "files" => {
            let (folder, count) = rest.split_once(' ').ok_or("a folder and a number")?;
            Check::Files {
                folder: folder.to_owned(),
                count: number(count)?,
            }
        }
        "private" => Check::Private,
        "nowhere" => Check::Nowhere(rest.to_owned()),
        "agent" | "server" => Check::Agent(match rest.split_once(' ').unwrap_or((rest, "")) {
            ("saw", "") => Saw::Lines(Vec::new()),
            ("never", method) if !method.is_empty() => Saw::Calls(method.to_owned(), 0),
            ("calls", rest) => {
                let (count, method) = rest.split_once(' ').ok_or("a number and a method")?;
                Saw::Calls(method.to_owned(), number(count)?)
            }
            ("starts", count) => Saw::Starts(number(count)?),
            ("gone", "") => Saw::Gone,
            _ => return Err(format!("`== {what} {rest}` is no check")),
        }),
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

/// A text in which `\x` and two digits are one byte. JSON has no such escape.
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
        assert!(action(r#"-> {"id":<ask:0>,"n":":<"}"#).is_ok());
        assert_eq!(action("->*3 {}"), send(b"{\"jsonrpc\":\"2.0\"}\n", 3));
        assert_eq!(action(r"->raw a\xff\n"), send(b"a\xff\\n\n", 1));
        assert_eq!(action("->part {"), send(b"{", 1));
        assert_eq!(action("!new"), Ok(Action::Happens(Event::New(1))));
        assert_eq!(action("!new 2"), Ok(Action::Happens(Event::New(2))));
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
            "!new 3",
            "== so",
            "== agent",
            "== agent saw it",
            "== agent never",
            "== agent starts often",
            "hello",
            "->*x {}",
            r"->raw \x1",
            "!append <session:0> x",
        ] {
            assert!(action(bad).is_err(), "{bad}");
        }
    }
}
