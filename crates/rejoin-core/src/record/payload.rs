//! Checks that the payload of a record has the shape that its kind requires.
//!
//! A checksum is not a signature: a log that was copied from elsewhere may hold anything. A replay
//! inserts payloads into envelopes unchanged, so a payload that closes its envelope could add
//! members of its own and turn a notification into a request. Hence a payload is valid only if it
//! is exactly one JSON value of the shape of its kind.

use std::borrow::Cow;

use super::kind::Kind;
use super::subagents;
use crate::json::{self, TextLayout};
use crate::protocol::{UpdateKind, UpdateParts};

/// The `protocolVersion` of an `ask` record whose request has the form of version 2.
pub const NATIVE: &str = "2";

/// Checks the payloads of one log, with a fast path for the layout of the last text chunk.
#[derive(Debug, Default)]
pub struct Checker {
    layout: TextLayout,
    /// The kind of the chunk with this layout.
    kind: Option<UpdateKind>,
}

/// A valid payload.
#[derive(Debug)]
pub struct Checked<'a> {
    /// The payload as readers may use it: the record's own, except for notification parameters that
    /// have a `sessionId` or repeat a member that matters when they are sent.
    pub payload: Cow<'a, str>,
    /// The parts that were found in an `update` record. `None` if readers have to look themselves.
    pub parts: Option<UpdateParts>,
}

impl Checker {
    /// Checks a payload. `None` if it is not valid for a record of this kind.
    pub fn check<'a>(&mut self, kind: Kind, payload: &'a str) -> Option<Checked<'a>> {
        if kind == Kind::Update {
            return self.update(payload);
        }
        sound(kind, payload).map(|payload| Checked {
            payload,
            parts: None,
        })
    }

    fn update<'a>(&mut self, payload: &'a str) -> Option<Checked<'a>> {
        let bytes = payload.as_bytes();
        let parts = if let Some(text) = self.layout.text(bytes) {
            self.kind.map(|kind| UpdateParts {
                kind,
                call: None,
                text: Some((text.start, text.end)),
            })
        } else {
            let update = update_at(payload, json::skip_space(bytes, 0)).filter(|update| {
                json::skip_space(bytes, update.end) == bytes.len() && is_one_line(payload)
            })?;
            let mut parts = update.parts;
            if let Some(parts) = &mut parts
                && let UpdateKind::Chunk(_) = parts.kind
                && parts.call.is_none()
                && let Some(content) = update.content
                && let Some(text) = json::member(bytes, content, "text")
                && let Some(text) = json::string_body(bytes, &text)
            {
                self.layout.learn(bytes, &text);
                self.kind = Some(parts.kind);
                parts.text = Some((text.start, text.end));
            }
            parts
        };
        Some(Checked {
            payload: Cow::Borrowed(payload),
            parts,
        })
    }
}

/// Whether clients can handle an update: `name`, its `sessionUpdate`, is a string, and a chunk of a
/// message has an object as its `content`. Both are JSON text.
pub fn has_shape(name: Option<&str>, content: Option<&str>) -> bool {
    let name = name.and_then(|name| name.strip_prefix('"')?.strip_suffix('"'));
    name.is_some_and(|name| fits(kind_of(name), content))
}

/// The kind with this name, which may have escapes.
fn kind_of(name: &str) -> UpdateKind {
    UpdateKind::of_name(json::unescaped(name).as_bytes())
}

/// Whether an update of this kind may have this content.
fn fits(kind: UpdateKind, content: Option<&str>) -> bool {
    let is_chunk = matches!(kind, UpdateKind::Chunk(_));
    !is_chunk || content.is_some_and(|content| content.starts_with('{'))
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
    let bytes = payload.as_bytes();
    let is_sound = match kind {
        Kind::Update | Kind::Output => is_update(payload),
        Kind::UpdateParams | Kind::UpdateV2 | Kind::TransientV2 => return parameters(payload),
        Kind::Subagent | Kind::SubagentV2 => is_subagent_update(payload),
        Kind::Transient => match InfoForm::of(payload)? {
            InfoForm::Params => return parameters(payload),
            InfoForm::Update => is_update(payload),
            InfoForm::Own => false,
        },
        Kind::Info => match InfoForm::of(payload)? {
            InfoForm::Params => return parameters(payload),
            InfoForm::Update => is_update(payload),
            InfoForm::Own => true,
        },
        Kind::Prompt => json::is_single(bytes, |at| prompt_end(bytes, at)),
        Kind::Session
        | Kind::Begin
        | Kind::End
        | Kind::Ask
        | Kind::Answer
        | Kind::Reopen
        | Kind::Rewind
        | Kind::AgentSessionId => json::is_single(bytes, |at| object_end(bytes, at)),
        // A later version may have any valid JSON there.
        Kind::Unknown => json::is_single(bytes, |at| json::value_end(bytes, at)),
    };
    is_sound.then_some(Cow::Borrowed(payload))
}

fn object_end(text: &[u8], at: usize) -> Option<usize> {
    json::walk(text, at, |_, _, value| json::value_end(text, value))
}

/// Whether a text is a single `update` object.
fn is_update(text: &str) -> bool {
    json::is_single(text.as_bytes(), |at| Some(update_at(text, at)?.end))
}

/// An `update` object.
struct UpdateLayout {
    /// Its end.
    end: usize,
    /// Where its content begins, if it has any.
    content: Option<usize>,
    /// The other parts that were found. `None` if a name has escapes, which other readers do not
    /// recognize.
    parts: Option<UpdateParts>,
}

