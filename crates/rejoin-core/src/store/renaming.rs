//! Gives the subagents of a fork ids of their own, wherever its records name them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::json::{self, Splice};
use crate::protocol::UpdateKind;
use crate::record::{Header, Kind, Record, references, subagents};
use crate::sys::SessionId;

/// The ids of sessions in a copy.
#[derive(Debug)]
pub(super) struct Renaming {
    /// The id by which clients know the source.
    source: String,
    copy: SessionId,
    /// The subagents that the copied records have announced, by their ids in the source.
    announced: HashSet<String>,
}

impl Renaming {
    /// For a copy of the session with this header.
    pub(super) fn new(source: &Header, copy: &SessionId) -> Self {
        let known_as = source.known_as.clone();
        Self {
            source: known_as.unwrap_or_else(|| source.session_id.clone()),
            copy: copy.clone(),
            announced: HashSet::new(),
        }
    }

    /// The payload of the next record, with the ids of the copy.
    pub(super) fn payload<'a>(&mut self, record: &Record<'a>) -> Cow<'a, str> {
        let payload = record.payload;
        let kind = record.parts.map(|parts| parts.kind);
        if matches!(kind, Some(UpdateKind::Chunk(_) | UpdateKind::Plan))
            || self.announced.is_empty() && !announces(record)
        {
            return payload.into();
        }
        match record.kind {
            Kind::Update => self.update(payload),
            Kind::UpdateParams | Kind::UpdateV2 => self.params(payload),
            Kind::Subagent | Kind::SubagentV2 => self.subagent(payload),
            Kind::Ask => self.ask(payload),
            _ => payload.into(),
        }
    }

    fn update<'a>(&mut self, update: &'a str) -> Cow<'a, str> {
        self.announced.extend(subagents::announced(update));
        let renamed = references::renamed(update, &|id| self.renamed(id));
        renamed.map_or(update.into(), Cow::Owned)
    }

    /// The parameters of a notification, with the ids of the copy in their update.
    fn params<'a>(&mut self, params: &'a str) -> Cow<'a, str> {
        let start = json::skip_space(params.as_bytes(), 0);
        let Some(at) = json::member(params.as_bytes(), start, "update") else {
            return params.into();
        };
        match self.update(&params[at.clone()]) {
            Cow::Borrowed(_) => params.into(),
            Cow::Owned(update) => [&params[..at.start], &update, &params[at.end..]]
                .concat()
                .into(),
        }
    }

    fn subagent<'a>(&mut self, payload: &'a str) -> Cow<'a, str> {
        let Some((session, params)) = subagents::parse(payload) else {
            return payload.into();
        };
        match self.renamed(&session) {
            None => payload.into(),
            Some(session) => {
                let params = ["{", params].concat();
                subagents::payload(&session, &self.params(&params)).into()
            }
        }
    }

    /// The payload of a request to the client, which a subagent may have made, with the ids of the
    /// copy.
    fn ask<'a>(&self, payload: &'a str) -> Cow<'a, str> {
        let text = payload.as_bytes();
        let mut splice = Splice::new(text);
        if let Some(params) = json::member(text, 0, "params") {
            if let Some(session) = json::member(text, params.start, "sessionId")
                && let Some(id) = json::string_member(&payload[params.clone()], "sessionId")
                && let Some(renamed) = self.renamed(&id)
            {
                splice.replace(session, json::quoted(&renamed).into_bytes());
            }
            let subject = json::member(text, params.start, "subject").unwrap_or(params);
            if let Some(call) = json::member(text, subject.start, "toolCall")
                && let Some(renamed) =
                    references::renamed(&payload[call.clone()], &|id| self.renamed(id))
            {
                splice.replace(call, renamed.into_bytes());
            }
        }
        String::from_utf8(splice.into_bytes()).map_or(payload.into(), Cow::Owned)
    }

    /// The id in the copy of a session that is a part of it.
    fn renamed(&self, id: &str) -> Option<String> {
        if id == self.source {
            return Some(self.copy.to_string());
        }
        let of_subagent = || SessionId::of_foreign(self.copy.as_str(), id).to_string();
        self.announced.contains(id).then(of_subagent)
    }
}

/// Whether a record may announce a subagent of the session itself.
fn announces(record: &Record<'_>) -> bool {
    record.kind == Kind::UpdateV2 || subagents::may_be_about_one(record)
}
