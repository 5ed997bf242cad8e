//! Which subagents of a session are at work.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::open_calls::OpenCalls;
use super::subagents::{
    SubagentForm, activity, is_active, may_be_about_one, named, parse, payload,
};
use super::{Kind, Record};
use crate::json;
use crate::protocol::{Id, IdSet, UpdateKind};

/// How many subagents at rest are known, at least: those that were announced last.
const KEPT: usize = 256;

/// Tracks the subagents that are at work, as far as is known, and their open tool calls. Of those at
/// rest it knows only some, so that its size depends on those at work.
#[derive(Clone, Debug, Default)]
pub struct OpenSubagents {
    /// By their sessions.
    known: BTreeMap<String, OpenSubagent>,
    /// How many were announced, counting one again that was forgotten.
    announced: usize,
    /// The sessions of those that were at rest and are not known since.
    forgotten: IdSet,
    /// With more than these, some are forgotten.
    limit: usize,
}

#[derive(Clone, Debug)]
struct OpenSubagent {
    /// How many were announced before it, among them the one that started it.
    place: usize,
    /// The subagent that started it. `None` for the user's session.
    parent: Option<String>,
    form: SubagentForm,
    is_active: bool,
    calls: OpenCalls,
}

impl OpenSubagent {
    fn is_at_rest(&self) -> bool {
        !self.is_active && self.calls.is_empty()
    }
}

impl OpenSubagents {
    /// Applies the next record of a log.
    pub fn apply(&mut self, record: &Record<'_>) {
        if may_be_about_one(record) {
            self.apply_payload(record.kind, record.payload);
        }
    }

    /// Applies the payload of a record of this kind.
    pub fn apply_payload(&mut self, kind: Kind, payload: &str) {
        match kind {
            Kind::Update => self.apply_announcement(None, payload),
            Kind::UpdateParams | Kind::UpdateV2 => {
                let update = json::text_member(payload, "update");
                self.apply_announcement(None, update.unwrap_or_default());
            }
            Kind::Subagent | Kind::SubagentV2 if !self.known.is_empty() => {
                self.apply_update(payload);
            }
            _ => {}
        }
    }

    fn apply_update(&mut self, payload: &str) {
        let Some((session, _)) = parse(payload) else {
            return;
        };
        if !self.known.contains_key(&*session) {
            if !self.forgotten.has(Id::of(session.as_bytes())) {
                return;
            }
            // Only subagents in the form of the protocol go on by themselves.
            self.add(session.clone().into_owned(), None, SubagentForm::Stable);
        }
        let Some(subagent) = self.known.get_mut(&*session) else {
            return;
        };
        subagent.calls.update(payload);
        let update = json::text_member(payload, "update").unwrap_or_default();
        if UpdateKind::of(update.as_bytes()) == UpdateKind::SessionState {
            let state = json::string_member(update, "state");
            subagent.is_active = state.is_some_and(|state| is_active(SubagentForm::Stable, &state));
        }
        if !subagent.is_active {
            subagent.calls.forget();
        }
        self.apply_announcement(Some(&session), update);
    }

    /// Applies an update of the session `parent`, which may be about one of its subagents.
    fn apply_announcement(&mut self, parent: Option<&str>, update: &str) {
        let Some((session, form)) = named(update) else {
            return;
        };
        if !self.known.contains_key(&session) {
            self.add(session.clone(), parent, form);
        }
        if let Some(subagent) = self.known.get_mut(&session) {
            subagent.is_active = activity(form, update).unwrap_or(subagent.is_active);
            if !subagent.is_active {
                subagent.calls.forget();
            }
        }
    }

    fn add(&mut self, session: String, parent: Option<&str>, form: SubagentForm) {
        if self.known.len() >= self.limit.max(2 * KEPT) {
            self.forget_some();
        }
        let subagent = OpenSubagent {
            place: self.announced,
            parent: parent.map(str::to_owned),
            form,
            is_active: form == SubagentForm::Draft,
            calls: OpenCalls::default(),
        };
        self.announced += 1;
        self.known.insert(session, subagent);
    }

