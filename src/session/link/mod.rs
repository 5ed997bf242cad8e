//! Links: how an actor whose session another process has open reaches the actor that has it.
//!
//! The *owner* of a session holds its lock and its engine. An actor for another client, in another
//! process or on another connection of the same one, reads the log, in which everything is that its
//! client must see. The link is for the rest: it passes requests of the client to the owner, and
//! requests of the engine to the client. It carries no update.

pub mod message;
pub mod owners;
pub mod serve;

pub use owners::{Linked, Owners};
pub use serve::{ATTACH, serve};
