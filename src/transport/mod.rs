//! The transport below the SDK: owns stdin and stdout, bounds lines, tolerates invalid bytes, and
//! has one writer with backpressure that both planes share.

pub mod answers;
pub mod calls;
pub mod connect;
pub mod flow;
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
pub use calls::{Call, Outcome, OutgoingRequests};
pub use connect::{LINE_LIMIT, connect};
pub use flow::{Flow, Held, Load};
pub use message::Form;
pub use raws::VerbatimResults;
pub use shared::Wire;
pub use stash::PendingParams;
pub use writer::{Gone, Writer};
