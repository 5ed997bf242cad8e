//! What tests share.

pub(crate) mod env;
pub(crate) mod schema;
pub(crate) mod sessions;
