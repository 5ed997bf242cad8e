//! Checks that the payload of a record has the shape that its kind requires.
//!
//! A checksum is not a signature: a log that was copied from elsewhere may hold anything. A replay
//! inserts payloads into envelopes unchanged, so a payload that closes its envelope could add
//! members of its own and turn a notification into a request. Hence a payload is valid only if it
//! is exactly one JSON value of the shape of its kind.

use std::borrow::Cow;

use super::kind::Kind;
use super::scan;
use crate::json;

/// Longer layouts are not remembered, in bytes without the text.
const LAYOUT_LIMIT: usize = 4096;

/// Checks the payloads of one log, with a fast path for the layout of the last text chunk.
#[derive(Debug, Default)]
pub struct Checker {
    layout: Layout,
}

/// What surrounded the text of a valid chunk.
#[derive(Debug, Default)]
struct Layout {
    /// Everything up to and including the quote that opens the text. Empty if there was no chunk
    /// yet.
    before: Vec<u8>,
    /// Everything from the quote that closes it.
    behind: Vec<u8>,
}

impl Checker {
    /// The payload as readers may use it. `None` if it is not valid for a record of this kind.
    ///
    /// This is the payload itself, except for notification parameters that have a `sessionId` or
    /// repeat a member that matters when they are sent.
    pub fn check<'a>(&mut self, kind: Kind, payload: &'a str) -> Option<Cow<'a, str>> {
        if kind != Kind::Update {
            return sound(kind, payload);
        }
        if !self.layout.fits(payload) {
            let update = update(payload).filter(|_| is_one_line(payload))?;
            if let Some(content) = update.chunk {
                self.layout.learn(payload, content);
            }
        }
        Some(Cow::Borrowed(payload))
    }
}

impl Layout {
    /// Whether a payload differs from the last chunk only in its text, and that text is a string.
    fn fits(&self, payload: &str) -> bool {
        let text = payload
            .as_bytes()
            .strip_prefix(self.before.as_slice())
            .and_then(|rest| rest.strip_suffix(self.behind.as_slice()));
        let (Some(text), Some(quote)) = (text, self.before.len().checked_sub(1)) else {
            return false;
        };
        scan::string(payload, quote) == Some(quote + text.len() + 2)
    }

    /// Remembers what surrounds the text of a valid chunk whose content is at this position.
    fn learn(&mut self, payload: &str, content: usize) {
        let bytes = payload.as_bytes();
        let text = json::member(bytes, content, "text");
        if let Some(text) = text.and_then(|text| json::string_body(bytes, &text))
            && payload.len() - text.len() <= LAYOUT_LIMIT
        {
            self.before.clear();
            self.before.extend_from_slice(&bytes[..text.start]);
            self.behind.clear();
            self.behind.extend_from_slice(&bytes[text.end..]);
        }
    }
}

/// Whether clients can handle an update: `name`, its `sessionUpdate`, is a string, and a chunk of a
/// message has an object as its `content`. Both are JSON text.
pub fn has_shape(name: Option<&str>, content: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with('"'))
        && (!name.is_some_and(is_chunk) || content.is_some_and(|content| content.starts_with('{')))
}

/// Whether this kind of an update, given as JSON text, is a chunk of a message.
fn is_chunk(name: &str) -> bool {
    let name = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    matches!(
        name.map(scan::unescaped).as_deref(),
        Some("agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk")
    )
}

/// Strings contain no carriage returns, since JSON requires them to be escaped. Between tokens one
/// would end a line.
fn is_one_line(payload: &str) -> bool {
    memchr::memchr(b'\r', payload.as_bytes()).is_none()
}

fn sound(kind: Kind, payload: &str) -> Option<Cow<'_, str>> {
    if !is_one_line(payload) {
        return None;
    }
    let is_sound = match kind {
        Kind::Update | Kind::Output | Kind::Transient => update(payload).is_some(),
        Kind::UpdateParams => return parameters(payload),
        Kind::Info => match Info::of(payload)? {
            Info::Params => return parameters(payload),
            Info::Update => update(payload).is_some(),
            Info::Own => true,
        },
        Kind::Prompt => alone(payload, |at| prompt_end(payload, at)),
        Kind::Session
        | Kind::End
        | Kind::Ask
        | Kind::Answer
        | Kind::Reopen
        | Kind::AgentSessionId => alone(payload, |at| object_end(payload, at)),
        // A later version may have any valid JSON there.
        Kind::Unknown => alone(payload, |at| scan::value(payload, at)),
    };
    is_sound.then_some(Cow::Borrowed(payload))
}

/// Whether a text is a single value. `end` returns where the value ends.
fn alone(text: &str, end: impl FnOnce(usize) -> Option<usize>) -> bool {
    end(scan::space(text, 0)).is_some_and(|end| scan::space(text, end) == text.len())
}

fn object_end(text: &str, at: usize) -> Option<usize> {
    scan::object(text, at, |_, _, value| scan::value(text, value))
}

/// An `update` object.
struct Update {
    /// Its end.
    end: usize,
    /// Where its content begins, if it is a chunk of a message.
    chunk: Option<usize>,
}

/// The `update` object that makes up a whole text.
fn update(text: &str) -> Option<Update> {
    let update = update_at(text, scan::space(text, 0))?;
    (scan::space(text, update.end) == text.len()).then_some(update)
}

