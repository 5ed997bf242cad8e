//! A turn of a transcript: all of it within a limit, or a few words.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::json::text_member;
use crate::protocol::update::call_id;

use super::call::Call;
use super::text::{Clip, block_name, block_text, one_line, short_member};

/// The overhead of each item in a turn, besides its text, in bytes.
const OVERHEAD: usize = 96;
/// How many items a user can send in one turn; the others are dropped.
const USER_ITEMS: usize = 1000;
/// How much is kept of each side's text in a shortened turn, in characters.
const WORDS: usize = 240;
/// The longest error that is shown, and the longest id of a message, in characters.
const ERROR: usize = 300;

/// One item of a turn.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Text(Clip),
    /// A description of a block that is not text.
    Block(String),
    Call(Box<Call>),
}

impl Item {
    fn size(&self) -> usize {
        let own = match self {
            Self::Text(clip) => clip.len(),
            Self::Block(name) => name.len(),
            Self::Call(call) => call.size(),
        };
        OVERHEAD + own
    }

    /// The first words of a message.
    fn first_words(&self) -> Option<String> {
        let words = match self {
            Self::Text(clip) => {
                let (head, ..) = clip.parts();
                one_line(&head[..head.floor_char_boundary(WORDS * 16)], WORDS)
            }
            Self::Block(name) => format!("({name})"),
            Self::Call(_) => return None,
        };
        (!words.is_empty()).then_some(words)
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
    Other(String),
}

impl End {
    /// Reads the payload of an `end` record.
    pub(super) fn of(payload: &str) -> Self {
        if text_member(payload, "stopReason").is_some() {
            return match short_member(payload, "stopReason", ERROR).as_deref() {
                Some("end_turn") | None => Self::Normal,
                Some("cancelled") => Self::Other("the user cancelled this turn".to_owned()),
                Some("refusal") => Self::Other("the agent refused to go on".to_owned()),
                Some(reason) => Self::Other(format!("this turn was stopped: {reason}")),
            };
        }
        if let Some(error) = text_member(payload, "error") {
            let message = short_member(error, "message", ERROR);
            let message = message.map_or_else(String::new, |message| format!(": {message}"));
            return Self::Other(format!("this turn failed{message}"));
        }
        Self::Other("this turn was interrupted".to_owned())
    }
}

/// A prompt and its answer, as far as they fit the budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// 0 for the part before the first prompt.
    pub(super) number: u64,
    /// The number of the answer among the turns of the history.
    pub(super) answer: u64,
    /// What the user said.
    pub(super) user: Vec<Item>,
    /// What the agent said and did.
    pub(super) items: VecDeque<Item>,
    /// The agent that answered, by its index among all agents.
    pub(super) agent: Option<usize>,
    pub(super) end: End,
    /// How many messages and tool calls are left out at its beginning.
    pub(super) left_out: (u64, u64),
    budget: usize,
    user_size: usize,
    items_size: usize,
    /// How many of the oldest items have had their details dropped, and the size of those.
    slim: usize,
    slim_size: usize,
    /// The index of each call among all items of the turn, by a hash of its id.
    calls: HashMap<u64, u64>,
    /// How many items were dropped before the first that is kept.
    dropped: u64,
    /// The message that the last text belongs to.
    message: Option<String>,
}

impl Turn {
    pub(super) fn new(number: u64, answer: u64, budget: usize) -> Self {
        Self {
            number,
            answer,
            budget,
            ..Self::default()
        }
    }

