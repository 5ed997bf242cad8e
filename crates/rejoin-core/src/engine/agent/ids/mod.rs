//! Gives the messages and tool calls of a session unique ids, and recognizes what an agent repeats.
//!
//! Agents leave out ids and use them again. `normalizer` makes a record of an update: it inserts a
//! missing id, and appends a number to one that is in use. Pure, on text.

mod calls;
mod echo;
mod messages;
mod normalizer;
mod used_ids;

pub(super) use echo::Echo;
pub(super) use normalizer::{IdNormalizer, NormalizedUpdate};
