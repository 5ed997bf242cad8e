//! What both planes of a connection share.

use super::answers::Answers;
use super::results::Results;
use super::stash::Stash;
use super::writer::Writer;

/// One connection's shared parts.
#[derive(Debug)]
pub struct Wire {
    /// Where lines to the client go.
    pub writer: Writer,
    /// Parameters on their way to their handlers.
    pub stash: Stash,
    /// Results on their way to the writer.
    pub results: Results,
    /// Who waits for which answer.
    pub answers: Answers,
}
