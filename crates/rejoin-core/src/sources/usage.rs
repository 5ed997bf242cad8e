//! The costs of answers, in tokens and in money, as far as a tool has recorded them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

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

    fn add(&mut self, other: &Self) {
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
    /// The sum of all turns so far.
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

    /// Adds what the turn has cost to its end.
    pub(super) fn end_turn(&mut self, end: &str) -> String {
        let mut spent = Spent::default();
        for of_message in std::mem::take(&mut self.turn).values() {
            spent.add(of_message);
        }
        let mut end: Value = serde_json::from_str(end).unwrap_or_default();
        if spent.total() > 0 {
            end["usage"] = spent.usage();
        }
        if spent.cost > 0.0 {
            self.cost += spent.cost;
            let cost = json!({ "amount": self.cost, "currency": "USD" });
            end["_meta"] = json!({ "rejoin": { "cost": cost } });
        }
        end.to_string()
    }
}

/// A number in a record, 0 if it has none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_turn_are_added_up_and_parts_of_one_are_not() {
        let mut ledger = Ledger::default();
        let of = |input, output, cost| Spent {
            input,
            output,
            cost,
            ..Spent::default()
        };
        ledger.note("a", of(10, 1, 0.25));
        ledger.note("a", of(10, 5, 0.25));
        ledger.note("b", of(20, 2, 0.5));
        let end = ledger.end_turn(r#"{"stopReason":"end_turn"}"#);
        let end: Value = serde_json::from_str(&end).unwrap();
        assert_eq!(
            end["usage"],
            json!({ "inputTokens": 30, "outputTokens": 7, "totalTokens": 37 })
        );
        assert_eq!(end["_meta"]["rejoin"]["cost"]["amount"], 0.75);
        ledger.note("c", of(0, 0, 0.25));
        let end: Value = serde_json::from_str(&ledger.end_turn("{}")).unwrap();
        assert_eq!(end["_meta"]["rejoin"]["cost"]["amount"], 1.0);
        assert_eq!(ledger.end_turn("{}"), "{}");
    }
}
