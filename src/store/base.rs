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
}
