//! Records when the store was last cleaned up, so that short-lived processes do it once a day.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys::Timestamp;

use super::folder::Store;
use super::medium::StoreError;

/// The note's name.
const NOTE: &str = "cleaned.json";

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
        serde_json::from_slice(&self.context.medium.note(NOTE)?).ok()
    }

    /// Records that the store was cleaned up. If the file is lost, a cleanup is due again.
    pub fn set_last_cleanup(&self, cleanup: &LastCleanup) -> Result<(), StoreError> {
        let text = serde_json::to_string(cleanup).map_err(io::Error::from);
        let text = text.map_err(StoreError::disk("write", Path::new(NOTE)))?;
        self.context.medium.set_note(NOTE, &text)
    }
}

impl LastCleanup {
    /// Whether a cleanup is due with this setting, if one is after this time.
    pub fn is_due(&self, now: Timestamp, after: Duration, expire_after: Option<u64>) -> bool {
        // A time in the future comes from a wrong clock.
        u128::from(now.as_millis().abs_diff(self.at)) >= after.as_millis()
            || self.expire_after != expire_after
            || self.words_left
    }
}
