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
pub use flow::{Flow, Held, Load, NoRoom, ProcessFlow, Room};
pub use message::{Form, Outcome};
pub use outgoing::{Call, OutgoingRequests};
pub use requests::{Request, Requests, Responder};
pub use writer::{Gone, Writer};