/// The `update` object that begins at `at`. If a name is repeated, the last member counts.
fn update_at(text: &str, at: usize) -> Option<Update> {
    let (mut kind, mut content) = (None, None);
    let end = scan::object(text, at, |name, _, value| {
        let end = scan::value(text, value)?;
        match name {
            "sessionUpdate" => kind = text.get(value..end),
            "content" => content = Some((value, text.get(value..end)?)),
            _ => {}
        }
        Some(end)
    })?;
    has_shape(kind, content.map(|(_, content)| content)).then(|| Update {
        end,
        chunk: content
            .filter(|_| kind.is_some_and(is_chunk))
            .map(|(at, _)| at),
    })
}

/// The end of the prompt parameters that begin at `at`.
fn prompt_end(text: &str, at: usize) -> Option<usize> {
    let mut has_prompt = false;
    let end = scan::object(text, at, |name, _, value| {
        let end = scan::value(text, value)?;
        if name == "prompt" {
            has_prompt = has_blocks(text, value);
        }
        Some(end)
    })?;
    has_prompt.then_some(end)
}

/// Whether the value that begins at `at` is an array of objects.
fn has_blocks(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let Some(mut blocks) = json::elements(bytes, at) else {
        return false;
    };
    std::iter::from_fn(|| blocks.element()).all(|block| bytes[block.start] == b'{')
}

/// The forms of an `info` record.
enum Info {
    /// An update.
    Update,
    /// The parameters of a notification.
    Params,
    /// For the program itself, never sent.
    Own,
}

impl Info {
    /// `None` if it is not an object, or matches more than one of these forms.
    fn of(payload: &str) -> Option<Self> {
        let (mut is_update, mut is_plain, mut is_params) = (false, false, false);
        let is_object = alone(payload, |at| {
            scan::object(payload, at, |name, quote, value| {
                is_update |= name == "sessionUpdate";
                is_plain |= is_plain_name(payload, quote, "sessionUpdate");
                is_params |= name == "update" && names_update(payload, value);
                scan::value(payload, value)
            })
        });
        match (is_update, is_params) {
            _ if !is_object => None,
            (true, true) if !is_plain => None,
            (true, _) => Some(Self::Update),
            (false, true) => Some(Self::Params),
            (false, false) => Some(Self::Own),
        }
    }
}

/// Whether an object begins at `at` and has a `sessionUpdate` of any type.
fn names_update(text: &str, at: usize) -> bool {
    let mut found = false;
    scan::object(text, at, |name, _, value| {
        found |= name == "sessionUpdate";
        scan::value(text, value)
    });
    found
}

/// Whether the name that begins with the quote at `quote` is this one, without escapes.
fn is_plain_name(text: &str, quote: usize, name: &str) -> bool {
    let behind = text
        .get(quote + 1..)
        .and_then(|text| text.strip_prefix(name));
    behind.is_some_and(|behind| behind.starts_with('"'))
}

/// Names of members that matter when the parameters are sent.
const SESSION: &str = "sessionId";
const KNOWN: [&str; 3] = [SESSION, "update", "_meta"];

/// The parameters of a notification, if valid. They must have no `sessionId`, since content of one
/// session must not reach another, and each known member only once and unescaped. They nearly
/// always satisfy this and are returned unchanged.
fn parameters(payload: &str) -> Option<Cow<'_, str>> {
    let mut count = [0_u8; KNOWN.len()];
    let (mut is_plain, mut is_sound) = (true, false);
    let is_object = alone(payload, |at| {
        scan::object(payload, at, |name, quote, value| {
            if let Some(place) = KNOWN.iter().position(|known| *known == name) {
                count[place] = count[place].saturating_add(1);
                is_plain &= is_plain_name(payload, quote, name);
            }
            if name == "update" {
                let update = update_at(payload, value);
                is_sound = update.is_some();
                return match update {
                    Some(update) => Some(update.end),
                    None => scan::value(payload, value),
                };
            }
            scan::value(payload, value)
        })
    });
    let [sessions, updates, metas] = count;
    if !is_object || !is_sound {
        return None;
    }
    if is_plain && sessions == 0 && updates == 1 && metas <= 1 {
        return Some(Cow::Borrowed(payload));
    }
    normalized(payload).map(Cow::Owned)
}

/// The same parameters as most JSON parsers read them: the last of several members with a known
/// name counts.
fn normalized(payload: &str) -> Option<String> {
    let mut members: Vec<(Option<&str>, &str, &str)> = Vec::new();
    scan::object(payload, scan::space(payload, 0), |name, quote, value| {
        let end = scan::value(payload, value)?;
        let known = KNOWN.into_iter().find(|known| *known == name);
        if known.is_some() {
            members.retain(|(other, ..)| *other != known);
        }
        if known != Some(SESSION) {
            members.push((known, payload.get(quote..value)?, payload.get(value..end)?));
        }
        Some(end)
    })?;
    let mut text = String::from("{");
    for (known, name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        match known {
            Some(known) => text.extend(["\"", known, "\":"]),
            None => text.push_str(name),
        }
        text.push_str(value);
    }
    text.push('}');
    Some(text)
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
