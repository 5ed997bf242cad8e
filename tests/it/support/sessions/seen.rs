//! What a client saw of one session, in the order in which the session must have it in its log.
//!
//! A prompt is seen to begin when everything that was asked of the session before is answered; one
//! that is refused never began. What a replay brought does not count as seen again: its lines are
//! kept apart, and what it showed is the view from then on.

use std::collections::{BTreeMap, VecDeque};

use rejoin::conversation::Transcript;
use rejoin::protocol::UpdateKind;
use serde_json::{Value, json};

use super::client::{Answer, place};
use super::view;

/// A request about a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    /// With these content blocks.
    Prompt(Value),
    Load,
    Resume,
    Close,
    Delete,
}

/// One thing that a client saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The parameters of a prompt, without the session's id.
    Prompt(Value),
    /// An update, verbatim.
    Update(String),
    /// Updates that came with a replay only.
    Replayed,
    /// The answer to a prompt.
    End(Answer),
}

/// A replay that was answered with success.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// Its lines.
    pub(crate) lines: Vec<String>,
    /// What they show.
    pub(crate) shown: Transcript,
}

/// What became of a session, by the answers of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Open,
    Closed,
    Deleted,
    /// It was to be deleted, and perhaps was.
    Doubtful,
}

/// What was seen of a session.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    /// What a person would see.
    pub(crate) shown: Transcript,
    /// All replays so far.
    pub(crate) replays: Vec<Replay>,
    pub(crate) fate: Fate,
    /// The disk fails now and then. Updates may come with no prompt running, to close what a
    /// failure left open, and what the log has of a failed turn is not known.
    pub(crate) mends: bool,
    asked: BTreeMap<u64, Asked>,
    /// Prompts that have not begun.
    waiting: VecDeque<(u64, Value)>,
    running: Option<u64>,
    replay: Replay,
    /// An update of a running turn came with the replay.
    replayed_live: bool,
}

impl Asked {
    /// A prompt of one text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Prompt(json!([{ "type": "text", "text": text }]))
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "session/prompt",
            Self::Load => "session/load",
            Self::Resume => "session/resume",
            Self::Close => "session/close",
            Self::Delete => "session/delete",
        }
    }

    pub(crate) fn params(&self) -> Value {
        match self {
            Self::Prompt(blocks) => json!({ "prompt": blocks }),
            Self::Load | Self::Resume => place(),
            Self::Close | Self::Delete => json!({}),
        }
    }
}

impl Seen {
    /// Whether it is gone, as the server has said.
    pub(crate) fn is_deleted(&self) -> bool {
        self.fate == Fate::Deleted
    }

    /// Whether a turn runs, as far as the client knows.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a prompt is unanswered.
    pub(crate) fn is_prompted(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| matches!(asked, Asked::Prompt(_)))
    }

    /// Whether a request of this kind is unanswered.
    pub(crate) fn is_asked(&self, asked: &Asked) -> bool {
        self.asked.values().any(|other| other == asked)
    }

    /// Takes over what a log has, as a client does that loaded it.
    pub(crate) fn adopt(&mut self, events: Vec<Event>, shown: Transcript) {
        *self = Self {
            events,
            shown,
            ..Self::default()
        };
    }

    pub(super) fn asked(&mut self, id: u64, asked: Asked) {
        if let Asked::Prompt(_) = &asked {
            self.waiting.push_back((id, asked.params()));
        }
        self.asked.insert(id, asked);
        self.begin();
    }

    pub(super) fn update(&mut self, update: &str, replayed: Option<&String>) {
        let name =
            &serde_json::from_str::<Value>(update).expect("an update is JSON")["sessionUpdate"];
        let is_state =
            UpdateKind::of_name(name.as_str().unwrap_or_default().as_bytes()).is_snapshot();
        if let Some(line) = replayed {
            let loading = self.is_asked(&Asked::Load);
            assert!(loading, "replayed without a load: {line}");
            self.replay.lines.push(line.clone());
            self.replay.shown.update(update);
            self.replayed_live = true;
        } else if is_state {
            self.shown.update(update);
        } else {
            let expected = self.is_running() || self.mends;
            assert!(expected, "an update and no prompt: {update}");
            self.shown.update(update);
            self.events.push(Event::Update(update.to_owned()));
        }
    }

    pub(super) fn answered(&mut self, id: u64, answer: &Answer) {
        let asked = self.asked.remove(&id).expect("the client has asked");
        match (asked, answer) {
            (Asked::Prompt(_), _) => self.prompted(id, answer),
            (Asked::Load, _) => self.loaded(answer.is_ok()),
            (Asked::Resume, Ok(_)) => {
                if self.mends && self.fate == Fate::Closed {
                    // What was closed is repaired unseen.
                    self.events.push(Event::Replayed);
                }
                self.fate = Fate::Open;
            }
            (Asked::Close, Ok(_)) => self.fate = Fate::Closed,
            (Asked::Delete, Ok(_)) => self.fate = Fate::Deleted,
            (Asked::Delete, Err(_)) => self.fate = Fate::Doubtful,
            _ => {}
        }
        self.begin();
    }

    fn prompted(&mut self, id: u64, answer: &Answer) {
        let refused = answer.as_ref().is_err_and(is_refusal);
        if self.running == Some(id) {
            self.running = None;
            if !refused {
                self.events.push(Event::End(answer.clone()));
                return;
            }
            // The client takes it off the screen again.
            let last = self.events.pop();
            let alone = matches!(last, Some(Event::Prompt(_)));
            assert!(alone, "refused after {last:?}");
            view::take_back_prompt(&mut self.shown);
        } else {
            self.waiting.retain(|(waiting, _)| *waiting != id);
            assert!(refused, "answered before those in front of it: {answer:?}");
        }
    }

    fn loaded(&mut self, complete: bool) {
        let replay = std::mem::take(&mut self.replay);
        if !complete {
            return;
        }
        self.fate = Fate::Open;
        if !self.mends
            && let Err(difference) = view::is_prefix(&self.shown, &replay.shown)
        {
            panic!(
                "the replay is not what was seen: {difference}\nseen: {}\nreplayed: {}",
                self.shown.text(),
                replay.shown.text()
            );
        }
        let state = std::mem::take(&mut self.shown.state);
        self.shown = replay.shown.clone();
        self.shown.state = state;
        if self.mends || self.running.is_some() && self.replayed_live {
            self.events.push(Event::Replayed);
        }
        self.replayed_live = false;
        self.replays.push(replay);
    }

    /// Lets the next prompt begin, if nothing is in front of it.
    fn begin(&mut self) {
        let Some((id, params)) = self.waiting.front() else {
            return;
        };
        let mut before = self.asked.range(..id).map(|(_, asked)| asked);
        if self.running.is_some() || before.any(|asked| !matches!(asked, Asked::Prompt(_))) {
            return;
        }
        self.running = Some(*id);
        view::prompt(&mut self.shown, *id, params);
        self.events.push(Event::Prompt(params.clone()));
        self.waiting.pop_front();
    }
}

/// Whether an error says that the prompt never began, so that nothing of it is in the log.
fn is_refusal(error: &Value) -> bool {
    let names = [
        "prompt_in_progress",
        "session_not_open",
        "session_not_found",
        "session_in_use",
    ];
    names.iter().any(|name| error["data"]["error"] == *name)
}
