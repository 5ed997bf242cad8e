//! Finds the turn in which a record of a log is, and counts turns.

use std::ops::ControlFlow;

use crate::conversation::{TurnContent, TurnPosition, TurnSink, TurnSplitter, TurnStart};
use crate::protocol::Role;
use crate::record::Record;

use super::turn::BriefingTurn;
use super::window::BriefingPosition;

/// Where the last record that was read is.
#[derive(Debug)]
pub struct Finder {
    splitter: TurnSplitter,
    turns: FinderTurns,
}

#[derive(Debug)]
struct FinderTurns {
    /// The current turn; its items are only counted.
    current: BriefingTurn,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            splitter: TurnSplitter::new(TurnPosition::START),
            turns: FinderTurns { current: turn(0) },
        }
    }
}

impl Finder {
    /// Adds the next record of the session's log.
    pub fn record(&mut self, record: &Record<'_>) {
        _ = self.splitter.record(record, 0, &mut self.turns);
    }

    /// Where to read, so that the last record is among the first that is shown.
    pub fn position(&self) -> BriefingPosition {
        let turn = &self.turns.current;
        BriefingPosition {
            turn: turn.number,
            // With the item before it.
            item: turn.items.len().saturating_sub(2) as u64,
        }
    }

    /// How many turns have begun.
    pub fn turns(&self) -> u64 {
        self.turns.current.number
    }
}

fn turn(number: u64) -> BriefingTurn {
    BriefingTurn::from_item(number, u64::MAX, 0, 0)
}

impl TurnSink for FinderTurns {
    fn begin(&mut self, start: TurnStart<'_>) -> ControlFlow<()> {
        if start.role == Role::User {
            self.current = turn(self.current.number + 1);
        }
        ControlFlow::Continue(())
    }

    fn current(&mut self) -> Option<&mut dyn TurnContent> {
        Some(&mut self.current)
    }

    fn end(&mut self, _number: u64, _payload: &str) {}
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Kind;

    #[test]
    fn the_place_is_that_of_the_last_record() {
        let mut items = Vec::new();
        for turn in 1..=3 {
            let prompt = json!({"prompt": [{"type": "text", "text": format!("ask {turn}")}]});
            items.push((Kind::Prompt, prompt));
            for n in 0..9 {
                let title = format!("step {turn}{n}");
                let call =
                    json!({"sessionUpdate": "tool_call", "toolCallId": title, "title": title});
                items.push((Kind::Update, call));
            }
        }
        let find = |last: usize| {
            let mut finder = Finder::default();
            for (kind, payload) in &items[..=last] {
                finder.record(&Record::sample(*kind, None, &payload.to_string()));
            }
            let BriefingPosition { turn, item } = finder.position();
            (turn, item, finder.turns())
        };
        assert_eq!(find(0), (1, 0, 1));
        assert_eq!(find(1), (1, 0, 1));
        assert_eq!(find(10), (2, 0, 2));
        assert_eq!(find(17), (2, 5, 2));
        assert_eq!(find(29), (3, 7, 3));
    }
}
