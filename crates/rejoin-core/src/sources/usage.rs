//! The costs of answers, in tokens and in money, as far as a tool has recorded them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::record::Kind;

use super::conversation::NewRecord;

/// The cost of an answer. Each token counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Tokens that the model was given, without those from a cache or for it.
    pub(super) input: u64,
    /// Tokens of the answer, without those of thoughts if they are known.
    pub(super) output: u64,
    pub(super) thought: u64,
    pub(super) cached_read: u64,
    pub(super) cached_write: u64,
    /// In US dollars.
    pub(super) cost: f64,
}

impl Spent {
    fn total(&self) -> u64 {
        let all = [
            self.input,
            self.output,
            self.thought,
            self.cached_read,
            self.cached_write,
        ];
        all.into_iter().fold(0, u64::saturating_add)
    }

    /// Adds another cost.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.thought, other.thought),
            (&mut self.cached_read, other.cached_read),
            (&mut self.cached_write, other.cached_write),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cost += other.cost;
    }

    /// The tokens in the `usage` of a prompt's answer.
    fn of_usage(usage: &Value) -> Self {
        Self {
            input: number(&usage["inputTokens"]),
            output: number(&usage["outputTokens"]),
            thought: number(&usage["thoughtTokens"]),
            cached_read: number(&usage["cachedReadTokens"]),
            cached_write: number(&usage["cachedWriteTokens"]),
            cost: 0.0,
        }
    }

    /// The `usage` of a prompt's answer in the protocol.
    fn usage(&self) -> Value {
        let mut usage = json!({
            "inputTokens": self.input,
            "outputTokens": self.output,
            "totalTokens": self.total(),
        });
        for (name, number) in [
            ("thoughtTokens", self.thought),
            ("cachedReadTokens", self.cached_read),
            ("cachedWriteTokens", self.cached_write),
        ] {
            if number > 0 {
                usage[name] = number.into();
            }
        }
        usage
    }
}

/// The costs of a conversation's answers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The costs of the messages of the turn, by their ids: tools record a message in several
    /// parts.
    turn: BTreeMap<String, Spent>,
    /// What the conversation has cost so far, if the tool has recorded that in this turn.
    pub(super) total: Option<f64>,
    /// The sum of all turns that were written so far.
    cost: f64,
}

impl Ledger {
    /// Notes what a message has cost. Of several numbers for one message, the largest count.
    pub(super) fn note(&mut self, message: &str, spent: Spent) {
        let known = self.turn.entry(message.to_owned()).or_default();
        if spent.total() >= known.total() {
            *known = spent;
        }
    }

    /// What the turn has cost by its messages, and the total that was recorded in it. The next turn
    /// begins.
    pub(super) fn take(&mut self) -> (BTreeMap<String, Spent>, Option<f64>) {
        (std::mem::take(&mut self.turn), self.total.take())
    }

    /// Makes an earlier turn a part of this one.
    pub(super) fn put_back(&mut self, turn: BTreeMap<String, Spent>, total: Option<f64>) {
        for (message, spent) in turn {
            self.note(&message, spent);
        }
        self.total = self.total.or(total);
    }

    /// Adds what a turn has cost to its end: see [`take`](Self::take).
    pub(super) fn end(
        &mut self,
        turn: &BTreeMap<String, Spent>,
        total: Option<f64>,
        end: &str,
    ) -> String {
        let mut spent = Spent::default();
        for of_message in turn.values() {
            spent.add(of_message);
        }
        let mut end: Value = serde_json::from_str(end).unwrap_or_default();
        if spent.total() > 0 {
            end["usage"] = spent.usage();
        }
        let cost = total.unwrap_or(self.cost + spent.cost);
        if spent.cost > 0.0 || total.is_some() {
            self.cost = cost;
            let cost = json!({ "amount": cost, "currency": "USD" });
            end["_meta"] = json!({ "rejoin": { "cost": cost } });
        }
        end.to_string()
    }
}

/// The end of a turn with the model that answered it.
pub(super) fn with_model(end: &str, model: String) -> String {
    let mut end: Value = serde_json::from_str(end).unwrap_or_default();
    end["_meta"]["rejoin"]["model"] = model.into();
    end.to_string()
}

