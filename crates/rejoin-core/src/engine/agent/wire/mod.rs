//! The connection with a running agent. A thread reads its output (`intake`) and sends what it says to
//! the routes of its sessions; requests go both ways.

pub(super) mod awaited;
pub(super) mod connection;
pub(super) mod context_clear;
pub(super) mod extensions;
pub(super) mod intake;
pub(super) mod life;
pub(super) mod list;
pub(super) mod requests;
pub(super) mod routes;
pub(super) mod terminal_output;
