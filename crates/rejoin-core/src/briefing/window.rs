//! Some turns of a conversation as text: those from one on, as many as fit.

use std::ops::ControlFlow;

use crate::conversation::{TurnContent, TurnPosition, TurnSink, TurnSplitter, TurnStart};
use crate::protocol::Role;
use crate::record::Record;

use super::lines::{BriefingLines, Detail, free_mark};
use super::turn::{BriefingTurn, BriefingTurnEnd};

/// Where reading begins or goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BriefingPosition {
    /// The turn, counted from 1; 0 is what precedes the first prompt.
    pub turn: u64,
    /// How many messages and tool calls of the agent in this turn come before.
    pub item: u64,
}

/// The turns that were read.
#[derive(Clone, Debug, Default)]
pub struct ShownTurns {
    /// Each turn's number and its text.
    pub turns: Vec<(u64, String)>,
    /// The beginning of lines that are not content.
    pub mark: String,
    /// Where to go on; none at the end of the conversation.
    pub next: Option<BriefingPosition>,
}

/// Reads turns, record by record.
#[derive(Debug)]
pub struct BriefingWindow {
    splitter: TurnSplitter,
    turns: WindowTurns,
}

#[derive(Debug)]
struct WindowTurns {
    from: BriefingPosition,
    budget: usize,
    /// The number of the current turn.
    number: u64,
    read: Vec<BriefingTurn>,
    /// Whether another turn follows.
    more: bool,
}

impl BriefingWindow {
    /// The turns from this position on, in about `budget` bytes.
    pub fn new(from: BriefingPosition, budget: usize) -> Self {
        let mut turns = WindowTurns {
            from,
            budget,
            number: 0,
            read: Vec::new(),
            more: false,
        };
        turns.add();
        Self {
            splitter: TurnSplitter::new(TurnPosition::START),
            turns,
        }
    }

    /// Adds the next record of the session's log. Breaks if no more are needed.
    pub fn record(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        self.splitter.record(record, 0, &mut self.turns)
    }

    /// The text.
    pub fn finish(self) -> ShownTurns {
        let WindowTurns {
            from,
            budget,
            read: turns,
            more,
            ..
        } = self.turns;
        let lines = BriefingLines {
            agents: &[],
            mark: free_mark(|visit| {
                for turn in &turns {
                    turn.each_text(visit);
                }
            }),
            last: turns.last().filter(|_| !more).map(|turn| turn.number),
        };
        let mut shown = ShownTurns::default();
        let mut left = budget;
        for turn in &turns {
            let first = if turn.number == from.turn {
                from.item
            } else {
                0
            };
            let mut text = match first {
                0 => lines.user(turn, Some(budget)),
                _ => lines.line(&format!("turn {}, continued", turn.number)),
            };
            if !shown.turns.is_empty() && text.len() > left {
                let turn = turn.number;
                shown.next = Some(BriefingPosition { turn, item: 0 });
                break;
            }
            let skipped = usize::try_from(first).unwrap_or(usize::MAX);
            for (at, item) in turn.items.iter().enumerate().skip(skipped) {
                let item = lines.item(turn, item, Detail::All);
                // At least one item is shown, so that reading goes on.
                let is_read = turn.first_unread().is_none_or(|end| (at as u64) < end);
                if !is_read || at > skipped && text.len() + item.len() > left {
                    shown.next = Some(BriefingPosition {
                        turn: turn.number,
                        item: at as u64,
                    });
                    break;
                }
                text += &item;
            }
            if shown.next.is_none() {
                text += &lines.end(turn);
            }
            left = left.saturating_sub(text.len());
            if !text.is_empty() {
                shown.turns.push((turn.number, text));
            }
            if shown.next.is_some() {
                break;
            }
        }
        if shown.next.is_none() && more {
            let turn = turns.last().map_or(from.turn, |turn| turn.number) + 1;
            shown.next = Some(BriefingPosition { turn, item: 0 });
        }
        shown.mark = lines.mark;
        shown
    }
}

impl WindowTurns {
    /// Begins to collect the current turn, if it is to be read.
    fn add(&mut self) {
        if self.number >= self.from.turn {
            let is_first = self.number == self.from.turn;
            let first = if is_first { self.from.item } else { 0 };
            let left = self.budget.saturating_sub(self.size());
            let turn = BriefingTurn::from_item(self.number, first, self.budget, left);
            self.read.push(turn);
        }
    }

    fn size(&self) -> usize {
        self.read.iter().map(BriefingTurn::size).sum()
    }

    /// The current turn, if it is read.
    fn reading(&mut self) -> Option<&mut BriefingTurn> {
        let number = self.number;
        self.read.last_mut().filter(|turn| turn.number == number)
    }
}

