//! The transport under the SDK: owns stdin and stdout, bounds lines, tolerates bad bytes, has one
//! writer with backpressure that both planes share.

pub mod answers;
pub mod calls;
pub mod connect;
pub mod shared;
pub mod line;
pub mod message;
pub mod pump;
pub mod raws;
pub mod sdk;
pub mod stash;
pub mod stdio;
pub mod writer;

pub use answers::Answers;
pub use calls::{Call, Calls, Outcome};
pub use connect::{LINE_LIMIT, connect};
pub use raws::Raws;
pub use shared::Wire;
pub use stash::Stash;
pub use writer::{Gone, Writer};