    /// Forgets subagents at rest. Those that started one at work stay: it must end before them, also
    /// when they have gone on.
    fn forget_some(&mut self) {
        let mut needed = BTreeSet::new();
        for subagent in self
            .known
            .values()
            .filter(|subagent| !subagent.is_at_rest())
        {
            let mut parent = subagent.parent.as_deref();
            while let Some(session) = parent.filter(|session| needed.insert(session.to_string())) {
                parent = self
                    .known
                    .get(session)
                    .and_then(|known| known.parent.as_deref());
            }
        }
        let is_kept = |(session, subagent): (&String, &OpenSubagent)| {
            !subagent.is_at_rest() || needed.contains(session)
        };
        let known = self.known.iter().filter(|one| !is_kept(*one));
        let mut places: Vec<_> = known.map(|(_, subagent)| subagent.place).collect();
        places.sort_unstable();
        let first = places
            .iter()
            .rev()
            .nth(KEPT - 1)
            .copied()
            .unwrap_or_default();
        let forgotten = &mut self.forgotten;
        self.known.retain(|session, subagent| {
            let stays = subagent.place >= first || is_kept((session, subagent));
            if !stays {
                forgotten.add(Id::of(session.as_bytes()));
            }
            stays
        });
        self.limit = 2 * self.known.len();
    }

    /// Whether no subagent is at work, and none has an open tool call.
    pub fn is_empty(&self) -> bool {
        self.known.values().all(OpenSubagent::is_at_rest)
    }

    /// Ends what subagents were doing, since nothing more will be known of it: their open tool calls
    /// as failed, with `message` as their content, and then the state of those at work as unknown.
    /// Subagents come before the ones that started them. Returns the kinds and payloads of the
    /// records that say so.
    pub fn close_all(&mut self, message: &str) -> Vec<(Kind, String)> {
        let mut records = Vec::new();
        let mut known: Vec<_> = self.known.iter_mut().collect();
        known.sort_unstable_by_key(|(_, subagent)| Reverse(subagent.place));
        for (session, subagent) in known {
            for update in subagent.calls.close_all(message) {
                records.push(update_of(Some(session), update));
            }
            if std::mem::take(&mut subagent.is_active) {
                let lost = subagent.form.lost(session);
                records.push(update_of(subagent.parent.as_deref(), lost));
            }
        }
        records
    }
}

