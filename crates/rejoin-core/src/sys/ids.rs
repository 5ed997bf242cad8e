//! Ids of sessions and messages: their format and their source.

use std::fmt;
use std::sync::Mutex;

use uuid::fmt::Hyphenated;
use uuid::{ContextV7, Uuid, Version};

use super::clock::{Clock, SystemClock, Timestamp};

/// The id of a session: `sess_` and a version 7 UUID in lower case with hyphens.
///
/// Only this exact format is possible, so an id is always safe as a file name, and two different
/// ids never name the same file, even if file names ignore case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// The beginning of every id.
    pub const PREFIX: &str = "sess_";

    /// Parses an id. `None` unless `text` is exactly in this format.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        // Of the forms of a UUID, only the one with hyphens has this length.
        let is_in_form = digits.len() == Hyphenated::LENGTH
            && !digits.bytes().any(|byte| byte.is_ascii_uppercase());
        let uuid = Uuid::try_parse(digits).ok().filter(|_| is_in_form)?;
        (uuid.get_version() == Some(Version::SortRand)).then(|| Self(text.to_owned()))
    }

    /// The id for a version 7 UUID.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(format!("{}{}", Self::PREFIX, uuid.hyphenated()))
    }

    /// The id of a session that another agent created: always the same for the same agent and id.
    pub fn of_foreign(agent: &str, id: &str) -> Self {
        // 128-bit FNV-1a. It must never change, since the store depends on it.
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in agent.bytes().chain([0]).chain(id.bytes()) {
            hash ^= u128::from(byte);
            hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        let mut bytes = hash.to_be_bytes();
        // The version and variant bits of a version 7 UUID, which every session's id has.
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self::from_uuid(Uuid::from_bytes(bytes))
    }

    /// The UUID in it.
    pub fn to_uuid(&self) -> Uuid {
        Uuid::try_parse(self.digits()).unwrap_or_default()
    }

    /// The id as the protocol writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part that differs from session to session.
    pub fn digits(&self) -> &str {
        &self.0[Self::PREFIX.len()..]
    }
}

/// Whether an id has the form of our messages' ids, which no other tool's has.
pub fn is_message_id(text: &str) -> bool {
    let digits = text.strip_prefix("msg_").unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    digits.len() == 32 && digits.bytes().all(is_digit)
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A source of unique ids.
pub trait Ids: Send + Sync + fmt::Debug {
    /// A new version 7 UUID. Later ones sort after earlier ones of the same process.
    fn uuid(&self) -> Uuid;

    /// The id of a new session.
    fn session(&self) -> SessionId {
        SessionId::from_uuid(self.uuid())
    }

    /// The id of a new message: `msg_` and 32 hexadecimal digits.
    fn message(&self) -> String {
        format!("msg_{}", self.uuid().simple())
    }

    /// The id of a new tool call: `call_` and 32 hexadecimal digits.
    fn tool_call(&self) -> String {
        format!("call_{}", self.uuid().simple())
    }
}

/// Ids from the system's clock and randomness.
#[derive(Debug)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn uuid(&self) -> Uuid {
        uuid_at(SystemClock.now())
    }
}

/// A new version 7 UUID of this time. `Uuid::now_v7` panics if the system clock is before 1970.
fn uuid_at(time: Timestamp) -> Uuid {
    static COUNTER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let millis = time.as_millis().unsigned_abs();
    let nanos = u32::try_from(millis % 1000).unwrap_or_default() * 1_000_000;
    Uuid::new_v7(uuid::Timestamp::from_unix(&COUNTER, millis / 1000, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_session_always_has_the_same_id() {
        let id = SessionId::of_foreign("agent", "id");
        assert_eq!(id.as_str(), "sess_33de386b-bb65-7b4d-bdf4-0b039736925f");
        assert_eq!(SessionId::parse(id.as_str()), Some(id.clone()));
        assert_ne!(SessionId::of_foreign("agenti", "d"), id);
    }

    #[test]
    fn only_the_exact_form_is_an_id() {
        let id = RandomIds.session();
        assert_eq!(SessionId::parse(id.as_str()), Some(id.clone()));
        let uuid = id.as_str().strip_prefix("sess_").unwrap();
        let long = "x".repeat(10_000);
        for bad in [
            "",
            ".",
            "..",
            "sess_",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "sess_\0",
            &long,
            uuid,
            &id.as_str().to_uppercase(),
            &id.as_str()[..id.as_str().len() - 1],
            &format!("{id} "),
            &format!("sess_{{{uuid}}}"),
            &format!("sess_{}", uuid.replace('-', "")),
            "sess_67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(SessionId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn ids_of_any_time_differ_and_sort_by_creation() {
        for millis in [i64::MIN, i64::MAX, 0, 1] {
            let time = Timestamp::from_millis(millis);
            let ids: Vec<_> = (0..3)
                .map(|_| SessionId::from_uuid(uuid_at(time)))
                .collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
            let read = ids.iter().map(|id| SessionId::parse(id.as_str()));
            assert!(read.eq(ids.iter().cloned().map(Some)), "{ids:?}");
        }
    }

    #[test]
    fn ids_sort_by_creation() {
        let ids: Vec<_> = (0..1000).map(|_| RandomIds.session()).collect();
        assert!(ids.is_sorted());
    }
}
