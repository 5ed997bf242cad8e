//! Requests for permission: what was asked, and what became of it.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::json;
use crate::protocol::method::REQUEST_PERMISSION;
use crate::protocol::v1;
use crate::record::header::Header;
use crate::record::{Kind, OpenTurns, Record};
use crate::text::shortened;

use super::end::TurnEnding;

/// The longest title or subject that is kept, in characters.
const LONGEST: usize = 2000;

/// A request for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRequest {
    /// Its id in the log.
    pub id: String,
    /// When the client was asked, in the log's format.
    pub at: String,
    /// The number of the last turn that had begun; 0 before the first.
    pub turn: u64,
    /// The id of the session that asks: a subagent's, or the user's own as its client knows it.
    pub session: String,
    /// The id of the tool call that it is about.
    pub call: String,
    /// The title of the tool call.
    pub title: Option<String>,
    /// The kind of the tool call.
    pub kind: Option<String>,
    /// What the call would do it to: a command, paths or an address.
    pub subject: Option<String>,
    /// The answers among which the user could choose.
    pub options: Vec<PermissionOption>,
    /// What became of it.
    pub decision: Decision,
    /// When that was, in the log's format.
    pub decided_at: Option<String>,
    /// The name of the client in which the user answered, if it is known.
    pub client: Option<String>,
}

/// An answer that the user could choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionOption {
    /// The agent's id of it.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The protocol's kind, such as `allow_once`.
    pub kind: String,
}

/// What became of a request for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing so far.
    Open,
    /// The user has chosen this option, which allows the call.
    Allowed(String),
    /// The user has chosen this option, which rejects the call.
    Rejected(String),
    /// The user has chosen this option, which does neither.
    Chosen(String),
    /// The turn was cancelled, or the client did not ask.
    Cancelled,
    /// The client could not be asked, or answered with this error.
    Failed(String),
    /// The turn ended before there was an answer, for this reason.
    Unanswered(String),
}

impl Decision {
    /// Its name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Allowed(_) => "allowed",
            Self::Rejected(_) => "rejected",
            Self::Chosen(_) => "chosen",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
            Self::Unanswered(_) => "unanswered",
        }
    }
}

impl PermissionRequest {
    /// Reads an `ask` record; none if it is about something else.
    pub fn of(record: &Record<'_>, turn: u64) -> Option<Self> {
        let payload = record.payload;
        if json::string_member(payload, "method").as_deref() != Some(REQUEST_PERMISSION) {
            return None;
        }
        let params = json::text_member(payload, "params")?;
        let asked = Self::asked(record.id.unwrap_or_default(), params)?;
        Some(Self {
            at: record.at.to_owned(),
            turn,
            ..asked
        })
    }

    /// Reads the parameters of a request with this id, of either version of the protocol, which is at
    /// no place of a log.
    pub fn asked(id: &str, params: &str) -> Option<Self> {
        let params = json::tree(&v1::permission(params))?;
        let call = &params["toolCall"];
        let text = |value: &Value| Some(shortened(value.as_str()?, LONGEST));
        let options = params["options"].as_array().into_iter().flatten();
        let option = |option: &Value| {
            let text = |name: &str| option[name].as_str().unwrap_or_default().to_owned();
            PermissionOption {
                id: text("optionId"),
                name: text("name"),
                kind: text("kind"),
            }
        };
        Some(Self {
            id: id.to_owned(),
            at: String::new(),
            turn: 0,
            session: text(&params["sessionId"]).unwrap_or_default(),
            call: text(&call["toolCallId"]).unwrap_or_default(),
            title: text(&call["title"]).or_else(|| text(&params["title"])),
            kind: text(&call["kind"]),
            subject: subject(call).map(|subject| shortened(&subject, LONGEST)),
            options: options.map(option).collect(),
            decision: Decision::Open,
            decided_at: None,
            client: None,
        })
    }

