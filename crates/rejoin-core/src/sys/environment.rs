//! The environment of the process.

/// Keeps other processes of this user, but for those of root, from reading the environment and the memory
/// of this one, where the system can do that.
pub fn keep_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::debug!(%error, "other processes can read the environment of this one");
    }
}

/// The value of an environment variable; none if it is not set, empty, or not text.
pub fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    let value = std::env::var(name);
    value.ok().filter(|value| !value.is_empty())
}
