//! Protocol version 2: the methods that differ from version 1. The others are served by the files
//! of that.

mod answers;
mod close;
mod dispatch;
mod initialize;
mod list;
mod resume;
mod set_config_option;

pub use answers::encode;
pub use dispatch::{notification, request};
