//! Reads updates of version 2 of the protocol as records of version 1, so that whatever reads a log
//! needs to know one form only.

use std::collections::BTreeMap;
use std::ops::Range;

use super::subagents::{only_update, parse, payload};
use super::{Kind, Record};
use crate::json::{self, Splice};
use crate::protocol::UpdateKind;
use crate::protocol::v1::Conversion;

/// The records of one log in the form of version 1.
#[derive(Debug, Default)]
pub struct InVersion1 {
    with_originals: bool,
    session: Conversion,
    subagents: BTreeMap<String, Conversion>,
    /// The subagent of the last record that was converted: no other holds anything.
    last: Option<String>,
    /// Whether any record was converted; time and number of the last one that was.
    is_used: bool,
    at: String,
    seq: u64,
}

/// Takes records.
type Take<'t> = &'t mut dyn FnMut(&Record<'_>);

impl InVersion1 {
    /// For the records of a log, from its start or from any other record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a log, without loss: what changes keeps its original in a note, as
    /// [`Conversion::with_originals`] says.
    pub fn with_originals() -> Self {
        Self {
            with_originals: true,
            session: Conversion::with_originals(),
            ..Self::default()
        }
    }

    /// Whether records of this kind have the form of version 2.
    pub const fn converts(kind: Kind) -> bool {
        matches!(kind, Kind::UpdateV2 | Kind::SubagentV2 | Kind::TransientV2)
    }

    /// Whether the next record, of this kind, can be used as it is.
    pub fn passes(&self, kind: Kind) -> bool {
        !self.is_used && !Self::converts(kind)
    }

    /// Takes the next record and calls `take` with each record of version 1. A record that has that
    /// form already is the same.
    pub fn record(&mut self, record: &Record<'_>, take: Take<'_>) {
        if !Self::converts(record.kind) {
            if self.is_used {
                self.flush(None, take);
                if record.kind == Kind::End {
                    self.session.end_of_turn();
                    self.subagents
                        .values_mut()
                        .for_each(Conversion::end_of_turn);
                }
            }
            return take(record);
        }
        self.is_used = true;
        record.at.clone_into(&mut self.at);
        self.seq = record.seq;
        match record.kind {
            Kind::UpdateV2 => self.update(record, take),
            Kind::SubagentV2 => self.subagent(record, take),
            _ => {
                let kind = Kind::Transient;
                take(&Record { kind, ..*record });
            }
        }
    }

    /// Hands over what was held until more is known, since the log ends.
    pub fn finish(&mut self, take: Take<'_>) {
        self.flush(None, take);
        let (seq, at) = (self.seq, self.at.as_str());
        self.session
            .finish(&mut |update| take(&of(seq, at, update)));
        for (session, conversion) in &mut self.subagents {
            conversion.finish(&mut |update| take_of(seq, at, session, update, take));
        }
    }

    /// Hands over what was held, except that of one session: a subagent's, or an empty name for the
    /// user's own.
    fn flush(&mut self, except: Option<&str>, take: Take<'_>) {
        let (seq, at) = (self.seq, self.at.as_str());
        if except != Some("") {
            self.session.flush(&mut |update| take(&of(seq, at, update)));
        }
        let last = self.last.take_if(|last| except != Some(last));
        if let Some(session) = last
            && let Some(conversion) = self.subagents.get_mut(&session)
        {
            conversion.flush(&mut |update| take_of(seq, at, &session, update, take));
        }
    }

    fn update(&mut self, record: &Record<'_>, take: Take<'_>) {
        let params = record.payload;
        let has_more = params.strip_prefix('{').and_then(only_update).is_none();
        self.flush((!has_more).then_some(""), take);
        let Some(update) = json::member(params.as_bytes(), 0, "update") else {
            return;
        };
        // The first resulting update keeps the notification's other members.
        let mut around = has_more.then_some(update.clone());
        let (seq, at) = (record.seq, record.at);
        let mut put = |shown: &str| {
            let record = of(seq, at, shown);
            let Some(place) = around.take() else {
                return take(&record);
            };
            let kind = match record.kind {
                Kind::Update => Kind::UpdateParams,
                kind => kind,
            };
            take(&record_of(seq, at, kind, &spliced(params, place, shown)));
        };
        self.session.update(&params[update], &mut put);
        if has_more {
            self.session.finish(&mut put);
        }
    }

    fn subagent(&mut self, record: &Record<'_>, take: Take<'_>) {
        let Some((session, params)) = parse(record.payload) else {
            return;
        };
        let has_more = only_update(params).is_none();
        self.flush((!has_more).then_some(&session), take);
        let with_originals = self.with_originals;
        let new = || {
            if with_originals {
                Conversion::with_originals()
            } else {
                Conversion::new()
            }
        };
        let conversion = self.subagents.entry(session.into_owned());
        let session = conversion.key().clone();
        self.last = Some(session.clone());
        let conversion = conversion.or_insert_with(new);
        let params = format!("{{{params}");
        let Some(update) = json::member(params.as_bytes(), 0, "update") else {
            return;
        };
        let mut around = has_more.then_some(update.clone());
        let (seq, at) = (record.seq, record.at);
        let mut put = |shown: &str| match around.take() {
            None => take_of(seq, at, &session, shown, take),
            Some(place) => {
                let payload = payload(&session, &spliced(&params, place, shown));
                take(&record_of(seq, at, Kind::Subagent, &payload));
            }
        };
        conversion.update(&params[update], &mut put);
        if has_more {
            conversion.finish(&mut put);
        }
    }
}

/// Parameters with another update in the place of their own.
fn spliced(params: &str, place: Range<usize>, update: &str) -> String {
    let mut splice = Splice::new(params.as_bytes());
    splice.replace(place, update.as_bytes());
    String::from_utf8(splice.into_bytes()).unwrap_or_default()
}

/// The payload of the `info` record that an update of version 2 counts as, if it says how things
/// are now. In the form of version 1.
pub fn snapshot_of(kind: Kind, payload: &str) -> Option<String> {
    /// How nearly all payloads begin.
    const PLAIN: &[u8] = b"{\"update\":{\"sessionUpdate\":\"";
    if kind != Kind::UpdateV2 {
        return None;
    }
    if let Some(rest) = payload.as_bytes().strip_prefix(PLAIN)
        && let Some(end) = memchr::memchr2(b'"', b'\\', rest)
        && rest[end] == b'"'
        && !UpdateKind::of_name(&rest[..end]).is_snapshot()
    {
        return None;
    }
    let update = json::text_member(payload, "update")?;
    if !UpdateKind::of(update.as_bytes()).is_snapshot() {
        return None;
    }
    let mut info = None;
    Conversion::new().update(update, &mut |update| info = Some(update.to_owned()));
    info
}

fn record_of<'a>(seq: u64, at: &'a str, kind: Kind, payload: &'a str) -> Record<'a> {
    Record {
        seq,
        at,
        kind,
        id: None,
        payload,
        parts: None,
    }
}

/// The record of an update of the user's session.
fn of<'a>(seq: u64, at: &'a str, update: &'a str) -> Record<'a> {
    let class = UpdateKind::of(update.as_bytes()).class();
    record_of(seq, at, Kind::of_update(class), update)
}

/// Hands over the record of an update of a subagent's session.
fn take_of(seq: u64, at: &str, session: &str, update: &str, take: Take<'_>) {
    let payload = payload(session, &format!("{{\"update\":{update}}}"));
    take(&record_of(seq, at, Kind::Subagent, &payload));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(records: &[(Kind, &str)]) -> Vec<(Kind, String)> {
        let (mut converted, mut found) = (InVersion1::new(), Vec::new());
        let take: Take<'_> = &mut |record| found.push((record.kind, record.payload.to_owned()));
        for (kind, payload) in records {
            converted.record(&record_of(0, "", *kind, payload), take);
        }
        converted.finish(take);
        found
    }

    #[test]
    fn other_members_of_a_notification_stay_with_their_update() {
        let part = r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"1"}}}"#;
        let held = format!(r#"{{"update":{part}}}"#);
        let more = format!(r#"{{"update":{part},"_meta":{{"a":1.0}}}}"#);
        let inside = format!(r#"{{"sessionId":"t",{}"#, &more[1..]);
        let found = converted(&[
            (Kind::UpdateV2, &held),
            (Kind::UpdateV2, &more),
            (Kind::SubagentV2, &inside),
        ]);
        let item = r#"{"type":"content","content":{"type":"text","text":"1"}}"#;
        let begun = |content: &str| {
            format!(
                r#"{{"sessionUpdate":"tool_call","title":"Tool call","toolCallId":"c","content":[{content}]}}"#
            )
        };
        let later = format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{item},{item}]}}"#
        );
        let around = |update: &str| format!(r#""update":{update},"_meta":{{"a":1.0}}}}"#);
        let expected = [
            (Kind::Update, begun(item)),
            (Kind::UpdateParams, format!("{{{}", around(&later))),
            (
                Kind::Subagent,
                format!(r#"{{"sessionId":"t",{}"#, around(&begun(item))),
            ),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_updates_of_the_present_state_are_snapshots() {
        let of = |update: &str| {
            let payload = format!(r#"{{"update":{update},"_meta":{{}}}}"#);
            snapshot_of(Kind::UpdateV2, &payload)
        };
        let title = r#"{"title":"t","sessionUpdate":"session_info_update"}"#;
        assert_eq!(of(title).as_deref(), Some(title));
        let usage = r#"{"sessionUpdate":"usage\u005fupdate","used":1}"#;
        assert_eq!(of(usage).as_deref(), Some(usage));
        for other in [
            r#"{"sessionUpdate":"notice","title":"t"}"#,
            r#"{"sessionUpdate":"plan_removed"}"#,
            "7",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(snapshot_of(Kind::Update, title), None);
    }
}
