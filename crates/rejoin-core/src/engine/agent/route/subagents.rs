//! Updates of subagents, and where updates refer to the session itself.

use crate::engine::Block;
use crate::protocol::UpdateKind;
use crate::record::payload::parameters;
use crate::record::{Kind, references, subagents};
use crate::sys::lock;

use super::{AGENT_ENDED, RouteMode, SessionRoute};
use crate::engine::agent::parse::Payload;

impl SessionRoute {
    /// Replaces the agent's id of the session by the client's in an update, or in the tool call that a
    /// request is about. `None` if it is not there.
    pub(in crate::engine::agent) fn with_client_references(&self, object: &str) -> Option<String> {
        let agent_id = lock(&self.agent_id);
        let names_it = *agent_id != self.name && object.contains(&**agent_id);
        names_it.then(|| {
            references::renamed(object, &|id| (id == *agent_id).then(|| self.name.clone()))
        })?
    }

    /// An update of the session, or of one of its subagents, with the client's id of the session in place
    /// of the agent's. `None` if nothing changes: the update is of a kind that does not refer to sessions,
    /// or does not name this one.
    pub(in crate::engine::agent) fn own_references(
        &self,
        payload: &Payload<'_>,
    ) -> Option<Payload<'static>> {
        let name = payload.fields.name?.body(&payload.text)?;
        let kind = UpdateKind::of_name(name.as_bytes());
        let names_sessions = kind.is_call() || !kind.session_members().is_empty();
        // Subagents have ids of their own.
        if !names_sessions || kind == UpdateKind::Subagent {
            return None;
        }
        let update = self.with_client_references(payload.update())?;
        let (text, whole) = (&payload.text, payload.fields.whole);
        let text = [&text[..whole.start], &update, &text[whole.end..]].concat();
        Payload::read(payload.form, text.into())
    }

    /// Handles an update of a subagent's session; what is to be logged and sent goes into `block`.
    pub(in crate::engine::agent) fn subagent_update(
        &self,
        session: &str,
        payload: &Payload<'_>,
        block: &mut Block,
    ) {
        if !payload.has_shape() {
            tracing::debug!("ignoring an update that the protocol does not define");
            return;
        }
        if payload.ends_replay() {
            return;
        }
        let params = payload.params();
        // Where a member is repeated, the last one counts, for readers of the log as well.
        let Some(params) = parameters(&params) else {
            return;
        };
        let kind = if self.is_native {
            Kind::SubagentV2
        } else {
            Kind::Subagent
        };
        let record = subagents::payload(session, &params);
        let mut state = self.lock();
        if state.continuing.contains(session) {
            state.continuing.extend(payload.subagent());
            state.subagents.apply_payload(kind, &record);
            return block.push(kind, &record);
        }
        match &mut state.mode {
            RouteMode::Live => {
                state.updated = true;
                state.subagents.apply_payload(kind, &record);
                block.push(kind, &record);
            }
            RouteMode::Import(import) => import.update(kind, &record),
            RouteMode::Discard(discarded) => discarded.history += 1,
            RouteMode::AfterReplay => {
                tracing::debug!("ignoring an update of a subagent that was already recorded");
            }
        }
        drop(state);
        self.activity.send_modify(|count| *count += 1);
    }

    /// The agent has ended, and its subagents with it: the updates that say so.
    pub(in crate::engine::agent) fn end_subagents(&self) -> Block {
        let mut block = Block::default();
        for (kind, payload) in self.lock().subagents.close_all(AGENT_ENDED) {
            block.push(kind, &payload);
        }
        block
    }
}
