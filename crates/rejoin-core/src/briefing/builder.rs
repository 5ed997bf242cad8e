//! Collects the turns of a briefing while the records of a conversation are read.
//!
//! The newest turns are kept word for word and older ones in short; the oldest are only counted. A
//! session may be far longer than the briefing, so what no longer fits is dropped while reading.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::conversation::{Entry, TurnContent, TurnPosition, TurnSink, TurnSplitter, TurnStart};
use crate::json::{text_elements, text_member};
use crate::protocol::Role;
use crate::record::header::Implementation;
use crate::record::{Kind, Record};

use super::layout::{self, Words};
use super::questions::Questions;
use super::steps::Trail;
use super::text::{Clip, short_member};
use super::turn::{BriefingTurn, BriefingTurnEnd, ShortTurn};

/// A larger budget is reduced to this one, in bytes, so that the briefing always fits into a line.
const MAX_BUDGET: usize = 64 * 1024 * 1024;
/// The longest name of an agent, or status of a plan's entry, in characters.
const NAME: usize = 60;
/// How many agents are named.
const AGENTS: usize = 8;
/// How many lines of a plan are kept, and their longest length, in characters.
const PLAN_LINES: usize = 50;
const PLAN_LINE: usize = 200;

/// A text for an agent that does not have the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Briefing {
    /// The text.
    pub text: String,
    /// How many turns it shows, in full or in short.
    pub shown: u64,
    /// How many turns the conversation has.
    pub turns: u64,
}

/// Builds a briefing record by record.
#[derive(Debug)]
pub struct BriefingBuilder {
    splitter: TurnSplitter,
    pub(super) turns: BriefingTurns,
}

impl BriefingBuilder {
    /// A briefing of at most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Self {
            splitter: TurnSplitter::new(TurnPosition::START),
            turns: BriefingTurns::new(budget.min(MAX_BUDGET)),
        }
    }

    /// A briefing, of at most `budget` bytes, of the last turn alone, for an agent that may not
    /// have all of that turn.
    pub fn of_last_turn(budget: usize) -> Self {
        let mut builder = Self::new(budget);
        builder.turns.last_only = true;
        builder
    }

    /// A briefing of the turns that an agent has missed, for one that has the earlier ones.
    pub fn of_missed_turns(budget: usize) -> Self {
        let mut builder = Self::new(budget);
        builder.turns.is_rest = true;
        builder
    }

    /// Leaves out all turns so far. The next record begins the first one that is not left out.
    pub fn forget(&mut self) {
        self.turns.forget();
    }

    /// Says how the reader gets what is left out: whole lines.
    pub fn say_how_to_get_more(&mut self, more: String) {
        self.turns.more = Some(more);
    }

    /// Adds the next record of the session's log. The caller must leave out the records of the
    /// prompt that the briefing will precede.
    pub fn record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Session => self.turns.set_agent(text_member(record.payload, "engine")),
            Kind::AgentSessionId => self.turns.set_agent(text_member(record.payload, "agent")),
            Kind::Ask => self.turns.questions.asked(record.id, record.payload),
            Kind::Answer => self.turns.questions.answered(record.id),
            _ => {
                _ = self.splitter.record(record, 0, &mut self.turns);
            }
        }
    }

    /// The briefing; `None` if the conversation is empty, or if the budget is too small for any of
    /// it.
    pub fn finish(mut self) -> Option<Briefing> {
        self.turns.add_current();
        layout::render(&self.turns)
    }
}

/// The turns that may fit into the budget.
#[derive(Debug, Default)]
pub(super) struct BriefingTurns {
    pub(super) budget: usize,
    /// Whether only the last turn is kept.
    last_only: bool,
    /// Whether the reader has the turns before these.
    is_rest: bool,
    /// The agents that answered, in the order of their first answers.
    pub(super) agents: Vec<String>,
    /// The number of the first prompt, and what the user said with it.
    pub(super) start: Option<(u64, Clip)>,
    /// How many turns before these were dropped. What precedes the first prompt is not one.
    pub(super) dropped: u64,
    /// Turns that no longer fit in full.
    pub(super) short: VecDeque<ShortTurn>,
    short_size: usize,
    /// How many of these have only their first words.
    shrunk: usize,
    /// The steps of the agent's work in turns that no longer fit in full.
    pub(super) trail: Trail,
    /// The newest turns.
    pub(super) full: VecDeque<BriefingTurn>,
    full_size: usize,
    /// The latest plan, line by line.
    pub(super) plan: Vec<String>,
    /// The questions to the user in the last turn.
    questions: Questions,
    /// How the reader gets what is left out.
    pub(super) more: Option<String>,
    current: BriefingTurn,
    /// The name of the agent that answers now.
    agent: Option<String>,
}

impl BriefingTurns {
    fn new(budget: usize) -> Self {
        Self {
            budget,
            trail: Trail::new(budget / 4),
            current: BriefingTurn::new(0, 0, budget),
            ..Self::default()
        }
    }

