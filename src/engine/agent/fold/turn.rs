//! What is kept of a turn: all of it within a limit, or a few words.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};

use super::block;
use super::call::Call;
use super::clip::{Clip, one_line};
use super::node::Node;
use super::update::Update;

/// The overhead of each item in a turn, besides its text, in bytes.
const THING: usize = 96;
/// How many items a user can send in one turn; more are only counted.
const USER_THINGS: usize = 1000;
/// How much is kept of each side's text in a shortened turn, in characters.
const WORDS: usize = 240;
/// The longest error that is shown, in characters.
const ERROR: usize = 300;

/// One item of a turn.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Text(Clip),
    /// A block that is not text, in a few words.
    Block(String),
    Call(Box<Call>),
}

impl Thing {
    fn size(&self) -> usize {
        let own = match self {
            Self::Text(clip) => clip.len(),
            Self::Block(name) => name.len(),
            Self::Call(call) => call.size(),
        };
        THING + own
    }
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// The log does not contain its end.
    #[default]
    Unknown,
    /// The normal way.
    Normal,
    /// Another way, in words.
    Odd(String),
}

impl End {
    /// Reads the payload of an `end` record.
    pub(super) fn of(payload: Node<'_>) -> Self {
        if let Some(reason) = payload.get("stopReason") {
            return match reason.short(ERROR).as_deref() {
                Some("end_turn") | None => Self::Normal,
                Some("cancelled") => Self::Odd("the user cancelled this turn".to_owned()),
                Some("refusal") => Self::Odd("the agent refused to go on".to_owned()),
                Some(reason) => Self::Odd(format!("this turn was stopped: {reason}")),
            };
        }
        if let Some(error) = payload.get("error") {
            let message = error
                .get("message")
                .and_then(|message| message.short(ERROR));
            let message = message.map_or_else(String::new, |message| format!(": {message}"));
            return Self::Odd(format!("this turn failed{message}"));
        }
        Self::Odd("this turn was interrupted".to_owned())
    }
}

/// A turn with its content, as far as it fits the budget.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// 0 for the part before the first prompt.
    pub(super) number: u64,
    pub(super) user: Vec<Thing>,
    pub(super) things: VecDeque<Thing>,
    /// The agent that answered, by its index among all agents.
    pub(super) agent: Option<usize>,
    pub(super) end: End,
    /// How many messages and tool calls are left out at its beginning.
    pub(super) left_out: (u64, u64),
    budget: usize,
    user_size: usize,
    things_size: usize,
    /// How many of the oldest items have had their details dropped.
    slim: usize,
    slim_size: usize,
    /// The index of each call among all items of the turn, by a hash of its id.
    calls: HashMap<u64, u64>,
    /// How many items were dropped before the first that is kept.
    first: u64,
    /// The message that the last text belongs to.
    message: Option<String>,
}

impl Turn {
    pub(super) fn new(number: u64, budget: usize) -> Self {
        Self {
            number,
            user: Vec::new(),
            things: VecDeque::new(),
            agent: None,
            end: End::Unknown,
            left_out: (0, 0),
            budget,
            user_size: 0,
            things_size: 0,
            slim: 0,
            slim_size: 0,
            calls: HashMap::new(),
            first: 0,
            message: None,
        }
    }

