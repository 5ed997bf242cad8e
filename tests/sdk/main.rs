//! The protocol's own SDK, its clients and its conductor's role, against the program. They are a package
//! of their own, since the SDK takes one version of the schema only, and the other tests the newest.
//!
//! `cargo build --examples --bins`, then in this folder
//! `cargo test --target-dir ../../target`: the program and the scripted agent are found there.

#[cfg(test)]
#[path = "../it/support"]
#[expect(dead_code, reason = "other tests need more of it")]
mod support {
    pub(crate) mod agent;
    pub(crate) mod conductor;
    pub(crate) mod fixture;
    pub(crate) mod json;
    pub(crate) mod pattern;
    pub(crate) mod process;
    pub(crate) mod systems;
    pub(crate) mod verbs;
    pub(crate) mod wrapped;
}
#[cfg(test)]
mod client;
#[cfg(test)]
mod conductor;
