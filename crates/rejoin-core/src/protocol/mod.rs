//! The definitions of the Agent Client Protocol itself: its names, error codes and versions, and the
//! versions of MCP, on which it builds.

mod client_view;
pub mod cursor;
pub mod error;
mod id_set;
pub mod jetbrains;
pub mod meta;
pub mod method;
pub mod text_block;
pub mod update;
pub mod v1;
pub mod v2;
mod version;

pub use client_view::{ClientView, EngineCall};
pub use id_set::{Id, IdSet};
pub use update::{Role, UpdateClass, UpdateKind, UpdateParts, UpdateText};
pub use version::{MCP_VERSIONS, ProtocolVersion};