    /// Reads the `answer` record. `usual` is the client of answers that name none.
    fn answered(&mut self, at: &str, payload: &str, usual: Option<&str>) {
        self.decided_at = Some(at.to_owned());
        self.client = json::string_member(payload, "client");
        let answer = json::tree(payload).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            let message = error["message"].as_str().unwrap_or("an error");
            self.decision = Decision::Failed(message.to_owned());
            return;
        }
        let Some(id) = answer["result"]["outcome"]["optionId"].as_str() else {
            self.decision = Decision::Cancelled;
            return;
        };
        self.client = self.client.take().or_else(|| usual.map(str::to_owned));
        let option = self.options.iter().find(|option| option.id == id);
        let (name, kind) = option.map_or((id, ""), |option| (&option.name, &option.kind));
        self.decision = match kind {
            kind if kind.starts_with("allow") => Decision::Allowed(name.to_owned()),
            kind if kind.starts_with("reject") => Decision::Rejected(name.to_owned()),
            _ => Decision::Chosen(name.to_owned()),
        };
    }

    /// The request for programs: an object, see `docs/export.md`.
    pub fn as_json(&self) -> Value {
        let mut object = json!({
            "permission": self.id,
            "at": self.at,
            "turn": self.turn,
            "sessionId": self.session,
            "toolCallId": self.call,
            "title": self.title,
            "kind": self.kind,
            "subject": self.subject,
            "decision": self.decision.name(),
        });
        let options = self.options.iter().map(
            |option| json!({ "optionId": option.id, "name": option.name, "kind": option.kind }),
        );
        object["options"] = options.collect();
        let (name, text) = match &self.decision {
            Decision::Allowed(name) | Decision::Rejected(name) | Decision::Chosen(name) => {
                ("option", name)
            }
            Decision::Failed(why) | Decision::Unanswered(why) => ("reason", why),
            Decision::Open | Decision::Cancelled => ("", &self.id),
        };
        let more = [
            (name, Some(text)),
            ("decidedAt", self.decided_at.as_ref()),
            ("client", self.client.as_ref()),
        ];
        let more = more.into_iter().filter(|(name, _)| !name.is_empty());
        for (name, value) in more.filter_map(|(name, value)| Some((name, value?))) {
            object[name] = value.as_str().into();
        }
        object
    }

    /// The title of the tool call with what it would do it to; none if the agent has said neither.
    pub fn wanted(&self) -> Option<String> {
        let title = self.title.as_deref().unwrap_or_default();
        let subject = self.subject.as_deref().unwrap_or_default();
        let wanted = match (title, subject) {
            (title, subject) if title.contains(subject) => title.to_owned(),
            (title, subject) if subject.contains(title) => subject.to_owned(),
            _ => format!("{title}: {subject}"),
        };
        (!wanted.is_empty()).then_some(wanted)
    }

    /// A sentence for people; `time` words a time of the log.
    pub fn sentence(&self, time: impl Fn(&str) -> String) -> String {
        let when = self.decided_at.as_deref().unwrap_or(&self.at);
        let when = time(when);
        let by = |what: &str, name: &str| match &self.client {
            Some(client) => format!("{what} in {client}, {when}: {name}"),
            None => format!("{what}, {when}: {name}"),
        };
        match &self.decision {
            Decision::Open => format!("Permission asked for, {when}: no answer so far"),
            Decision::Allowed(name) => by("Allowed", name),
            Decision::Rejected(name) => by("Rejected", name),
            Decision::Chosen(name) => by("Answered", name),
            Decision::Cancelled => format!("Permission not given, {when}: cancelled"),
            Decision::Failed(why) | Decision::Unanswered(why) => {
                format!("Permission not given, {when}: {why}")
            }
        }
    }
}

/// What a tool call would do it to, as its input and its places say.
fn subject(call: &Value) -> Option<String> {
    let input = &call["rawInput"];
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    };
    let named = ["command", "cmd", "file_path", "filePath", "path", "url"];
    let of_input = named.iter().find_map(|name| words(&input[*name]));
    let paths = |parts: &Value| {
        let parts = parts.as_array().into_iter().flatten();
        let paths: Vec<&str> = parts.filter_map(|part| part["path"].as_str()).collect();
        (!paths.is_empty()).then(|| paths.join(", "))
    };
    let found = of_input.or_else(|| paths(&call["locations"]));
    let found = found.or_else(|| paths(&call["content"]));
    found.filter(|found| !found.trim().is_empty())
}

