//! rejoin: a stdio ACP agent whose sessions survive anything.
//!
//! # Layout
//!
//! From the top of the program to the bottom; a file imports only from its own folder or from one
//! further down this list.

pub mod engine;
pub mod store;
pub mod record;
pub mod sys;
