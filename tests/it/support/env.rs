//! What the environment says about how tests are to run.

/// Whether tests that take minutes shall run in full.
pub(crate) fn slow() -> bool {
    variable("RUN_SLOW_TESTS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether what fixtures expect shall become what came.
pub(crate) fn update_fixtures() -> bool {
    variable("UPDATE_FIXTURES").is_some_and(|value| value == "1")
}

/// A number given in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    let value = variable(name)?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests have no command line of their own"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
