//! What all parts of a store share.

use std::path::PathBuf;

use crate::sys::Sys;

use super::medium::{Durability, Medium};

/// The shared state of one store.
#[derive(Debug)]
pub(super) struct StoreContext {
    pub(super) medium: Box<dyn Medium>,
    pub(super) root: PathBuf,
    pub(super) catalog: PathBuf,
    pub(super) sys: Sys,
    pub(super) durability: Durability,
}
