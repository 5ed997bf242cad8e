//! `rejoin proxy` in a chain: by hand, with a small conductor and an agent, and with the roles of
//! the protocol's own SDK.

mod by_hand;
mod chain;
mod hand;
mod transcripts;
