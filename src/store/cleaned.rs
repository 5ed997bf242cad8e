//! When the store was last cleaned up, so that short-lived processes do it, but not each of them.

use std::io;

use serde::{Deserialize, Serialize};

use crate::sys::Timestamp;

use super::base::StoreContext;
use super::error::StoreError;

/// How often it is due, in milliseconds: once a day.
const EVERY: u64 = 24 * 60 * 60 * 1000;
/// A longer file is none of ours, in bytes.
const MOST: usize = 4096;

/// When the store was last cleaned up, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleaned {
    /// In milliseconds since 1970.
    pub at: i64,
    /// After how many milliseconds sessions expired; none if they did not.
    pub expire_after: Option<u64>,
    /// Whether words of removed sessions may be left in the index.
    #[serde(default)]
    pub words_left: bool,
}

impl Cleaned {
    /// Whether it is due again by these rules.
    pub fn is_due(&self, now: Timestamp, expire_after: Option<u64>) -> bool {
        // A time in the future is that of a clock that was wrong.
        now.as_millis().abs_diff(self.at) >= EVERY
            || self.expire_after != expire_after
            || self.words_left
    }

    pub(super) fn load(base: &StoreContext) -> Option<Self> {
        let file = base.sys.disk.open_read(&base.layout.cleaned).ok()?;
        let mut text = vec![0; MOST];
        let len = file.read_at(&mut text, 0).ok()?;
        serde_json::from_slice(text.get(..len)?).ok()
    }

    /// Not synced, and not in one step: what is lost or read half written makes it due again.
    pub(super) fn save(&self, base: &StoreContext) -> Result<(), StoreError> {
        let path = &base.layout.cleaned;
        let failed = |operation| StoreError::disk(operation, path);
        let text = serde_json::to_string(self).map_err(io::Error::from);
        let text = text.map_err(failed("write"))?;
        match base.sys.disk.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("replace")(error));
            }
            _ => {}
        }
        let written = base.sys.disk.create_new(path).and_then(|mut file| {
            let written = file.append(text.as_bytes())?;
            (written == text.len())
                .then_some(())
                .ok_or_else(|| io::ErrorKind::WriteZero.into())
        });
        match written {
            // Another process does the same.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(failed("write")),
        }
    }
}
