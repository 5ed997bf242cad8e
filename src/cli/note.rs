//! Messages for users, on stderr.

use super::global::Global;
use super::printable::printable;

/// Prints a message, and what to do about it.
#[expect(
    clippy::print_stderr,
    reason = "the one place where messages are printed"
)]
pub(super) fn note(global: &Global, text: &str, hint: Option<&str>) {
    eprintln!("rejoin: {}", printable(text));
    if let Some(hint) = hint {
        eprintln!("  hint: {}", printable(&global.with_store(hint)));
    }
}
