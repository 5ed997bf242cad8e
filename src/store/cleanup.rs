//! Records when the store was last cleaned up, so that short-lived processes do it once a day.

use std::io;

use serde::{Deserialize, Serialize};

use crate::sys::Timestamp;

use super::context::StoreContext;
use super::error::StoreError;

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

impl LastCleanup {
    /// Whether a cleanup is due with this setting.
    pub fn is_due(&self, now: Timestamp, expire_after: Option<u64>) -> bool {
        // A time in the future comes from a wrong clock.
        now.as_millis().abs_diff(self.at) >= EVERY
            || self.expire_after != expire_after
            || self.words_left
    }

    pub(super) fn load(context: &StoreContext) -> Option<Self> {
        let file = context
            .sys
            .disk
            .open_read(&context.layout.last_cleanup)
            .ok()?;
        let mut text = vec![0; MOST];
        let len = file.read_at(&mut text, 0).ok()?;
        serde_json::from_slice(text.get(..len)?).ok()
    }

    /// Neither synced nor atomic: if the file is lost or incomplete, a cleanup is due again.
    pub(super) fn save(&self, context: &StoreContext) -> Result<(), StoreError> {
        let path = &context.layout.last_cleanup;
        let failed = |operation| StoreError::disk(operation, path);
        let text = serde_json::to_string(self).map_err(io::Error::from);
        let text = text.map_err(failed("write"))?;
        match context.sys.disk.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("replace")(error));
            }
            _ => {}
        }
        let written = context.sys.disk.create_new(path).and_then(|mut file| {
            let written = file.append(text.as_bytes())?;
            (written == text.len())
                .then_some(())
                .ok_or_else(|| io::ErrorKind::WriteZero.into())
        });
        match written {
            // Another process is writing it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(failed("write")),
        }
    }
}
