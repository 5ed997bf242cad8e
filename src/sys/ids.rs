//! Ids of sessions and messages: their form and where new ones come from.

use std::fmt;

use uuid::{Uuid, Version};

/// The id of a session: `sess_` and a version 7 UUID in lower case with hyphens.
///
/// Only this exact form can be made, so an id is always safe as a file name and two ids that
/// differ never name the same file, also where file names ignore case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    const PREFIX: &str = "sess_";

    /// Reads an id, if `text` is one to the letter.
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = Uuid::try_parse(text.strip_prefix(Self::PREFIX)?).ok()?;
        let id = Self::from_uuid(uuid);
        (uuid.get_version() == Some(Version::SortRand) && id.0 == text).then_some(id)
    }

    /// The id made of a version 7 UUID.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(format!("{}{}", Self::PREFIX, uuid.hyphenated()))
    }

    /// The id as the protocol writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A source of ids that were never used before.
pub trait Ids: Send + Sync + fmt::Debug {
    /// A new version 7 UUID; later ones sort after earlier ones of the same process.
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

/// Ids from the machine's clock and randomness.
#[derive(Debug)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn ids_sort_by_creation() {
        let ids: Vec<_> = (0..1000).map(|_| RandomIds.session()).collect();
        assert!(ids.is_sorted());
    }
}
