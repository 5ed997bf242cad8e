//! Small files beside the sessions, which may be lost at any time.

use std::io;
use std::path::Path;

use super::error::StoreError;
use super::folder::Store;

/// The maximum length of such a file, in bytes. A longer one is not ours.
const MOST: usize = 4096;

impl Store {
    /// The agent that the user has chosen last for a session, by its id.
    pub fn last_agent(&self) -> Option<String> {
        let id = self.note(&self.context.layout.last_agent)?;
        String::from_utf8(id).ok().filter(|id| !id.is_empty())
    }

    /// Records that the user has chosen an agent.
    pub fn set_last_agent(&self, id: &str) -> Result<(), StoreError> {
        self.set_note(&self.context.layout.last_agent, id)
    }

    pub(super) fn note(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.sys().disk.open_read(path).ok()?;
        let mut text = vec![0; MOST];
        let len = file.read_at(&mut text, 0).ok()?;
        text.truncate(len);
        Some(text)
    }

    /// Writes such a file. It is neither synced nor replaced at once.
    pub(super) fn set_note(&self, path: &Path, text: &str) -> Result<(), StoreError> {
        let disk = &self.sys().disk;
        let failed = |operation| StoreError::disk(operation, path);
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