    /// Whether it has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.user.is_empty() && self.things.is_empty() && self.left_out == (0, 0)
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        THING + self.user_size + self.things_size
    }

    /// Adds a block of the prompt.
    pub(super) fn user_says(&mut self, content: Node<'_>) {
        if self.user.len() >= USER_THINGS || self.user_size > self.budget {
            return;
        }
        let thing = match block::text(content) {
            Some(text) => {
                let mut clip = Clip::new(self.budget);
                text.add_to(&mut clip);
                if clip.is_empty() {
                    return;
                }
                Thing::Text(clip)
            }
            None => Thing::Block(block::name(content)),
        };
        self.user_size += thing.size();
        self.user.push(thing);
    }

    /// Adds a chunk of the agent's message.
    pub(super) fn agent_says(&mut self, update: &Update<'_>) {
        let Some(content) = update.content else {
            return;
        };
        let id = update.message.and_then(|id| id.short(ERROR));
        let Some(text) = block::text(content) else {
            return self.add(Thing::Block(block::name(content)));
        };
        let is_next = id.is_none() || self.message.is_none() || id == self.message;
        if id.is_some() {
            self.message = id;
        }
        match self.things.back_mut() {
            Some(last @ Thing::Text(_)) if is_next => {
                let before = last.size();
                if let Thing::Text(clip) = last {
                    text.add_to(clip);
                }
                self.things_size = self.things_size + last.size() - before;
                self.bound();
            }
            _ => {
                let mut clip = Clip::new(self.budget);
                text.add_to(&mut clip);
                if !clip.is_empty() {
                    self.add(Thing::Text(clip));
                }
            }
        }
    }

    /// Adds a `tool_call` or a `tool_call_update`.
    pub(super) fn call(&mut self, update: &Update<'_>) {
        let mut hasher = DefaultHasher::new();
        hasher.write(update.call.map_or("", Node::raw).as_bytes());
        let id = hasher.finish();
        let known = self
            .calls
            .get(&id)
            .and_then(|number| number.checked_sub(self.first));
        let place = known.and_then(|place| usize::try_from(place).ok());
        if let Some(thing) = place.and_then(|place| self.things.get_mut(place)) {
            let before = thing.size();
            if let Thing::Call(call) = thing {
                call.update(update);
            }
            let after = thing.size();
            self.things_size = self.things_size + after - before;
            if place.is_some_and(|place| place < self.slim) {
                self.slim_size = self.slim_size + after - before;
            }
            self.bound();
        } else {
            let mut call = Box::<Call>::default();
            call.update(update);
            self.calls.insert(id, self.first + self.things.len() as u64);
            self.add(Thing::Call(call));
        }
    }

    fn add(&mut self, thing: Thing) {
        self.things_size += thing.size();
        self.things.push_back(thing);
        self.bound();
    }

    /// Drops what no longer fits: first the details of the oldest tool calls, then, if even a line
    /// for each is too much, the oldest items.
    fn bound(&mut self) {
        while self.things_size > self.budget && self.slim + 1 < self.things.len() {
            if let Some(thing) = self.things.get_mut(self.slim) {
                let before = thing.size();
                if let Thing::Call(call) = thing {
                    call.make_slim();
                }
                self.things_size = self.things_size + thing.size() - before;
                self.slim_size += thing.size();
            }
            self.slim += 1;
        }
        while self.slim > 0
            && self.slim_size > self.budget / 2
            && let Some(oldest) = self.things.pop_front()
        {
            self.things_size -= oldest.size();
            self.slim_size -= oldest.size();
            self.slim -= 1;
            self.first += 1;
            match oldest {
                Thing::Call(_) => self.left_out.1 += 1,
                Thing::Text(_) | Thing::Block(_) => self.left_out.0 += 1,
            }
        }
        if self.calls.len() > 2 * self.things.len() + 64 {
            self.calls.retain(|_, number| *number >= self.first);
        }
    }

    /// The number of its messages and of its tool calls.
    pub(super) fn count(&self) -> (u64, u64) {
        let calls = self
            .things
            .iter()
            .filter(|thing| matches!(thing, Thing::Call(_)));
        let calls = calls.count() as u64;
        let others = self.things.len() as u64 - calls;
        (self.left_out.0 + others, self.left_out.1 + calls)
    }
}

/// A turn in a few words.
#[derive(Clone, Debug)]
pub(super) struct Short {
    pub(super) number: u64,
    pub(super) agent: Option<usize>,
    /// The first words of the user and of the agent.
    pub(super) user: String,
    pub(super) answer: String,
    pub(super) calls: u64,
    pub(super) end: End,
}

impl Short {
    pub(super) fn of(turn: &Turn) -> Self {
        Self {
            number: turn.number,
            agent: turn.agent,
            user: turn.user.iter().find_map(first_words).unwrap_or_default(),
            answer: turn.things.iter().find_map(first_words).unwrap_or_default(),
            calls: turn.count().1,
            end: turn.end.clone(),
        }
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        THING + self.user.len() + self.answer.len()
    }
}

fn first_words(thing: &Thing) -> Option<String> {
    let words = match thing {
        Thing::Text(clip) => {
            let (head, ..) = clip.parts();
            one_line(&head[..head.floor_char_boundary(WORDS * 16)], WORDS)
        }
        Thing::Block(name) => format!("({name})"),
        Thing::Call(_) => return None,
    };
    (!words.is_empty()).then_some(words)
}
