//! What was done, as version 2 answers it.

use serde_json::Value;

use crate::server::v1;
use crate::session::Answer;
use crate::wire::Raws;

/// The result of what was done to the session that the client knows by this name.
pub fn encode(name: &str, answer: Answer, raws: &Raws) -> Value {
    v1::encode(name, answer, raws)
}