/// Adds what a subagent has cost to the end of the turn that has the entry at `place`, or of the
/// last turn.
pub(super) fn add_to_turn(entries: &mut [NewRecord], place: usize, spent: &Spent) {
    if *spent == Spent::default() {
        return;
    }
    let is_end = |entry: &NewRecord| entry.kind == Kind::End;
    let after = entries.iter().skip(place).position(is_end);
    let at = after.map(|at| place + at);
    let Some(at) = at.or_else(|| entries.iter().rposition(is_end)) else {
        return;
    };
    for (n, entry) in entries.iter_mut().enumerate().skip(at) {
        if !is_end(entry) {
            continue;
        }
        let mut end: Value = serde_json::from_str(&entry.payload).unwrap_or_default();
        if n == at {
            let mut sum = Spent::of_usage(&end["usage"]);
            sum.add(spent);
            if sum.total() > 0 {
                end["usage"] = sum.usage();
            }
        }
        if spent.cost > 0.0 {
            let known = end["_meta"]["rejoin"]["cost"]["amount"].as_f64();
            let cost = json!({ "amount": known.unwrap_or(0.0) + spent.cost, "currency": "USD" });
            if n == at || known.is_some() {
                end["_meta"]["rejoin"]["cost"] = cost;
            }
        }
        entry.payload = end.to_string();
        if spent.cost <= 0.0 {
            return;
        }
    }
}

/// A number in a record, 0 if it has none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends the turn, and reads its end.
    fn end(ledger: &mut Ledger) -> Value {
        let (turn, total) = ledger.take();
        let end = ledger.end(&turn, total, r#"{"stopReason":"end_turn"}"#);
        serde_json::from_str(&end).unwrap()
    }

    fn of(input: u64, output: u64, cost: f64) -> Spent {
        Spent {
            input,
            output,
            cost,
            ..Spent::default()
        }
    }

    #[test]
    fn messages_of_a_turn_are_added_up_and_parts_of_one_are_not() {
        let mut ledger = Ledger::default();
        ledger.note("a", of(10, 1, 0.25));
        ledger.note("a", of(10, 5, 0.25));
        ledger.note("b", of(20, 2, 0.5));
        let ended = end(&mut ledger);
        assert_eq!(
            ended["usage"],
            json!({ "inputTokens": 30, "outputTokens": 7, "totalTokens": 37 })
        );
        let cost = |end: &Value| end["_meta"]["rejoin"]["cost"]["amount"].as_f64();
        assert_eq!(cost(&ended), Some(0.75));
        ledger.note("c", of(0, 0, 0.25));
        assert_eq!(cost(&end(&mut ledger)), Some(1.0));
        assert_eq!(end(&mut ledger), json!({ "stopReason": "end_turn" }));
        ledger.note("d", of(1, 1, 0.25));
        ledger.total = Some(4.0);
        assert_eq!(cost(&end(&mut ledger)), Some(4.0));
    }

    #[test]
    fn a_turn_has_the_cost_of_its_subagents() {
        let mut ledger = Ledger::default();
        let mut entries = Vec::new();
        for message in ["a", "b"] {
            ledger.note(message, of(1, 1, 0.25));
            entries.push(NewRecord {
                at: crate::sys::Timestamp::from_millis(0),
                kind: Kind::End,
                id: None,
                payload: end(&mut ledger).to_string(),
            });
        }
        add_to_turn(&mut entries, 0, &of(10, 5, 0.5));
        add_to_turn(&mut entries, 7, &of(3, 0, 0.0));
        let ends = entries.iter().map(|entry| {
            let end: Value = serde_json::from_str(&entry.payload).unwrap();
            let cost = end["_meta"]["rejoin"]["cost"]["amount"].as_f64();
            (end["usage"]["totalTokens"].as_u64(), cost)
        });
        let expected = [(Some(17), Some(0.75)), (Some(5), Some(1.0))];
        assert_eq!(ends.collect::<Vec<_>>(), expected);
    }
}
