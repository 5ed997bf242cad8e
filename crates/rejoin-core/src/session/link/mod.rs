//! Links: how a front in another task, of this process or another one, reaches the owner of its session.
//!
//! A front reads the log, in which everything is that its client must see. The link is for the rest: it
//! passes requests of the client to the owner, and requests of the engine to the client. It carries no
//! update. To another process it is lines of JSON-RPC on a socket; within a process it is a channel.

pub mod message;
pub mod owners;
pub mod to_front;

pub(super) mod to_owner;
pub(super) mod events;
pub(super) mod feed;

pub use owners::{Linked, Owners};
pub use to_front::{ATTACH, serve};
