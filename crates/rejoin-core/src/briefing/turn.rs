//! A turn of a conversation: all of it within a limit, or a few words.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::conversation::{CallEntry, ChunkEntry, Entry, TurnContent, TurnEnding, prompt_blocks};
use crate::protocol::Role;
use crate::record::rewind::WENT_BACK;
use crate::text::shortened;

use super::call::BriefingCall;
use super::steps::{Step, Trail};
use super::text::{Clip, block_name, block_text};

/// The overhead of each item in a turn, besides its text, in bytes.
const OVERHEAD: usize = 96;
/// How many items a user can send in one turn; the others are dropped.
const USER_ITEMS: usize = 1000;
/// How much is kept of what the user said in a shortened turn, and of the agent's last message, in
/// bytes.
const USER: usize = 2000;
const REPLY: usize = 800;
/// How much is kept of each in a turn of a line, in characters.
const WORDS: usize = 240;
/// The beginning of the program's own messages: the agent did not say them.
const NOTE: &str = "[rejoin] ";
/// The longest description of how a turn ended, in characters.
const WORDS_OF_END: usize = 320;

/// An item of a turn.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Text(Clip),
    /// A description of a block that is not text, or, behind the name of its kind, a text that is no part
    /// of a message.
    Block(String),
    Call(Box<BriefingCall>),
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

    /// Adds a message to a text.
    fn add_to(&self, text: &mut Clip) {
        match self {
            Self::Text(clip) => text.push_clip(clip),
            Self::Block(name) => text.push(&format!("({name})")),
            Self::Call(_) => {}
        }
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    /// Visits its texts.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        match self {
            Self::Text(clip) => {
                let (head, _, tail) = clip.parts();
                visit(head);
                visit(tail);
            }
            Self::Block(name) => visit(name),
            Self::Call(call) => {
                visit(&call.line());
                for (name, detail) in call.details() {
                    visit(&name);
                    visit(&detail);
                }
            }
        }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum BriefingTurnEnd {
    /// The log does not contain its end.
    #[default]
    Unknown,
    /// The normal way.
    Normal,
    /// Another way, in words.
    Other(String),
}

impl BriefingTurnEnd {
    /// Reads the payload of an `end` record.
    pub(super) fn of(payload: &str) -> Self {
        match TurnEnding::of(payload).note() {
            Some(words) => Self::Other(shortened(&words, WORDS_OF_END)),
            None => Self::Normal,
        }
    }

    fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        if let Self::Other(words) = self {
            visit(words);
        }
    }
}

/// A prompt and its answer, as far as they fit the budget.
#[derive(Clone, Debug, Default)]
pub(super) struct BriefingTurn {
    /// 0 for the part before the first prompt.
    pub(super) number: u64,
    /// The number of the answer among the turns of the history.
    pub(super) answer: u64,
    /// The content of the user's message.
    pub(super) user: Vec<Item>,
    /// The messages and tool calls of the agent.
    pub(super) items: VecDeque<Item>,
    /// The agent that answered, by its index among all agents.
    pub(super) agent: Option<usize>,
    pub(super) end: BriefingTurnEnd,
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
    /// The JSON text of the id of the last message that had one; empty before that.
    message: String,
    /// The steps of calls that were dropped.
    trail: Trail,
    /// If only some items are read: which.
    window: Option<Items>,
}

/// Which items of a turn are read. The others are counted and empty.
#[derive(Clone, Copy, Debug)]
struct Items {
    /// The number of the first one.
    first: u64,
    /// How many bytes they take together.
    room: usize,
    /// The number of the first one for which there is no room.
    end: Option<u64>,
}

impl BriefingTurn {
    pub(super) fn new(number: u64, answer: u64, budget: usize) -> Self {
        Self {
            number,
            answer,
            budget,
            trail: Trail::new(budget / 8),
            ..Self::default()
        }
    }

    /// A turn of which the items from `first` on are read, as many as fit into `room` bytes.
    pub(super) fn from_item(number: u64, first: u64, budget: usize, room: usize) -> Self {
        let end = None;
        Self {
            window: Some(Items { first, room, end }),
            ..Self::new(number, 0, budget)
        }
    }

    /// The number of the first item for which there was no room.
    pub(super) fn first_unread(&self) -> Option<u64> {
        self.window.and_then(|items| items.end)
    }

