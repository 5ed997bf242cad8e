//! A conversation as text for a model: a briefing on all of it within a budget, or some of its turns.
//!
//! The text says who said what, and that all of it is data.

mod builder;
mod call;
mod finder;
mod lines;
mod layout;
mod questions;
mod text;
mod steps;
mod turn;
mod window;

pub use builder::{Briefing, BriefingBuilder};
pub use finder::Finder;
pub use layout::OPENINGS;
pub use window::{BriefingPosition, BriefingWindow, ShownTurns};