/// The requests for permission of a log, as far as it was read.
#[derive(Debug, Default)]
pub struct Permissions {
    all: Vec<PermissionRequest>,
    /// The places of those about each tool call, by its id.
    of_calls: HashMap<String, Vec<usize>>,
    /// The places of those that are open.
    open: Vec<usize>,
    turns: OpenTurns<()>,
    turn: u64,
    /// The client in which the user answers where an answer names none.
    client: Option<String>,
}

impl Permissions {
    /// For the records of a log with this header, behind so many turns.
    pub fn new(header: &Header, turns: u64) -> Self {
        let client = header.answering_client();
        Self {
            turn: turns,
            client: client.map(|client| client.name.clone()),
            ..Self::default()
        }
    }

    /// Takes the next record.
    pub fn record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Prompt => {
                self.turn += 1;
                self.turns.begin(record.id, ());
            }
            Kind::Begin => self.turns.resume(record.id, ()),
            Kind::Ask => {
                if let Some(asked) = PermissionRequest::of(record, self.turn) {
                    let place = self.all.len();
                    let of_call = self.of_calls.entry(asked.call.clone());
                    of_call.or_default().push(place);
                    self.open.push(place);
                    self.all.push(asked);
                }
            }
            Kind::Answer => {
                let all = &mut self.all;
                let is_this = |place: &usize| all[*place].id == record.id.unwrap_or_default();
                if let Some(at) = self.open.iter().position(is_this) {
                    let place = self.open.remove(at);
                    all[place].answered(record.at, record.payload, self.client.as_deref());
                }
            }
            Kind::End => {
                self.turns.end(record.id);
                if self.turns.is_empty() {
                    self.ended(record.at, &TurnEnding::of(record.payload));
                }
            }
            _ => {}
        }
    }

    /// No turn is open any longer.
    fn ended(&mut self, at: &str, how: &TurnEnding) {
        let why = match how {
            TurnEnding::Cancelled => "the turn was cancelled".to_owned(),
            TurnEnding::Interrupted(Some(why)) => why.clone(),
            _ => "the turn ended".to_owned(),
        };
        for place in self.open.drain(..) {
            self.all[place].decision = Decision::Unanswered(why.clone());
            self.all[place].decided_at = Some(at.to_owned());
        }
    }

    /// All of them, in the order of the log.
    pub fn all(&self) -> &[PermissionRequest] {
        &self.all
    }

    /// The requests of the turn with this number.
    pub fn of_turn(&self, turn: u64) -> &[PermissionRequest] {
        let from = self.all.partition_point(|asked| asked.turn < turn);
        let to = self.all.partition_point(|asked| asked.turn <= turn);
        &self.all[from..to]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// All of them; requests without an answer have none for this reason, if one is given.
    pub fn into_all(mut self, no_answer: Option<&str>) -> Vec<PermissionRequest> {
        for place in self.open.drain(..) {
            if let Some(why) = no_answer {
                self.all[place].decision = Decision::Unanswered(why.to_owned());
            }
        }
        self.all
    }

    /// The requests about a tool call of the user's session, or of a subagent's with this id.
    pub fn about<'a>(
        &'a self,
        subagent: Option<&'a str>,
        call: &str,
    ) -> impl Iterator<Item = &'a PermissionRequest> {
        let places = self.of_calls.get(call).into_iter().flatten();
        let all = places.map(|place| &self.all[*place]);
        all.filter(move |one| subagent.is_none_or(|id| one.session == id))
    }

    /// Whether there is one about a tool call with this id.
    pub fn has_call(&self, id: &str) -> bool {
        self.of_calls.contains_key(id)
    }
}