    /// Whether the turn has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.user.is_empty() && self.items.is_empty() && self.left_out == (0, 0)
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.user_size + self.items_size
    }

    fn add_user_block(&mut self, block: &str) {
        if self.user.len() < USER_ITEMS
            && self.user_size <= self.budget
            && let Some(item) = self.item(block)
        {
            self.user_size += item.size();
            self.user.push(item);
        }
    }

    /// Adds a chunk of the user's message, from a conversation that was held elsewhere.
    fn add_user_chunk(&mut self, chunk: &ChunkEntry<'_>) {
        // The log has no end of a turn that was held elsewhere.
        self.end = BriefingTurnEnd::Normal;
        let content = chunk.blocks().next().unwrap_or_default();
        if let (Some(Item::Text(clip)), Some(text)) = (self.user.last_mut(), block_text(&content)) {
            let before = clip.len();
            clip.push_escaped(text);
            self.user_size = self.user_size + clip.len() - before;
        } else {
            self.add_user_block(&content);
        }
    }

    /// Adds a chunk of the agent's message.
    fn add_chunk(&mut self, chunk: &ChunkEntry<'_>) {
        let Some(content) = chunk.blocks().next() else {
            return;
        };
        let (id, text) = (chunk.message, block_text(&content));
        let is_next = id.is_empty() || self.message.is_empty() || id == self.message;
        let is_same = !id.is_empty() && id == self.message;
        // What was said after the place may still be seen in files.
        let is_note = |text: &str| text.starts_with(NOTE) && !text.starts_with(WENT_BACK);
        if !is_same && text.is_some_and(is_note) {
            return;
        }
        if !id.is_empty() && text.is_some() {
            id.clone_into(&mut self.message);
        }
        match (self.items.back_mut(), text) {
            (Some(Item::Text(clip)), Some(text)) if is_next => {
                let before = clip.len();
                clip.push_escaped(text);
                self.items_size = self.items_size + clip.len() - before;
                self.bound();
            }
            _ => {
                if let Some(item) = self.item(&content) {
                    self.push(item);
                }
            }
        }
    }

    /// Adds a text of the agent that is no part of a message, behind the name of its kind.
    fn add_alone(&mut self, name: &str, chunk: &ChunkEntry<'_>) {
        let mut said = Clip::new(self.limit());
        said.push(name);
        said.push(":");
        for block in chunk.blocks() {
            said.push(" ");
            match block_text(&block) {
                Some(text) => said.push_escaped(text),
                None => said.push(&block_name(&block)),
            }
        }
        self.push(Item::Block(said.shown().unwrap_or_default()));
    }

    /// Begins a tool call, or updates one.
    fn add_call(&mut self, update: &CallEntry<'_>) {
        let id = update.id().unwrap_or_default();
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
            if self.window.is_none_or(|items| index as u64 >= items.first) {
                self.items_size = self.items_size + after - before;
            }
            if index < self.slim {
                self.slim_size = self.slim_size + after - before;
            }
            self.bound();
        } else {
            let mut call = match self.window {
                Some(_) => Box::new(BriefingCall::with_result(self.limit())),
                None => Box::<BriefingCall>::default(),
            };
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
        let mut clip = Clip::new(self.limit());
        clip.push_escaped(text);
        (!clip.is_empty()).then_some(Item::Text(clip))
    }

    fn push(&mut self, item: Item) {
        let number = self.items.len() as u64;
        match &mut self.window {
            Some(items) if number < items.first => {}
            Some(items) if self.items_size >= items.room => {
                items.end = items.end.or(Some(number));
            }
            _ => self.items_size += item.size(),
        }
        self.items.push_back(item);
        self.bound();
    }

    /// How much of the next item is kept, in bytes.
    fn limit(&self) -> usize {
        let is_read = |items: Items| {
            let fits = items.end.is_none() && self.items_size < items.room;
            fits && self.items.len() as u64 >= items.first
        };
        match self.window {
            Some(items) if !is_read(items) => 0,
            _ => self.budget,
        }
    }

    /// Drops what no longer fits: first the details of the oldest tool calls, then, if even a line
    /// for each is too much, the oldest items.
    fn bound(&mut self) {
        if self.window.is_some() {
            return;
        }
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
                Item::Call(call) => {
                    self.left_out.1 += 1;
                    self.trail.extend(call.steps());
                }
                Item::Text(_) | Item::Block(_) => self.left_out.0 += 1,
            }
        }
        if self.calls.len() > 2 * self.items.len() + 64 {
            self.calls.retain(|_, index| *index >= self.dropped);
        }
    }

    /// The number of its messages and of its tool calls.
    pub(super) fn count(&self) -> (u64, u64) {
        let calls = self.items.iter().filter(|item| item.is_call()).count() as u64;
        let others = self.items.len() as u64 - calls;
        (self.left_out.0 + others, self.left_out.1 + calls)
    }

    /// The text of the user in about `most` bytes.
    pub(super) fn said(&self, most: usize) -> Clip {
        let mut said = Clip::new(most);
        for (at, item) in self.user.iter().enumerate() {
            if at > 0 {
                said.push("\n");
            }
            item.add_to(&mut said);
        }
        said
    }

    /// The steps of the first `items` tool calls and messages, after those that were dropped before
    /// them.
    pub(super) fn steps(&self, items: usize) -> impl Iterator<Item = Step> {
        let dropped = self.trail.steps().cloned();
        let calls = self.items.iter().take(items).flat_map(|item| match item {
            Item::Call(call) => call.steps(),
            Item::Text(_) | Item::Block(_) => Vec::new(),
        });
        dropped.chain(calls)
    }

    /// Visits its texts.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        for item in self.user.iter().chain(&self.items) {
            item.each_text(visit);
        }
        self.trail.each_text(visit);
        self.end.each_text(visit);
    }
}

