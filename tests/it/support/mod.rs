//! What tests share.

pub(crate) mod schema;
