//! Collects the turns of a transcript while the records of a conversation are read.
//!
//! The newest turns are kept word for word and older ones in short; the oldest are only counted. A
//! session may be far longer than the transcript, so what no longer fits is dropped while reading.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::history::{Place, Start, TurnSink, TurnSplitter};
use crate::json::text_member;
use crate::protocol::{Role, UpdateKind};
use crate::record::header::Implementation;
use crate::record::{Kind, Record};

use super::page::{self, Words};
use super::text::{elements, short_member};
use super::turn::{End, Short, Turn};

/// A larger budget is reduced to this one, in bytes, so that the transcript always fits into a line.
const MAX_BUDGET: usize = 64 * 1024 * 1024;
/// The longest name of an agent, or status of a plan's entry, in characters.
const NAME: usize = 60;
/// How many agents are named.
const AGENTS: usize = 8;
/// How many lines of a plan are kept, and their longest length, in characters.
const PLAN_LINES: usize = 50;
const PLAN_LINE: usize = 200;

/// A transcript, built record by record.
#[derive(Debug)]
pub(super) struct Builder {
    splitter: TurnSplitter,
    pub(super) turns: Turns,
}

impl Builder {
    /// A transcript of at most `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            splitter: TurnSplitter::new(Place::START),
            turns: Turns::new(budget.min(MAX_BUDGET)),
        }
    }

    /// The same for the last turn alone, for an agent that may not have all of that turn.
    pub(super) fn of_last_turn(budget: usize) -> Self {
        let mut builder = Self::new(budget);
        builder.turns.last_only = true;
        builder
    }

    /// Adds the next record of the session's log. The caller must leave out the records of the
    /// prompt that the transcript will precede.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Session => self.turns.set_agent(text_member(record.payload, "engine")),
            Kind::AgentSessionId => self.turns.set_agent(text_member(record.payload, "agent")),
            _ => {
                _ = self.splitter.record(record, 0, &mut self.turns);
            }
        }
    }

    /// The transcript; `None` if the conversation is empty, or if the budget is too small for any of
    /// it.
    pub(super) fn finish(mut self) -> Option<String> {
        self.turns.add_current();
        page::render(&self.turns)
    }
}

/// The turns that may fit into the budget.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) budget: usize,
    /// Whether only the last turn is kept.
    last_only: bool,
    /// The agents that answered, in the order of their first answers.
    pub(super) agents: Vec<String>,
    /// How many turns before these were dropped.
    pub(super) dropped: u64,
    /// Turns that no longer fit in full.
    pub(super) short: VecDeque<Short>,
    short_size: usize,
    /// The newest turns.
    pub(super) full: VecDeque<Turn>,
    full_size: usize,
    /// The latest plan, line by line.
    pub(super) plan: Vec<String>,
    current: Turn,
    /// The name of the agent that answers now.
    agent: Option<String>,
}

impl Turns {
    fn new(budget: usize) -> Self {
        Self {
            budget,
            current: Turn::new(0, 0, budget),
            ..Self::default()
        }
    }

    /// The introduction of the transcript.
    pub(super) fn words(&self) -> &'static Words {
        if self.last_only {
            &page::LAST_TURN
        } else {
            &page::WHOLE
        }
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
        let next = Turn::new(self.current.number + 1, 0, self.budget);
        let turn = std::mem::replace(&mut self.current, next);
        if turn.is_empty() {
            return;
        }
        self.full_size += turn.size();
        self.full.push_back(turn);
        while let Some(oldest) = self.full.front()
            && self.full_size - oldest.size() >= self.budget
            && let Some(oldest) = self.full.pop_front()
        {
            self.full_size -= oldest.size();
            let short = Short::of(&oldest);
            self.short_size += short.size();
            self.short.push_back(short);
        }
        while self.short_size > self.budget
            && let Some(oldest) = self.short.pop_front()
        {
            self.short_size -= oldest.size();
            self.dropped += 1;
        }
    }

    /// The approximate memory use, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let full = self.full.iter().map(Turn::size).sum::<usize>();
        assert_eq!(self.full_size, full);
        full + self.short.iter().map(Short::size).sum::<usize>() + self.current.size()
    }
}

impl TurnSink for Turns {
    fn begin(&mut self, turn: Start<'_>) -> ControlFlow<()> {
        if turn.role == Role::User {
            self.add_current();
            if self.last_only {
                self.full.clear();
                self.full_size = 0;
                self.agents.clear();
                self.plan.clear();
            }
        } else {
            self.current.answer = turn.number;
        }
        ControlFlow::Continue(())
    }

    fn prompt(&mut self, _id: Option<&str>, payload: &str) {
        for block in elements(text_member(payload, "prompt").unwrap_or_default()) {
            self.current.add_prompt(block);
        }
    }

    fn update(&mut self, kind: UpdateKind, update: &str) {
        match kind {
            UpdateKind::Chunk(Role::User) => self.current.add_user_chunk(update),
            UpdateKind::Chunk(Role::Agent) => {
                self.current.agent = self.answering();
                self.current.add_chunk(update);
            }
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                self.current.agent = self.answering();
                self.current.add_call(update);
            }
            UpdateKind::Plan => self.plan = plan(update),
            _ => {}
        }
    }

    fn end(&mut self, number: u64, payload: &str) {
        let full = (self.full.iter_mut().chain([&mut self.current]))
            .map(|turn| (turn.answer, &mut turn.end));
        let short = (self.short.iter_mut()).map(|turn| (turn.answer, &mut turn.end));
        if let Some((_, end)) = full.chain(short).find(|(answer, _)| *answer == number) {
            *end = End::of(payload);
        }
    }
}

/// The entries of a plan, as lines.
fn plan(update: &str) -> Vec<String> {
    let entries = elements(text_member(update, "entries").unwrap_or_default());
    let line = |entry: &str| {
        let content = short_member(entry, "content", PLAN_LINE)?;
        let status = short_member(entry, "status", NAME).unwrap_or_default();
        Some(format!("{status}: {content}"))
    };
    entries.filter_map(line).take(PLAN_LINES).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