impl TurnSink for WindowTurns {
    fn begin(&mut self, turn: TurnStart<'_>) -> ControlFlow<()> {
        if turn.role != Role::User {
            if let Some(current) = self.reading() {
                current.answer = turn.number;
            }
            return ControlFlow::Continue(());
        }
        if self.size() >= self.budget {
            self.more = true;
            return ControlFlow::Break(());
        }
        self.number += 1;
        self.add();
        ControlFlow::Continue(())
    }

    fn current(&mut self) -> Option<&mut dyn TurnContent> {
        let turn = self.reading()?;
        Some(turn)
    }

    fn end(&mut self, number: u64, payload: &str) {
        let ended = self.read.iter_mut().find(|turn| turn.answer == number);
        if let Some(turn) = ended {
            turn.end = BriefingTurnEnd::of(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Kind;

    fn read(
        from: BriefingPosition,
        budget: usize,
        items: &[(Kind, serde_json::Value)],
    ) -> ShownTurns {
        let mut window = BriefingWindow::new(from, budget);
        for (kind, payload) in items {
            let payload = payload.to_string();
            let read = window.record(&Record::sample(*kind, None, &payload));
            if read.is_break() {
                break;
            }
        }
        window.finish()
    }

    fn conversation() -> Vec<(Kind, serde_json::Value)> {
        let mut items = Vec::new();
        for turn in 1..=5 {
            let text = format!("question {turn}");
            let prompt = json!({"prompt": [{"type": "text", "text": text}]});
            items.push((Kind::Prompt, prompt));
            for n in 1..=20 {
                let id = format!("{turn}-{n}");
                let call = json!({"sessionUpdate": "tool_call", "toolCallId": id,
                    "title": format!("step {id}"), "status": "pending"});
                items.push((Kind::Update, call));
                let content = json!([{"type": "content",
                    "content": {"type": "text", "text": format!("out {id} {}", "x".repeat(200))}}]);
                let result = json!({"sessionUpdate": "tool_call_update", "toolCallId": id,
                    "status": "completed", "content": content});
                items.push((Kind::Update, result));
            }
            let answer = json!({"sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": format!("answer {turn}")}});
            items.push((Kind::Update, answer));
            items.push((Kind::End, json!({"stopReason": "end_turn"})));
        }
        items
    }

    #[test]
    fn pages_show_everything_once() {
        let items = conversation();
        for budget in [300, 1000, 3000, 10_000, 1_000_000] {
            let (mut text, mut from, mut pages) = (String::new(), BriefingPosition::default(), 0);
            loop {
                let shown = read(from, budget, &items);
                let page: String = shown.turns.iter().map(|(_, text)| text.as_str()).collect();
                assert!(page.len() < budget + 600, "{} {budget}", page.len());
                text += &page;
                pages += 1;
                let Some(next) = shown.next else { break };
                assert!((next.turn, next.item) > (from.turn, from.item), "{next:?}");
                from = next;
            }
            assert!(pages > 1 || budget > 30_000);
            for turn in 1..=5 {
                assert_eq!(text.matches(&format!("question {turn}\n")).count(), 1);
                assert_eq!(text.matches(&format!("answer {turn}\n")).count(), 1);
                for n in 1..=20 {
                    let call = format!("tool call] step {turn}-{n} (completed)\n");
                    assert_eq!(text.matches(&call).count(), 1, "{budget} {call}");
                    assert!(text.contains(&format!("out {turn}-{n} x")), "{budget}");
                }
            }
        }
    }

    #[test]
    fn reading_may_begin_anywhere() {
        let items = conversation();
        let shown = read(BriefingPosition { turn: 4, item: 19 }, 2000, &items);
        assert_eq!(shown.turns[0].0, 4);
        let text = &shown.turns[0].1;
        assert!(text.starts_with("[rejoin-1: turn 4, continued]\n[rejoin-1: tool call] step 4-20"));
        assert!(
            shown.turns[1]
                .1
                .starts_with("[rejoin-1: turn 5, the user]\nquestion 5\n")
        );
        let beyond = read(BriefingPosition { turn: 9, item: 0 }, 2000, &items);
        assert!(beyond.turns.is_empty() && beyond.next.is_none());
    }

    #[test]
    fn a_long_result_is_clipped_to_the_budget() {
        let mut items = conversation();
        items.truncate(2);
        let long = json!([{"type": "content",
            "content": {"type": "text", "text": format!("A{}B", "x".repeat(50_000))}}]);
        items.push((
            Kind::Update,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1-1", "content": long}),
        ));
        let text = &read(BriefingPosition::default(), 4000, &items).turns[0].1;
        assert!(text.len() < 5000 && text.contains("\nAx") && text.contains("xB\n"));
        assert!(text.contains(" bytes …\n"), "{text}");
        let text = &read(BriefingPosition::default(), 100_000, &items).turns[0].1;
        assert!(text.len() > 50_000 && !text.contains('…'));
    }
}