/// The record of an update of the user's session, or of a subagent.
fn update_of(subagent: Option<&str>, update: String) -> (Kind, String) {
    match subagent {
        None => (Kind::Update, update),
        Some(session) => (
            Kind::Subagent,
            payload(session, &format!("{{\"update\":{update}}}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::subagents::tests::{about, draft};
    use super::*;

    fn within(session: &str, update: &str) -> String {
        payload(session, &format!("{{\"update\":{update}}}"))
    }

    fn kinds_and_payloads(records: &[(Kind, String)]) -> Vec<(Kind, &str)> {
        records.iter().map(|(kind, end)| (*kind, &**end)).collect()
    }

    #[test]
    fn what_a_crash_left_at_work_is_unknown_descendants_first() {
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &about("idle", "running"));
        open.apply_payload(
            Kind::Update,
            r#"{"sessionUpdate":"subagent_update","sessionId":"quiet"}"#,
        );
        open.apply_payload(Kind::Update, &about("a", "requires_action"));
        open.apply_payload(Kind::Subagent, &within("a", &about("b", "running")));
        open.apply_payload(
            Kind::Subagent,
            &within("b", r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#),
        );
        let params = format!(r#"{{"update":{},"_meta":{{}}}}"#, about("idle", "idle"));
        open.apply_payload(Kind::UpdateParams, &params);
        // The subagent "x" was never announced.
        open.apply_payload(Kind::Subagent, &within("x", &about("y", "running")));

        assert!(!open.is_empty());
        let records = open.close_all("gone");
        assert!(open.is_empty());
        let call = records[0].1.clone();
        assert!(call.starts_with(r#"{"sessionId":"b","update":{"#), "{call}");
        assert!(call.contains(r#""toolCallId":"t""#) && call.contains("gone"));
        assert_eq!(
            kinds_and_payloads(&records[1..]),
            [
                (Kind::Subagent, &*within("a", &about("b", "unknown"))),
                (Kind::Update, &*about("a", "unknown")),
            ]
        );
        assert_eq!(open.close_all("again"), []);
        // A subagent may be used again.
        open.apply_payload(Kind::Update, &about("idle", "running"));
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*about("idle", "unknown"))]
        );
    }

    #[test]
    fn a_subagent_may_report_its_state_itself() {
        let report = |state: &str| {
            let update = format!(r#"{{"state":"{state}","sessionUpdate":"state_update"}}"#);
            within("a", &update)
        };
        let mut open = OpenSubagents::default();
        let about_it = r#"{"update":{"sessionUpdate":"subagent_update","sessionId":"a"}}"#;
        open.apply_payload(Kind::UpdateV2, about_it);
        assert!(open.is_empty());
        for (state, is_active) in [
            ("running", true),
            ("idle", false),
            ("requires_action", true),
            ("unknown", false),
            ("_own", true),
        ] {
            open.apply_payload(Kind::SubagentV2, &report(state));
            assert_eq!(open.is_empty(), !is_active, "{state}");
        }
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*about("a", "unknown"))]
        );
    }

    #[test]
    fn the_calls_of_one_at_rest_are_forgotten() {
        let call = |members: &str| {
            let name = "tool_call_update";
            let update = format!(r#"{{"sessionUpdate":"{name}","toolCallId":"t"{members}}}"#);
            within("a", &update)
        };
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &about("a", "running"));
        for (members, is_open) in [
            (r#","status":"completed""#, false),
            // The call is known to have ended before.
            (r#","title":"T""#, false),
            (r#","status":"in_progress""#, true),
            (r#","title":"T""#, true),
            (r#","status":"failed""#, false),
        ] {
            open.apply_payload(Kind::Update, &about("a", "idle"));
            open.apply_payload(Kind::Subagent, &call(members));
            assert_eq!(open.is_empty(), !is_open, "{members}");
        }
        assert!(!open.known["a"].calls.knows("t"));
    }

    #[test]
    fn few_of_those_at_rest_are_known() {
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &about("first", "running"));
        open.apply_payload(Kind::Subagent, &within("first", &about("deep", "running")));
        open.apply_payload(Kind::Subagent, &within("deep", &about("deeper", "running")));
        open.apply_payload(Kind::Update, &about("first", "idle"));
        open.apply_payload(Kind::Subagent, &within("first", &about("deep", "idle")));
        for count in 0..10 * KEPT {
            let session = format!("s{count}");
            open.apply_payload(Kind::Update, &about(&session, "running"));
            open.apply_payload(Kind::Update, &about(&session, "idle"));
        }
        assert!(open.known.len() <= 2 * KEPT);
        // Forgotten subagents go on, and end together with the subagents that they started earlier.
        let report = |session: &str| {
            let update = r#"{"sessionUpdate":"state_update","state":"running"}"#;
            within(session, update)
        };
        for session in ["s1", "never", "first"] {
            open.apply_payload(Kind::SubagentV2, &report(session));
        }
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [
                (Kind::Update, &*about("s1", "unknown")),
                (
                    Kind::Subagent,
                    &*within("deep", &about("deeper", "unknown"))
                ),
                (Kind::Update, &*about("first", "unknown")),
            ]
        );
        // As many are known as are at work.
        for count in 0..10 * KEPT {
            open.apply_payload(Kind::Update, &about(&format!("s{count}"), "running"));
        }
        assert_eq!(open.close_all("").len(), 10 * KEPT);
    }

    #[test]
    fn the_draft_ends_a_subagent_once() {
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &draft("done", "running"));
        open.apply_payload(Kind::Update, &draft("done", "completed"));
        open.apply_payload(
            Kind::Update,
            r#"{"sessionUpdate":"subagent_update","subagentSessionId":"a"}"#,
        );
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*draft("a", "disconnected"))]
        );
    }
}
