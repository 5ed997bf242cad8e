//! The environment of the process.

/// The value of an environment variable; none if it is not set, empty, or not text.
pub fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    let value = std::env::var(name);
    value.ok().filter(|value| !value.is_empty())
}
