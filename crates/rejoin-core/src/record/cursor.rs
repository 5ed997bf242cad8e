//! The ids of places in a log at which its session can be forked: session cursors.

use std::fmt;

use super::{Kind, Record, line};
use crate::json::{self, Object};
use crate::protocol::{Role, UpdateKind};

/// A place in a log: before a message of the user, or after the end of a turn or a compaction.
///
/// A place has the same id in every process and every copy of the log. An id of another session,
/// or of a log that was made anew, does not belong to the record that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the record that it is next to.
    pub seq: u64,
    /// On which side of that record it is.
    pub side: CursorSide,
    /// A checksum of the session's id and the record.
    check: u32,
}

/// A place in a log: a side of the record with this number.
pub type LogPlace = (u64, CursorSide);

/// A side of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CursorSide {
    /// The history ends before the record.
    #[default]
    Before,
    /// The history ends with the record.
    After,
}

impl Cursor {
    /// The cursor at this side of a record of the session with this id.
    pub fn of(session: &str, record: &Record<'_>, side: CursorSide) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(session.as_bytes());
        hasher.update(&line::checksum(record).to_be_bytes());
        Self {
            seq: record.seq,
            side,
            check: hasher.finalize(),
        }
    }

    /// Where it is.
    pub fn place(self) -> LogPlace {
        (self.seq, self.side)
    }

    /// The members of a `cursor_update` that says that nothing accepts it any longer, as the beginning of an
    /// object.
    pub fn withdrawal(self, object: Object) -> Object {
        object
            .string("cursorId", &self.to_string())
            .raw("capabilities", "null")
    }

    /// Parses an id. Only the spelling that is written is one.
    pub fn parse(id: &str) -> Option<Self> {
        let (place, check) = id.split_once('-')?;
        let (side, seq) = place.split_at_checked(1)?;
        let cursor = Self {
            seq: seq.parse().ok()?,
            side: CursorSide::parse(side)?,
            check: u32::from_str_radix(check, 16).ok()?,
        };
        (cursor.to_string() == id).then_some(cursor)
    }

    /// Whether this is the place next to a record of the session with this id.
    pub fn is_at(self, session: &str, record: &Record<'_>) -> bool {
        record.seq == self.seq
            && self == Self::of(session, record, self.side)
            && match self.side {
                CursorSide::Before => is_of_user(record),
                CursorSide::After => {
                    record.kind == Kind::End
                        || update_of(record).is_some_and(|(kind, update)| {
                            kind == UpdateKind::Compaction && has_completed(update)
                        })
                }
            }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let check = line::hex(self.check);
        let check = str::from_utf8(&check).unwrap_or_default();
        write!(f, "{}{}-{check}", self.side, self.seq)
    }
}

impl CursorSide {
    /// Parses its letter.
    pub fn parse(letter: &str) -> Option<Self> {
        match letter {
            "b" => Some(Self::Before),
            "a" => Some(Self::After),
            _ => None,
        }
    }
}

impl fmt::Display for CursorSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "b",
            Self::After => "a",
        })
    }
}

/// The update in a record of the session's own history, and its kind.
pub(super) fn update_of<'a>(record: &Record<'a>) -> Option<(UpdateKind, &'a str)> {
    let update = match record.kind {
        Kind::Update => match record.parts {
            Some(parts) => return Some((parts.kind, record.payload)),
            None => record.payload,
        },
        Kind::UpdateParams | Kind::UpdateV2 => json::text_member(record.payload, "update")?,
        _ => return None,
    };
    Some((UpdateKind::of(update.as_bytes()), update))
}

/// Whether a record is a message of the user, or a part of one.
pub fn is_of_user(record: &Record<'_>) -> bool {
    record.kind == Kind::Prompt || update_of(record).is_some_and(|(kind, _)| is_user_message(kind))
}

/// Whether updates of this kind are messages of the user, or parts of them.
pub(super) fn is_user_message(kind: UpdateKind) -> bool {
    matches!(
        kind,
        UpdateKind::Chunk(Role::User) | UpdateKind::Message(Role::User)
    )
}

/// Whether an update of a compaction says that it has finished successfully.
pub(super) fn has_completed(update: &str) -> bool {
    json::string_member(update, "status").as_deref() == Some("completed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "sess_1";

    fn prompt(seq: u64) -> Record<'static> {
        Record {
            seq,
            at: "2026-11-27T08:00:00.000Z",
            ..Record::sample(Kind::Prompt, Some("m"), r#"{"prompt":[]}"#)
        }
    }

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        for seq in [0, 17, u64::MAX] {
            for side in [CursorSide::Before, CursorSide::After] {
                let cursor = Cursor::of(SESSION, &prompt(seq), side);
                let id = cursor.to_string();
                assert_eq!(Cursor::parse(&id), Some(cursor), "{id}");
                let others = [
                    id.to_uppercase(),
                    format!("{id}0"),
                    format!(" {id}"),
                    id.replacen('-', "-+", 1),
                    format!("{}0{}", &id[..1], &id[1..]),
                ];
                for other in others {
                    assert_eq!(Cursor::parse(&other), None, "{other}");
                }
            }
        }
        for id in [
            "",
            "-",
            "b",
            "b1",
            "b-1",
            "c1-00000000",
            "é1-00000000",
            "b1-0",
        ] {
            assert_eq!(Cursor::parse(id), None, "{id}");
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_record_and_session() {
        let record = prompt(17);
        let cursor = Cursor::of(SESSION, &record, CursorSide::Before);
        assert!(cursor.is_at(SESSION, &record));
        assert!(!cursor.is_at("sess_2", &record));
        assert!(!cursor.is_at(SESSION, &prompt(18)));
        let later = "2026-11-27T08:00:00.001Z";
        let edited = r#"{"prompt":[{}]}"#;
        for other in [
            Record {
                at: later,
                ..record
            },
            Record {
                id: Some("n"),
                ..record
            },
            Record { id: None, ..record },
            Record {
                payload: edited,
                ..record
            },
            Record {
                kind: Kind::Info,
                ..record
            },
        ] {
            assert!(!cursor.is_at(SESSION, &other), "{other:?}");
        }
        let after = Cursor::of(SESSION, &record, CursorSide::After);
        assert!(!after.is_at(SESSION, &record), "nothing ends there");
    }
}
