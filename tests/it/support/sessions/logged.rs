//! What a session's log holds, and whether all that a client saw is in it, in order and to the
//! byte.

use std::collections::BTreeMap;

use rejoin::conversation::Transcript;
use rejoin::record::Kind;
use rejoin::store::{Scan, Store, StoreError};
use rejoin::sys::SessionId;
use serde_json::{Value, json};

use super::client::Answer;
use super::seen::{Asked, Event, Seen};
use super::view;

/// A log as a reader finds it.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Kind and payload of every record that belongs to the conversation.
    pub(crate) records: Vec<(Kind, String)>,
    /// What they show.
    pub(crate) shown: Transcript,
    pub(crate) scan: Scan,
}

impl Logged {
    /// Reads the log of a session.
    pub(crate) fn read(store: &Store, session: &str) -> Result<Self, StoreError> {
        let id = SessionId::parse(session).expect("sessions have valid ids");
        let mut reader = store.read(&id)?;
        let scan = reader.scan()?;
        let mut logged = Self {
            records: Vec::new(),
            shown: Transcript::default(),
            scan,
        };
        while let Some(entry) = reader.next()? {
            let record = entry.record;
            logged.shown.record(&record);
            if matches!(record.kind, Kind::Prompt | Kind::Update | Kind::End) {
                let payload = record.payload.to_owned();
                logged.records.push((record.kind, payload));
            }
        }
        Ok(logged)
    }

    /// The log as a client knows it that has loaded it.
    pub(crate) fn events(&self) -> Vec<Event> {
        let events = self.records.iter().map(|(kind, payload)| match kind {
            Kind::Prompt => Event::Prompt(value(payload)),
            Kind::Update => Event::Update(payload.clone()),
            _ => Event::End(Ok(value(payload))),
        });
        events.collect()
    }

    /// Checks that the log holds all that was seen, in order, and the updates to the byte.
    /// `unsure` says that the last prompt may never have come in.
    ///
    /// Where the disk failed, the client cannot know how much of a turn was kept: a prompt that
    /// got no further may be missing, and what the turn left open may have been closed later.
    pub(crate) fn holds(&self, seen: &[Event], unsure: bool) -> Result<Held, String> {
        let mut held = Held::default();
        let mut records = self.records.as_slice();
        // What comes late if at all, and where it belongs among the events.
        let mut late: Vec<(usize, &String)> = Vec::new();
        let mut seen = seen.iter().enumerate().peekable();
        while let Some((at, event)) = seen.next() {
            if *event == Event::Replayed {
                for (at, update) in late.drain(..).rev() {
                    held.events.insert(at, Event::Update(update.clone()));
                }
                // What came with a replay only is in the log until what was seen next.
                let next = seen.peek().map(|(_, next)| *next);
                // What a turn that fails was not sent by then may come late.
                let fails = matches!(next, Some(Event::End(Err(error))) if is_storage(error));
                if fails || next == Some(&Event::Replayed) {
                    continue;
                }
                while let Some(((Kind::Update, payload), rest)) = records.split_first()
                    && next.is_none_or(|next| *next != Event::Update(payload.clone()))
                {
                    held.events.push(Event::Update(payload.clone()));
                    records = rest;
                }
                continue;
            }
            if let Event::End(Err(error)) = event
                && is_storage(error)
            {
                while let Some(((Kind::Update, payload), rest)) = records.split_first() {
                    late.push((held.events.len(), payload));
                    records = rest;
                }
                if let Some(((Kind::End, _), rest)) = records.split_first() {
                    records = rest;
                }
                continue;
            }
            if let Event::Update(update) = event
                && let Some(found) = late.iter().position(|(_, late)| *late == update)
            {
                late.remove(found);
                held.events.push(event.clone());
                continue;
            }
            let next = records.split_first();
            let fits = match (event, next) {
                (Event::Prompt(params), Some(((Kind::Prompt, payload), _))) => {
                    *params == value(payload)
                }
                (Event::Update(update), Some(((Kind::Update, payload), _))) => update == payload,
                (Event::End(answer), Some(((Kind::End, payload), _))) => {
                    ends_so(answer, &value(payload))
                }
                _ => false,
            };
            if fits {
                records = &records[1..];
                held.events.push(event.clone());
                continue;
            }
            let is_prompt = matches!(event, Event::Prompt(_));
            let failed = seen.peek().is_some_and(
                |(_, next)| matches!(next, Event::End(Err(error)) if is_storage(error)),
            );
            if is_prompt && failed {
                seen.next();
            } else if is_prompt && unsure && next.is_none() && seen.peek().is_none() {
                held.without_last = true;
            } else {
                return Err(format!(
                    "event {at} was {event:?}; the log has {:?} there",
                    next.map(|(record, _)| record)
                ));
            }
        }
        held.behind = records.len();
        held.untold = late.len();
        Ok(held)
    }
}

/// How a log holds what was seen.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// What was seen and is there.
    pub(crate) events: Vec<Event>,
    /// The last prompt is not there.
    pub(crate) without_last: bool,
    /// How many records come behind all that was seen.
    pub(crate) behind: usize,
    /// How many updates before that the client was never sent.
    pub(crate) untold: usize,
}

impl Held {
    /// What a person saw of it.
    pub(crate) fn shown(&self) -> Transcript {
        let mut shown = Transcript::default();
        for (at, event) in self.events.iter().enumerate() {
            match event {
                Event::Prompt(params) => view::prompt(&mut shown, at as u64, params),
                Event::Update(update) => shown.update(update),
                Event::End(_) | Event::Replayed => {}
            }
        }
        shown
    }
}

/// Whether the end in a log is what a prompt was answered with.
fn ends_so(answer: &Answer, end: &Value) -> bool {
    match answer {
        // As a log has it.
        Ok(result) if result == end => true,
        Ok(result) => *end == json!({ "stopReason": result["stopReason"] }),
        Err(error) => {
            let plain = json!({ "code": error["code"], "message": error["message"] });
            end["error"] == plain || end["error"] == *error
        }
    }
}

/// Whether an error says that the disk failed.
pub(crate) fn is_storage(error: &Value) -> bool {
    error["data"]["error"] == "storage_failed"
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).expect("a payload is JSON")
}

/// Checks that the logs of a dead process hold all that was seen of its sessions, before anybody
/// opens them again. Afterwards the sessions are as the logs have them; deleted ones are gone.
pub(crate) fn survivors(store: &Store, sessions: &mut BTreeMap<String, Seen>) {
    sessions.retain(|id, seen| {
        let logged = match Logged::read(store, id) {
            Ok(logged) => logged,
            Err(StoreError::NotFound { .. })
                if seen.is_deleted() || seen.is_asked(&Asked::Delete) =>
            {
                return false;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(!seen.is_deleted(), "deleted, and still there: {id}");
        assert!(logged.scan.damage.is_empty(), "{:?}", logged.scan.damage);
        let held = logged.holds(&seen.events, true).unwrap();
        assert_eq!(held.untold, 0);
        if !held.without_last {
            view::is_prefix(&seen.shown, &logged.shown).unwrap();
        }
        view::is_prefix(&held.shown(), &logged.shown).unwrap();
        seen.adopt(logged.events(), logged.shown);
        true
    });
}
