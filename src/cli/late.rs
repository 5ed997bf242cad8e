//! Options that an environment variable may set for all commands: what it says is checked when it is
//! used, so that a wrong one does not disturb the others.

use std::convert::Infallible;
use std::str::FromStr;

use super::exit::Failure;

/// The value of an option, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Late<T>(Result<T, String>);

impl<T: FromStr<Err = String>> FromStr for Late<T> {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl<T> Late<T> {
    /// The value; `names` are the option and the variable.
    pub(super) fn get(&self, names: &str) -> Result<&T, Failure> {
        let wrong = |error: &String| Failure::usage(format!("{names}: {error}"));
        self.0.as_ref().map_err(wrong)
    }
}