/// The `update` object that begins at `at`. If a name is repeated, the last member counts.
fn update_at(text: &str, at: usize) -> Option<UpdateLayout> {
    let bytes = text.as_bytes();
    let (mut name, mut content, mut call) = (None, None, None);
    let mut is_plain = true;
    let end = json::walk(bytes, at, |key, quote, value| {
        let end = json::value_end(bytes, value)?;
        let place = match key {
            b"sessionUpdate" => &mut name,
            b"content" => &mut content,
            b"toolCallId" => &mut call,
            _ => return Some(end),
        };
        *place = Some((value, end));
        is_plain &= is_plain_key(bytes, quote, key);
        Some(end)
    })?;
    let of = |(start, end): (usize, usize)| text.get(start..end);
    let name = of(name?)?.strip_prefix('"')?.strip_suffix('"')?;
    let kind = kind_of(name);
    fits(kind, content.and_then(of)).then(|| UpdateLayout {
        end,
        content: content.map(|(at, _)| at),
        parts: is_plain.then_some(UpdateParts {
            kind,
            call,
            text: None,
        }),
    })
}

/// The end of the prompt parameters that begin at `at`.
fn prompt_end(text: &[u8], at: usize) -> Option<usize> {
    let mut has_prompt = false;
    let end = json::walk(text, at, |key, _, value| {
        let end = json::value_end(text, value)?;
        if key == b"prompt" {
            has_prompt = has_blocks(text, value);
        }
        Some(end)
    })?;
    has_prompt.then_some(end)
}

/// Whether the value that begins at `at` is an array of objects.
fn has_blocks(text: &[u8], at: usize) -> bool {
    let Some(mut blocks) = json::elements(text, at) else {
        return false;
    };
    std::iter::from_fn(|| blocks.element()).all(|block| text[block.start] == b'{')
}

/// The forms of an `info` record. A `transient` record has one of the first two.
enum InfoForm {
    /// An update.
    Update,
    /// The parameters of a notification.
    Params,
    /// For the program itself, never sent.
    Own,
}

impl InfoForm {
    /// `None` if it is not an object, or matches more than one of these forms.
    fn of(payload: &str) -> Option<Self> {
        let bytes = payload.as_bytes();
        let (mut is_update, mut is_plain, mut is_params) = (false, false, false);
        let is_object = json::is_single(bytes, |at| {
            json::walk(bytes, at, |key, quote, value| {
                is_update |= key == b"sessionUpdate";
                is_plain |= is_plain_key(bytes, quote, b"sessionUpdate");
                is_params |= key == b"update" && names_update(bytes, value);
                json::value_end(bytes, value)
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
fn names_update(text: &[u8], at: usize) -> bool {
    let mut found = false;
    json::walk(text, at, |key, _, value| {
        found |= key == b"sessionUpdate";
        json::value_end(text, value)
    });
    found
}

/// Whether the key that begins with the quote at `quote` is this one, without escapes.
fn is_plain_key(text: &[u8], quote: usize, key: &[u8]) -> bool {
    let rest = text
        .get(quote + 1..)
        .and_then(|text| text.strip_prefix(key));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}

/// Names of members that matter when the parameters are sent.
const SESSION: &str = "sessionId";
const KNOWN: [&str; 3] = [SESSION, "update", "_meta"];

/// How often the parameters of a notification have each of the [`KNOWN`] members, and whether all of
/// these names are without escapes. `None` if they are not an object with a valid update.
fn known_members(payload: &str) -> Option<([u8; KNOWN.len()], bool)> {
    let bytes = payload.as_bytes();
    let mut count = [0_u8; KNOWN.len()];
    let (mut is_plain, mut is_sound) = (true, false);
    let is_object = json::is_single(bytes, |at| {
        json::walk(bytes, at, |key, quote, value| {
            if let Some(place) = KNOWN.iter().position(|known| known.as_bytes() == key) {
                count[place] = count[place].saturating_add(1);
                is_plain &= is_plain_key(bytes, quote, key);
            }
            if key == b"update" {
                let update = update_at(payload, value);
                is_sound = update.is_some();
                if let Some(update) = update {
                    return Some(update.end);
                }
            }
            json::value_end(bytes, value)
        })
    });
    (is_object && is_sound).then_some((count, is_plain))
}

/// Whether the parameters begin with the session's id, and have it and the update only once.
fn is_subagent_update(payload: &str) -> bool {
    let is_known = known_members(payload).is_some_and(|([sessions, updates, metas], is_plain)| {
        is_plain && sessions == 1 && updates == 1 && metas <= 1
    });
    is_known && subagents::parse(payload).is_some()
}

/// The parameters of a notification, if valid. They must have no `sessionId`, since content of one
/// session must not reach another, and each known member only once and unescaped. They nearly
/// always satisfy this and are returned unchanged.
pub fn parameters(payload: &str) -> Option<Cow<'_, str>> {
    let ([sessions, updates, metas], is_plain) = known_members(payload)?;
    if is_plain && sessions == 0 && updates == 1 && metas <= 1 {
        return Some(Cow::Borrowed(payload));
    }
    normalized(payload).map(Cow::Owned)
}

/// The parameters as most JSON parsers read them: the last of several members with a known name
/// counts.
fn normalized(payload: &str) -> Option<String> {
    let bytes = payload.as_bytes();
    let mut members: Vec<(Option<&str>, &str, &str)> = Vec::new();
    json::walk(bytes, 0, |key, quote, value| {
        let end = json::value_end(bytes, value)?;
        let known = KNOWN.into_iter().find(|known| known.as_bytes() == key);
        if known.is_some() {
            members.retain(|(other, ..)| *other != known);
        }
        if known != Some(SESSION) {
            members.push((known, payload.get(quote..value)?, payload.get(value..end)?));
        }
        Some(end)
    })?;
    let members = members.iter().map(|(known, name, value)| match known {
        Some(known) => format!("\"{known}\":{value}"),
        None => [*name, value].concat(),
    });
    Some(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
