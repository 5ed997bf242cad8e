//! The connection to the client: bounded lines in and out, and the requests of both sides.

pub mod connection;
pub mod flow;
pub mod line;
pub mod message;
pub mod outgoing;
pub mod pump;
pub mod requests;
pub mod stdio;
pub mod writer;

pub use connection::{ClientConnection, Incoming, LINE_LIMIT, Received, connect};
pub use flow::{Flow, FlowPermit, Load, NoRoom, ProcessFlow, Room};
pub use message::{MessageForm, Outcome};
pub use outgoing::{OutgoingRequest, OutgoingRequests};
pub use requests::{IncomingRequest, Requests, Responder};
pub use writer::{Gone, Writer};
