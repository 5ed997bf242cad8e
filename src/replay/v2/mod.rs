//! Shows the updates of a session, which are of version 1, in the form of version 2.
//!
//! The log knows one form only. What a client of version 2 gets is a view of it that is made
//! where lines leave, of what is sent live and what is replayed alike. Lines that both versions
//! write the same, which are nearly all, are copied; in the others single places change.
//! `docs/format.md` has the table of what becomes what.

mod line;
mod splice;
mod messages;
mod call;
mod diff;
mod settings;
mod permission;

pub use permission::{permission, permission_outcome};
pub use settings::{config_options, mode_config_id};

use std::ops::Range;

use crate::record::json;
use crate::record::transcript::Role;
use crate::replay::topic;

use line::Spot;
use messages::Messages;
use splice::Splice;

/// One session's updates in the form of version 2.
///
/// What it says of a line depends on those before it. So one session needs one view on one
/// connection, for its replay first and then for what is sent live.
#[derive(Debug, Default)]
pub struct View {
    messages: Messages,
}

impl View {
    /// The view of a session of which nothing was sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes whole lines of version 1 (`session/update` notifications with their newlines) and
    /// appends the lines of version 2. What is no such line passes as it is.
    pub fn lines(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        // Where the bytes begin that were not written yet.
        let mut copied = 0;
        let mut start = 0;
        while start < lines.len() {
            let len =
                memchr::memchr(b'\n', &lines[start..]).map_or(lines.len() - start, |at| at + 1);
            let line = &lines[start..start + len];
            if let Some(spot) = line::update(line)
                && let Some(change) = self.update(line, &spot)
            {
                out.extend_from_slice(&lines[copied..start]);
                change.write(0..len, out);
                copied = start + len;
            }
            start += len;
        }
        out.extend_from_slice(&lines[copied..]);
    }

    /// What has to change in a line.
    fn update<'a>(&mut self, line: &'a [u8], spot: &Spot) -> Option<Splice<'a>> {
        let update = &line[spot.update.clone()];
        let name = topic::name(update)?;
        if let Some(role) = std::str::from_utf8(&name).ok().and_then(Role::of_chunk) {
            return self.chunk(role, line, spot);
        }
        None
    }

    fn chunk<'a>(&mut self, role: Role, line: &'a [u8], spot: &Spot) -> Option<Splice<'a>> {
        let at = spot.update.start;
        let id = json::member(line, at, "messageId");
        let given = id.clone().filter(|id| &line[id.clone()] != b"null");
        let body = given.clone().and_then(|id| json::string_body(line, &id));
        let whole =
            json::member(line, at, "content").is_some() && given.is_some() == body.is_some();
        if !whole {
            // Neither version has such a chunk.
            self.messages.pause();
            return None;
        }
        let body: Option<Range<usize>> = body;
        let turn = || line::turn(line, spot);
        let shown = self
            .messages
            .chunk(role, body.map(|body| &line[body]), turn)?;
        let quoted = [b"\"", shown, b"\""].concat();
        let mut splice = Splice::new(line);
        match id {
            Some(id) => splice.replace(id, quoted),
            None => splice.prepend(at, [b"\"messageId\":", &quoted[..], b","].concat()),
        }
        Some(splice)
    }
}
