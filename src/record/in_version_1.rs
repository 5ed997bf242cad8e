//! Reads updates of version 2 of the protocol as records of version 1, so that whatever reads a log
//! needs to know one form only.

use std::collections::BTreeMap;

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
    /// Whether a record was converted, and the time and the number of the last one.
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

    /// The same, but nothing is lost. See [`Conversion::with_originals`].
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

    /// Whether a record of this kind, as the next one, is the same in version 1 and nothing is held.
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
        for (session, conversion) in &mut self.subagents {
            if except != Some(session) {
                conversion.flush(&mut |update| take_of(seq, at, session, update, take));
            }
        }
    }

    fn update(&mut self, record: &Record<'_>, take: Take<'_>) {
        self.flush(Some(""), take);
        let params = record.payload;
        let Some(update) = json::member(params.as_bytes(), 0, "update") else {
            return;
        };
        let has_more = params.strip_prefix('{').and_then(only_update).is_none();
        // Other members of the notification are about the first update that it becomes.
        let mut around = has_more.then_some(update.clone());
        let (seq, at) = (record.seq, record.at);
        let mut put = |shown: &str| {
            let Some(place) = around.take() else {
                return take(&of(seq, at, shown));
            };
            let mut splice = Splice::new(params.as_bytes());
            splice.replace(place, shown.as_bytes());
            let params = String::from_utf8(splice.into_bytes()).unwrap_or_default();
            let kind = match of(seq, at, shown).kind {
                Kind::Update => Kind::UpdateParams,
                kind => kind,
            };
            take(&record_of(seq, at, kind, &params));
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
        self.flush(Some(&session), take);
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
        let conversion = conversion.or_insert_with(new);
        let params = format!("{{{params}");
        let update = json::text_member(&params, "update").unwrap_or_default();
        let (seq, at) = (record.seq, record.at);
        conversion.update(update, &mut |update| {
            take_of(seq, at, &session, update, take);
        });
    }
}

/// The payload of the `info` record that an update of version 2 counts as, if it says how things
/// are now. In the form of version 1.
pub fn snapshot_of(kind: Kind, payload: &str) -> Option<String> {
    /// How nearly all payloads begin.
    const PLAIN: &str = "{\"update\":{\"sessionUpdate\":\"";
    if kind != Kind::UpdateV2 {
        return None;
    }
    let is_snapshot = |name: &[u8]| UpdateKind::of_name(name).snapshot().is_some();
    if let Some((name, _)) = payload
        .strip_prefix(PLAIN)
        .and_then(|rest| rest.split_once('"'))
        && !name.contains('\\')
        && !is_snapshot(name.as_bytes())
    {
        return None;
    }
    let update = json::text_member(payload, "update")?;
    if !is_snapshot(UpdateKind::of(update.as_bytes()).name().as_bytes()) {
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
    let kind = match UpdateKind::of(update.as_bytes()) {
        UpdateKind::Notice => Kind::Transient,
        kind if kind.snapshot().is_some() => Kind::Info,
        _ => Kind::Update,
    };
    record_of(seq, at, kind, update)
}

/// Hands over the record of an update of a subagent's session.
fn take_of(seq: u64, at: &str, session: &str, update: &str, take: Take<'_>) {
    let payload = payload(session, &format!("{{\"update\":{update}}}"));
    take(&record_of(seq, at, Kind::Subagent, &payload));
}
