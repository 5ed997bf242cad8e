//! The turns that are kept while the records of a conversation are read.

use std::collections::VecDeque;

use super::turn::{End, Short, Turn};

/// How many agents are named.
const AGENTS: usize = 8;

/// The turns of a conversation that may fit into the budget.
#[derive(Debug, Default)]
pub(super) struct Kept {
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
}

impl Kept {
    /// The index of an agent among those that answered. Agents beyond the limit have none.
    pub(super) fn agent(&mut self, name: &str) -> Option<usize> {
        let known = self.agents.iter().position(|known| known == name);
        if known.is_none() && self.agents.len() < AGENTS {
            self.agents.push(name.to_owned());
            return Some(self.agents.len() - 1);
        }
        known
    }

    /// Adds the newest turn, then shortens or drops the oldest ones that no longer fit into
    /// `budget` bytes.
    pub(super) fn push(&mut self, turn: Turn, budget: usize) {
        self.full_size += turn.size();
        self.full.push_back(turn);
        while let Some(oldest) = self.full.front()
            && self.full_size - oldest.size() >= budget
            && let Some(oldest) = self.full.pop_front()
        {
            self.full_size -= oldest.size();
            let short = Short::of(&oldest);
            self.short_size += short.size();
            self.short.push_back(short);
        }
        while self.short_size > budget
            && let Some(oldest) = self.short.pop_front()
        {
            self.short_size -= oldest.size();
            self.dropped += 1;
        }
    }

    /// Sets the end of a turn that ended after later turns had begun.
    pub(super) fn ended(&mut self, number: u64, end: &End) {
        let full = self
            .full
            .iter_mut()
            .map(|turn| (turn.number, &mut turn.end));
        let short = self
            .short
            .iter_mut()
            .map(|turn| (turn.number, &mut turn.end));
        let mut turns = full.chain(short);
        if let Some((_, known)) = turns.find(|(turn, _)| *turn == number) {
            end.clone_into(known);
        }
    }

    /// The approximate memory use of the turns, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let full = self.full.iter().map(Turn::size).sum::<usize>();
        assert_eq!(self.full_size, full);
        full + self.short.iter().map(Short::size).sum::<usize>()
    }
}
