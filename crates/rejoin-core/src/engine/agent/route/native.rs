//! Takes the updates of an agent of version 2, which are recorded and sent as they are.

use crate::engine::Block;
use crate::engine::agent::ids::Echo;
use crate::engine::agent::parse::Payload;
use crate::json::text_member;
use crate::protocol::{UpdateClass, UpdateKind};
use crate::record::Kind;

use super::work::{SentTurn, StateReport, is_of_user};
use super::{RouteMode, RouteState, SessionRoute, name_of};

impl SessionRoute {
    /// A prompt is being sent to an agent of version 2.
    pub(in crate::engine::agent) fn turn_sent(
        &self,
        sent: SentTurn,
        prompt: &str,
        context: Option<&str>,
    ) {
        self.lock().work.begins(sent, Echo::new(prompt, context));
    }

    /// The agent has responded to the prompt with this result.
    pub(in crate::engine::agent) fn turn_accepted(
        &self,
        message_id: &str,
        result: &str,
    ) -> Option<StateReport> {
        self.lock().work.accepted(message_id, result)
    }

    /// The agent has responded to the prompt with an error.
    pub(in crate::engine::agent) fn turn_refused(&self, message_id: &str) {
        self.lock().work.refused(message_id);
    }

    /// The turn of this message is over, however it has ended.
    pub(in crate::engine::agent) fn forget_turn(&self, message_id: &str) {
        self.lock().work.forget(message_id);
    }

    /// Takes an update about the agent's state. `None` if it is not news: the agent is opening the
    /// session.
    pub(in crate::engine::agent) fn report(&self, payload: &Payload<'_>) -> Option<StateReport> {
        let mut state = self.lock();
        let report = state.work.report(payload);
        match state.mode {
            RouteMode::Live | RouteMode::AfterReplay => Some(report),
            RouteMode::Discard(_) | RouteMode::Import(_) => {
                drop(state);
                self.activity.send_modify(|count| *count += 1);
                None
            }
        }
    }

    /// A report that is kept, and comes before the update that is taken next.
    pub(in crate::engine::agent) fn earlier_report(&self) -> Option<StateReport> {
        self.lock().work.earlier()
    }

    /// Whether the last report said that the agent is working.
    pub(in crate::engine::agent) fn is_busy(&self) -> bool {
        self.lock().work.is_busy
    }

    /// The kind of the records of its snapshots.
    pub(in crate::engine::agent) fn snapshot_kind(&self) -> Kind {
        if self.is_native {
            Kind::UpdateV2
        } else {
            Kind::Info
        }
    }

    /// The payload of such a record with this update.
    pub(in crate::engine::agent) fn payload(&self, update: String) -> String {
        if self.is_native {
            format!("{{\"update\":{update}}}")
        } else {
            update
        }
    }

    /// Handles an update; what is to be logged and sent goes into `block`.
    pub(super) fn native_update(&self, payload: &Payload<'_>, block: &mut Block) {
        let name = payload.name().unwrap_or_default();
        let kind = UpdateKind::of_name(name.as_bytes());
        let mut state = self.lock();
        let RouteState {
            mode,
            normalizer,
            work,
            snapshots,
            titles,
            prompted,
            updated,
            subagents,
            ..
        } = &mut *state;
        let is_live = matches!(mode, RouteMode::Live | RouteMode::AfterReplay);
        let class = kind.class();
        let is_snapshot = class == UpdateClass::Snapshot;
        if is_live && !is_snapshot {
            if work.repeats_prompt(kind, payload.update()) {
                return;
            }
            *updated = true;
            let content = is_of_user(kind)
                .then(|| text_member(payload.update(), "content"))
                .flatten();
            let record = match class {
                UpdateClass::Event => Kind::TransientV2,
                _ if content.is_some_and(|content| normalizer.repeats_steered(content)) => {
                    Kind::TransientV2
                }
                _ => Kind::UpdateV2,
            };
            if kind == UpdateKind::Subagent {
                subagents.apply_payload(record, &payload.params());
            }
            return block.push_parts(record, &payload.params_in_parts());
        }
        let params = payload.params();
        let shown = if is_snapshot {
            titles.shown(&params)
        } else {
            Some((&*params).into())
        };
        let Some(shown) = shown else { return };
        match mode {
            RouteMode::Live | RouteMode::AfterReplay => {
                *updated = true;
                return self.snapshot(snapshots, *prompted, (Kind::UpdateV2, &shown), block);
            }
            RouteMode::Discard(discarded) if is_snapshot => {
                discarded.keep(name_of(&shown), shown.into_owned());
            }
            RouteMode::Discard(_) if class == UpdateClass::Event => {}
            RouteMode::Discard(discarded) => {
                discarded.words.update(payload);
                discarded.history += 1;
            }
            RouteMode::Import(import) => import.native_update(kind, &shown),
        }
        drop(state);
        self.activity.send_modify(|count| *count += 1);
    }
}
