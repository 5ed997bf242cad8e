//! What is kept of a conversation while its records come in.

use std::collections::VecDeque;

use super::turn::{Short, Turn};

/// How many agents are named.
const AGENTS: usize = 8;

/// The turns of a conversation, as far as they may be told.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The agents that answered, in the order in which they came.
    pub(super) agents: Vec<String>,
    /// How many turns there were before all others.
    pub(super) dropped: u64,
    /// Turns that cannot be told in full any more.
    pub(super) short: VecDeque<Short>,
    short_size: usize,
    /// The newest turns.
    pub(super) full: VecDeque<Turn>,
    full_size: usize,
    /// The plan as it was last, by its lines.
    pub(super) plan: Vec<String>,
}

impl Kept {
    /// The place of an agent among those that answered. Only the first few have one.
    pub(super) fn agent(&mut self, name: String) -> Option<usize> {
        let known = self.agents.iter().position(|known| *known == name);
        if known.is_none() && self.agents.len() < AGENTS {
            self.agents.push(name);
            return Some(self.agents.len() - 1);
        }
        known
    }

    /// Adds the newest turn, and lets go of what cannot be told any more within `budget` bytes.
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

    /// About how much memory the turns take, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let full = self.full.iter().map(Turn::size).sum::<usize>();
        assert_eq!(self.full_size, full);
        full + self.short.iter().map(Short::size).sum::<usize>()
    }
}
