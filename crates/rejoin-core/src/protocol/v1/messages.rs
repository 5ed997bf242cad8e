//! Converts messages: version 2 may send a message as a whole and replace it, version 1 only adds
//! chunks where they arrive.
//!
//! A whole message becomes a chunk for each of its blocks. If a message begins with what is known of
//! it, only the rest is added. Otherwise it is shown again under an id of its own, as nothing
//! that was shown can be withdrawn.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::json::{self, Object, remade};
use crate::protocol::text_block::plain_text;
use crate::protocol::{Id, Role};

use super::ConvertedUpdate;

/// Marks the start and the end of a block that is not text. It does not occur in text.
const EDGE: u8 = 0xff;

/// The messages of one session so far.
#[derive(Debug, Default)]
pub(super) struct V1Messages {
    known: HashMap<Id, KnownMessage>,
    /// The message that was shown last, if nothing was shown since.
    last: Option<(Role, Id)>,
}

#[derive(Debug)]
struct KnownMessage {
    role: Role,
    content: ContentDigest,
    /// How often it was replaced by something else.
    replaced: u32,
}

/// The length and hash of a message's content: enough to see whether another content begins with
/// it.
#[derive(Clone, Debug, Default)]
struct ContentDigest {
    len: usize,
    hash: crc32fast::Hasher,
}

impl ContentDigest {
    fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.hash.update(bytes);
    }

    fn is(&self, other: &Self) -> bool {
        self.len == other.len && self.hash.clone().finalize() == other.hash.clone().finalize()
    }

    /// The part of `blocks` after this content; `None` if they do not begin with it.
    fn rest_of<'b>(&self, blocks: &[&'b str]) -> Option<Vec<Cow<'b, str>>> {
        let (mut known, mut rest) = (Self::default(), Vec::new());
        for block in blocks {
            let (bytes, is_text) = said(block);
            let missing = self.len - known.len;
            if missing >= bytes.len() {
                known.add(&bytes);
                continue;
            }
            known.add(&bytes[..missing]);
            if missing == 0 {
                rest.push(Cow::Borrowed(*block));
            } else {
                let text = std::str::from_utf8(&bytes[missing..]).ok()?;
                let block = Object::new().string("type", "text").string("text", text);
                rest.push(Cow::Owned(is_text.then(|| block.end())?));
            }
        }
        known.is(self).then_some(rest)
    }
}

/// The text of a text block, or the whole JSON of another block between two marks; and whether it
/// is text.
fn said(block: &str) -> (Cow<'_, [u8]>, bool) {
    if let Some(text) = plain_text(block.as_bytes(), 0) {
        return (json::unescaped_bytes(&block.as_bytes()[text]), true);
    }
    let edge = [EDGE];
    let whole = [&edge, block.as_bytes(), &edge].concat();
    (Cow::Owned(whole), false)
}

impl V1Messages {
    /// Something else follows the last message.
    pub(super) fn pause(&mut self) {
        self.last = None;
    }

    /// Converts a chunk, which is the same in version 1. Where its message does not end, the view
    /// of version 2 would begin a new one.
    pub(super) fn chunk<'a>(&mut self, role: Role, update: &'a str) -> ConvertedUpdate<'a> {
        let id = json::string_member(update, "messageId");
        let (Some(id), Some(block)) = (id, json::text_member(update, "content")) else {
            self.pause();
            return ConvertedUpdate::same(update);
        };
        let key = Id::of(id.as_bytes());
        let (message, is_new) = self.message(role, key);
        message.content.add(&said(block).0);
        let replaced = message.replaced;
        let goes_on = self.last.replace((role, key)) == Some((role, key));
        if replaced > 0 {
            let id = json::quoted(&renamed(&id, replaced));
            return ConvertedUpdate::roughly(remade(update, |name, value| {
                Some(if name == "messageId" {
                    Cow::Owned(id.clone())
                } else {
                    value.into()
                })
            }));
        }
        ConvertedUpdate {
            updates: vec![update.into()],
            is_exact: is_new || goes_on,
        }
    }

    /// Converts a whole message to chunks.
    pub(super) fn whole<'a>(&mut self, role: Role, update: &'a str) -> ConvertedUpdate<'a> {
        let Some(id) = json::string_member(update, "messageId") else {
            self.pause();
            return ConvertedUpdate::same(update);
        };
        let key = Id::of(id.as_bytes());
        let (message, _) = self.message(role, key);
        let mut shown = ConvertedUpdate::default();
        let Some(content) = json::text_member(update, "content") else {
            return shown;
        };
        let blocks: Vec<_> = json::text_elements(content).collect();
        let rest = message.content.rest_of(&blocks).unwrap_or_else(|| {
            message.replaced += 1;
            blocks.iter().copied().map(Cow::Borrowed).collect()
        });
        message.content = ContentDigest::default();
        for block in &blocks {
            message.content.add(&said(block).0);
        }
        let id = json::quoted(&renamed(&id, message.replaced));
        let others: Vec<_> = json::text_members(update)
            .into_iter()
            .filter(|(name, value)| {
                !matches!(&**name, "sessionUpdate" | "messageId" | "content") && *value != "null"
            })
            .collect();
        for (number, block) in rest.iter().enumerate() {
            let mut chunk = Object::new()
                .string("sessionUpdate", role.chunk())
                .raw("messageId", &id)
                .raw("content", block);
            if number == 0 {
                let add = |chunk: Object, (name, value): &(String, &str)| chunk.raw(name, value);
                chunk = others.iter().fold(chunk, add);
            }
            shown.updates.push(chunk.end().into());
        }
        if !rest.is_empty() {
            self.last = Some((role, key));
        }
        shown
    }

    /// The message with this id, and whether it is new.
    fn message(&mut self, role: Role, id: Id) -> (&mut KnownMessage, bool) {
        let is_new = !self.known.contains_key(&id);
        let new = || KnownMessage {
            role,
            content: ContentDigest::default(),
            replaced: 0,
        };
        let message = self.known.entry(id).or_insert_with(new);
        if message.role != role {
            *message = new();
        }
        (message, is_new)
    }
}

/// The id of what replaces a message for the n-th time.
fn renamed(id: &str, replaced: u32) -> String {
    match replaced {
        0 => id.to_owned(),
        n => format!("{id}.{}", n + 1),
    }
}
