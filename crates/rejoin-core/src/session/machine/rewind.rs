//! A rewind: refused while a turn runs, otherwise in the log first, and answered then.

use crate::record::RewindTarget;
use crate::session::effect::{Batch, Effect};
use crate::session::outcome::{Done, Refusal};

use super::{Machine, Purpose};

impl<R> Machine<R> {
    /// Lets the conversation go on from an earlier place, unless a turn runs.
    pub(super) fn rewind(
        &mut self,
        reply: R,
        target: RewindTarget,
        client: Option<String>,
    ) -> Batch<R> {
        if !self.lifecycle.is_open() {
            return vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))];
        }
        if self.has_prompts() || !self.phase().is_idle() {
            return vec![Effect::Answer(
                reply,
                Err(Refusal::PromptInProgress { client: None }),
            )];
        }
        self.purpose = Purpose::Log;
        let done = match &target {
            RewindTarget::Behind(id) => Done::RewoundTo(id.clone()),
            _ => Done::Rewound,
        };
        vec![
            Effect::Claim,
            Effect::Rewind { target, client },
            Effect::Answer(reply, Ok(done)),
        ]
    }
}
