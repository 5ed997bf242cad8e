//! Records when the store was last cleaned up, so that short-lived processes do it once a day.

use std::io;

use serde::{Deserialize, Serialize};

use crate::sys::Timestamp;

use super::error::StoreError;
use super::folder::Store;

/// How often a cleanup is due, in milliseconds.
const EVERY: u64 = 24 * 60 * 60 * 1000;
/// The maximum length of the file, in bytes. A longer one is not ours.
const MOST: usize = 4096;

/// When the store was last cleaned up, and with which settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCleanup {
    /// Milliseconds since 1970.
    pub at: i64,
    /// After how many milliseconds sessions expire; none if they do not.
    pub expire_after: Option<u64>,
    /// Whether the index may still contain words of removed sessions.
    #[serde(default)]
    pub words_left: bool,
}

impl Store {
    /// When the store was last cleaned up, if known.
    pub fn last_cleanup(&self) -> Option<LastCleanup> {
        let path = &self.context.layout.last_cleanup;
        let file = self.sys().disk.open_read(path).ok()?;
        let mut text = vec![0; MOST];
        let len = file.read_at(&mut text, 0).ok()?;
        serde_json::from_slice(text.get(..len)?).ok()
    }

    /// Records that the store was cleaned up. The file is neither synced nor replaced at once: if it
    /// is lost or incomplete, a cleanup is due again.
    pub fn set_last_cleanup(&self, cleanup: &LastCleanup) -> Result<(), StoreError> {
        let path = &self.context.layout.last_cleanup;
        let disk = &self.sys().disk;
        let failed = |operation| StoreError::disk(operation, path);
        let text = serde_json::to_string(cleanup).map_err(io::Error::from);
        let text = text.map_err(failed("write"))?;
        disk.remove_if_exists(path).map_err(failed("replace"))?;
        let written = disk
            .create_new(path)
            .and_then(|mut file| file.append_all(text.as_bytes()));
        match written {
            // Another process is writing it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(failed("write")),
        }
    }
}

impl LastCleanup {
    /// Whether a cleanup is due with this setting.
    pub fn is_due(&self, now: Timestamp, expire_after: Option<u64>) -> bool {
        // A time in the future comes from a wrong clock.
        now.as_millis().abs_diff(self.at) >= EVERY
            || self.expire_after != expire_after
            || self.words_left
    }
}
