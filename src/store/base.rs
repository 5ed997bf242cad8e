//! What every part of the store works with: the machine, the folders, how much is synced.

use std::path::Path;

use crate::sys::Sys;

use super::durability::Durability;
use super::error::StoreError;
use super::layout::Layout;

#[derive(Debug)]
pub(super) struct Base {
    pub(super) layout: Layout,
    pub(super) sys: Sys,
    pub(super) durability: Durability,
}

impl Base {
    /// Makes the names in a folder survive a power cut, if anything shall.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), StoreError> {
        if self.durability == Durability::Os {
            return Ok(());
        }
        let synced = self.sys.disk.sync_dir(dir);
        synced.map_err(StoreError::disk("sync", dir))
    }

    /// Removes a file of which nobody was told, if it is there.
    pub(super) fn discard(&self, path: &Path) {
        if let Err(error) = self.sys.disk.remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove half a session");
        }
    }
}