impl TurnContent for BriefingTurn {
    fn prompt(&mut self, _id: Option<&str>, payload: &str) {
        for block in prompt_blocks(payload) {
            self.add_user_block(block);
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Chunk(chunk) => match (chunk.role, chunk.alone) {
                (Role::User, _) => self.add_user_chunk(chunk),
                (Role::Agent, None) => self.add_chunk(chunk),
                (Role::Agent, Some(name)) => self.add_alone(name, chunk),
                (Role::Thought, _) => {}
            },
            Entry::Call(update) => self.add_call(update),
            Entry::Plan(_) | Entry::Other => {}
        }
    }
}

/// A turn in short.
#[derive(Clone, Debug)]
pub(super) struct ShortTurn {
    pub(super) number: u64,
    pub(super) answer: u64,
    pub(super) agent: Option<usize>,
    /// The text of the user, and the agent's last message, clipped.
    pub(super) user: Clip,
    pub(super) reply: Clip,
    pub(super) calls: u64,
    pub(super) end: BriefingTurnEnd,
}

impl ShortTurn {
    pub(super) fn of(turn: &BriefingTurn) -> Self {
        let mut reply = Clip::new(REPLY);
        if let Some(last) = turn.items.iter().rfind(|item| !item.is_call()) {
            last.add_to(&mut reply);
        }
        Self {
            number: turn.number,
            answer: turn.answer,
            agent: turn.agent,
            user: turn.said(USER),
            reply,
            calls: turn.count().1,
            end: turn.end.clone(),
        }
    }

    /// The first words of the user, and the first and last of the agent, each on one line.
    pub(super) fn words(&self) -> (String, String) {
        let (head, left_out, _) = self.user.parts();
        let mut user = shortened(head, WORDS);
        if left_out > 0 && !user.ends_with('…') {
            user.push('…');
        }
        let (head, left_out, tail) = self.reply.parts();
        let mut reply = shortened(head, WORDS);
        if left_out > 0 || reply.ends_with('…') {
            // What it concluded is at the end.
            let tail = if left_out > 0 { tail } else { head };
            let from = tail.ceil_char_boundary(tail.len().saturating_sub(WORDS / 2));
            reply = format!(
                "{} {}",
                shortened(head, WORDS / 2),
                shortened(&tail[from..], WORDS)
            );
        }
        (user, reply)
    }

    /// Keeps no more than the first words.
    pub(super) fn shrink(&mut self) {
        let (user, reply) = self.words();
        self.user = Clip::of(&user);
        self.reply = Clip::of(&reply);
    }

    /// Its approximate memory use, in bytes.
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.user.len() + self.reply.len()
    }

    /// Visits its texts.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        for clip in [&self.user, &self.reply] {
            let (head, _, tail) = clip.parts();
            visit(head);
            visit(tail);
        }
        self.end.each_text(visit);
    }
}
