//! Reads session ids from the command line.

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::sys::SessionId;

/// Reads an id from the command line.
pub(super) fn id(text: &str) -> Result<SessionId, Failure> {
    SessionId::parse(text).ok_or_else(|| {
        Failure::with_code(NOT_FOUND, format!("there is no session {text:?}"))
            .hint("`rejoin sessions list` shows the sessions there are")
    })
}