    /// The introduction of the briefing.
    pub(super) fn words(&self) -> &'static Words {
        match (self.last_only, self.is_rest) {
            (true, _) => &layout::LAST_TURN,
            (false, true) => &layout::MISSED_TURNS,
            (false, false) => &layout::WHOLE,
        }
    }

    /// Drops all turns so far but the current one.
    fn clear(&mut self) {
        self.full.clear();
        self.full_size = 0;
        self.agents.clear();
        self.plan.clear();
    }

    /// Drops all turns so far.
    fn forget(&mut self) {
        self.current = BriefingTurn::new(self.current.number, self.current.answer, self.budget);
        self.clear();
        self.short.clear();
        self.short_size = 0;
        self.shrunk = 0;
        self.dropped = 0;
        self.start = None;
        self.trail = Trail::new(self.budget / 4);
        self.questions = Questions::default();
    }

    /// The questions that the user has not answered.
    pub(super) fn questions(&self) -> impl Iterator<Item = &Clip> {
        self.questions.open()
    }

    /// Sets the agent that answers from here on.
    fn set_agent(&mut self, implementation: Option<&str>) {
        let name = implementation.and_then(|agent| short_member(agent, "name", NAME));
        if let Some(name) = name {
            self.agent = Some(Implementation::shown(&name).to_owned());
        }
    }

    /// The index of the current agent among those that answered. Agents beyond the limit have none.
    fn answering(&mut self) -> Option<usize> {
        let name = self.agent.as_deref()?;
        let known = self.agents.iter().position(|known| known == name);
        if known.is_none() && self.agents.len() < AGENTS {
            self.agents.push(name.to_owned());
            return Some(self.agents.len() - 1);
        }
        known
    }

    /// Adds the current turn to the others, then shortens or drops the oldest ones that no longer
    /// fit.
    fn add_current(&mut self) {
        let next = BriefingTurn::new(self.current.number + 1, 0, self.budget);
        let turn = std::mem::replace(&mut self.current, next);
        if turn.is_empty() {
            return;
        }
        if self.start.is_none() && !turn.user.is_empty() {
            self.start = Some((turn.number, turn.said(self.budget / 8)));
        }
        self.full_size += turn.size();
        self.full.push_back(turn);
        while let Some(oldest) = self.full.front()
            && self.full_size - oldest.size() >= self.budget
            && let Some(oldest) = self.full.pop_front()
        {
            self.full_size -= oldest.size();
            self.trail.extend(oldest.steps(usize::MAX));
            let short = ShortTurn::of(&oldest);
            self.short_size += short.size();
            self.short.push_back(short);
        }
        while self.short_size > self.budget
            && let Some(oldest) = self.short.get_mut(self.shrunk)
        {
            self.short_size -= oldest.size();
            oldest.shrink();
            self.short_size += oldest.size();
            self.shrunk += 1;
        }
        while self.short_size > self.budget
            && let Some(oldest) = self.short.pop_front()
        {
            self.short_size -= oldest.size();
            self.shrunk -= 1;
            self.dropped += u64::from(oldest.number > 0);
        }
    }

    /// Visits all texts.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        let lines = self.agents.iter().chain(&self.plan).chain(&self.more);
        lines.for_each(|line| visit(line));
        let start = self.start.iter().map(|(_, said)| said);
        for clip in start.chain(self.questions()) {
            let (head, _, tail) = clip.parts();
            visit(head);
            visit(tail);
        }
        self.trail.each_text(visit);
        for turn in &self.full {
            turn.each_text(visit);
        }
        for short in &self.short {
            short.each_text(visit);
        }
    }

    /// The approximate memory use, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let full = self.full.iter().map(BriefingTurn::size).sum::<usize>();
        assert_eq!(self.full_size, full);
        let short = self.short.iter().map(ShortTurn::size).sum::<usize>();
        assert_eq!(self.short_size, short);
        full + short + self.current.size() + self.trail.size()
    }
}

impl TurnSink for BriefingTurns {
    fn begin(&mut self, turn: TurnStart<'_>) -> ControlFlow<()> {
        if turn.role == Role::User {
            self.add_current();
            self.questions = Questions::default();
            if self.last_only {
                self.clear();
            }
        } else {
            self.current.answer = turn.number;
        }
        ControlFlow::Continue(())
    }

    fn current(&mut self) -> Option<&mut dyn TurnContent> {
        Some(&mut self.current)
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Chunk(chunk) if chunk.role != Role::Agent => {}
            Entry::Chunk(_) | Entry::Call(_) => self.current.agent = self.answering(),
            Entry::Plan(entries) => self.plan = plan(entries),
            Entry::Other => {}
        }
        self.current.entry(entry);
    }

    fn end(&mut self, number: u64, payload: &str) {
        let full = (self.full.iter_mut().chain([&mut self.current]))
            .map(|turn| (turn.answer, &mut turn.end));
        let short = (self.short.iter_mut()).map(|turn| (turn.answer, &mut turn.end));
        if let Some((_, end)) = full.chain(short).find(|(answer, _)| *answer == number) {
            *end = BriefingTurnEnd::of(payload);
        }
    }
}

/// The entries of a plan, as lines.
fn plan(entries: &str) -> Vec<String> {
    let line = |entry: &str| {
        let content = short_member(entry, "content", PLAN_LINE)?;
        let status = short_member(entry, "status", NAME).unwrap_or_default();
        Some(format!("{status}: {content}"))
    };
    text_elements(entries)
        .filter_map(line)
        .take(PLAN_LINES)
        .collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "facts_tests.rs"]
mod facts;
