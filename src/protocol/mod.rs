//! What the Agent Client Protocol itself defines: its names, error codes and versions.
//!
//! Every name that the protocol spells is spelled here once. [`method`] has the methods, [`update`]
//! the kinds of session updates, [`meta`] what rejoin adds below `_meta`, [`jetbrains`] the members
//! of JetBrains' clients there, [`error`] the error codes and the data of our errors, [`cursor`]
//! positions in lists. [`ClientView`] shows a session to a client of either version, [`v2`] converts
//! to version 2 for that, and [`v1`] to version 1.

mod client_view;
pub mod cursor;
pub mod error;
mod ids;
pub mod jetbrains;
pub mod meta;
pub mod method;
pub mod text_block;
pub mod update;
pub mod v1;
pub mod v2;
mod version;

pub use client_view::{ClientView, EngineCall};
pub use ids::{Id, Ids};
pub use update::{Role, UpdateKind, UpdateParts};
pub use version::ProtocolVersion;