    /// Whether it has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.user.is_empty() && self.items.is_empty() && self.left_out == (0, 0)
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.user_size + self.items_size
    }

    /// Adds a block of the prompt.
    pub(super) fn add_prompt(&mut self, block: &str) {
        if self.user.len() < USER_ITEMS
            && self.user_size <= self.budget
            && let Some(item) = self.item(block)
        {
            self.user_size += item.size();
            self.user.push(item);
        }
    }

    /// Adds a chunk of the user's message, from a conversation that was held elsewhere.
    pub(super) fn add_user_chunk(&mut self, update: &str) {
        // The log has no end of a turn that was held elsewhere.
        self.end = End::Normal;
        let content = text_member(update, "content").unwrap_or_default();
        if let (Some(Item::Text(clip)), Some(text)) = (self.user.last_mut(), block_text(content)) {
            let before = clip.len();
            clip.push_escaped(text);
            self.user_size = self.user_size + clip.len() - before;
        } else {
            self.add_prompt(content);
        }
    }

    /// Adds a chunk of the agent's message.
    pub(super) fn add_chunk(&mut self, update: &str) {
        let Some(content) = text_member(update, "content").filter(|content| *content != "null")
        else {
            return;
        };
        let id = short_member(update, "messageId", ERROR);
        let is_next = id.is_none() || self.message.is_none() || id == self.message;
        let text = block_text(content);
        if id.is_some() && text.is_some() {
            self.message = id;
        }
        match (self.items.back_mut(), text) {
            (Some(Item::Text(clip)), Some(text)) if is_next => {
                let before = clip.len();
                clip.push_escaped(text);
                self.items_size = self.items_size + clip.len() - before;
                self.bound();
            }
            _ => {
                if let Some(item) = self.item(content) {
                    self.push(item);
                }
            }
        }
    }

    /// Adds a `tool_call` or a `tool_call_update`.
    pub(super) fn add_call(&mut self, update: &str) {
        let id = call_id(update.as_bytes()).unwrap_or_default();
        let id = BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
        let known = (self.calls.get(&id)).and_then(|index| index.checked_sub(self.dropped));
        let known = known.and_then(|index| usize::try_from(index).ok());
        if let Some(index) = known
            && let Some(item) = self.items.get_mut(index)
        {
            let before = item.size();
            if let Item::Call(call) = item {
                call.update(update);
            }
            let after = item.size();
            self.items_size = self.items_size + after - before;
            if index < self.slim {
                self.slim_size = self.slim_size + after - before;
            }
            self.bound();
        } else {
            let mut call = Box::<Call>::default();
            call.update(update);
            let index = self.dropped + self.items.len() as u64;
            self.calls.insert(id, index);
            self.push(Item::Call(call));
        }
    }

    fn item(&self, block: &str) -> Option<Item> {
        let Some(text) = block_text(block) else {
            return Some(Item::Block(block_name(block)));
        };
        let mut clip = Clip::new(self.budget);
        clip.push_escaped(text);
        (!clip.is_empty()).then_some(Item::Text(clip))
    }

    fn push(&mut self, item: Item) {
        self.items_size += item.size();
        self.items.push_back(item);
        self.bound();
    }

    /// Drops what no longer fits: first the details of the oldest tool calls, then, if even a line
    /// for each is too much, the oldest items.
    fn bound(&mut self) {
        while self.items_size > self.budget && self.slim + 1 < self.items.len() {
            if let Some(item) = self.items.get_mut(self.slim) {
                let before = item.size();
                if let Item::Call(call) = item {
                    call.make_slim();
                }
                self.items_size = self.items_size + item.size() - before;
                self.slim_size += item.size();
            }
            self.slim += 1;
        }
        while self.slim > 0
            && self.slim_size > self.budget / 2
            && let Some(oldest) = self.items.pop_front()
        {
            self.items_size -= oldest.size();
            self.slim_size -= oldest.size();
            self.slim -= 1;
            self.dropped += 1;
            match oldest {
                Item::Call(_) => self.left_out.1 += 1,
                Item::Text(_) | Item::Block(_) => self.left_out.0 += 1,
            }
        }
        if self.calls.len() > 2 * self.items.len() + 64 {
            self.calls.retain(|_, index| *index >= self.dropped);
        }
    }

    /// The number of its messages and of its tool calls.
    pub(super) fn count(&self) -> (u64, u64) {
        let is_call = |item: &&Item| matches!(item, Item::Call(_));
        let calls = self.items.iter().filter(is_call).count() as u64;
        let others = self.items.len() as u64 - calls;
        (self.left_out.0 + others, self.left_out.1 + calls)
    }
}

/// A turn in a few words.
#[derive(Clone, Debug)]
pub(super) struct Short {
    pub(super) number: u64,
    pub(super) answer: u64,
    pub(super) agent: Option<usize>,
    /// The first words of the user and of the agent.
    pub(super) user: String,
    pub(super) reply: String,
    pub(super) calls: u64,
    pub(super) end: End,
}

impl Short {
    pub(super) fn of(turn: &Turn) -> Self {
        Self {
            number: turn.number,
            answer: turn.answer,
            agent: turn.agent,
            user: (turn.user.iter().find_map(Item::first_words)).unwrap_or_default(),
            reply: (turn.items.iter().find_map(Item::first_words)).unwrap_or_default(),
            calls: turn.count().1,
            end: turn.end.clone(),
        }
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.user.len() + self.reply.len()
    }
}
