//! What one line of a session's log means. `docs/format.md` is the specification.

pub mod header;
pub mod inner;
pub mod kind;
pub mod line;
pub mod open_calls;
pub mod transcript;
pub mod render;
pub mod spoken;
pub mod stands;
pub mod title;
pub mod noted;
pub mod titles;
pub mod json;

pub use header::Header;
pub use inner::Inner;
pub use kind::Kind;
pub use line::Record;
pub use open_calls::OpenCalls;
pub use stands::Stands;

/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;
