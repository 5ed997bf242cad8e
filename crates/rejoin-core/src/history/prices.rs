//! Prices of models, for turns whose cost no agent or tool has recorded.
//!
//! The table comes from LiteLLM, by `packaging/prices/make.py`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The table of the program.
const TABLE: &str = include_str!("prices.json");

/// List prices of models.
#[derive(Debug, Deserialize)]
pub struct Prices {
    /// Where they are from, such as `litellm 1.2.3`.
    pub from: String,
    /// The day on which they were taken from there, such as `2026-11-27`.
    pub date: String,
    /// By the names of models, in US dollars for a million tokens: what the model is given, what it
    /// says, what it is given from a cache, and what it is given and put into one.
    models: BTreeMap<String, [f64; 4]>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BilledTokens {
    /// Given to the model, without those from a cache or for it.
    pub input: u64,
    /// Said by the model, thoughts included.
    pub output: u64,
    /// Given to the model from a cache.
    pub cached_read: u64,
    /// Given to the model and put into a cache.
    pub cached_write: u64,
}

impl Prices {
    /// The table of the program.
    pub fn own() -> Self {
        serde_json::from_str(TABLE).expect("the table of the program is one")
    }

    /// Another table in the same form, as JSON text.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// What these tokens of a model cost by these prices, in US dollars; none if the table does not have
    /// the model.
    #[expect(
        clippy::cast_precision_loss,
        reason = "no turn has so many tokens that their last digits matter"
    )]
    pub fn cost(&self, model: &str, tokens: BilledTokens) -> Option<f64> {
        let [input, output, read, write] = self.of(model)?;
        let parts = [
            (tokens.input, input),
            (tokens.output, output),
            (tokens.cached_read, read),
            (tokens.cached_write, write),
        ];
        let millionths = parts.map(|(tokens, price)| tokens as f64 * price);
        Some(millionths.iter().sum::<f64>() / 1e6)
    }

    /// The prices of a model, which tools may name with its provider before it, and with a date or in
    /// brackets the size of its context behind it.
    fn of(&self, model: &str) -> Option<[f64; 4]> {
        let model = model.rsplit('/').next()?;
        let model = model.split('[').next()?;
        let (plain, date) = model.rsplit_once('-').unwrap_or((model, ""));
        let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
        let undated = self.models.get(plain).filter(|_| is_date);
        self.models.get(model).or(undated).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_the_names_that_tools_give_them() {
        let table = r#"{"from":"x","date":"2026-01-01","models":{"small":[1,2,0.1,1.5],"big-20250101":[3,4,3,3]}}"#;
        let prices = Prices::parse(table.as_bytes()).unwrap();
        let one = BilledTokens {
            input: 1_000_000,
            ..BilledTokens::default()
        };
        for (model, cost) in [
            ("small", Some(1.0)),
            ("provider/small", Some(1.0)),
            ("small-20260301", Some(1.0)),
            ("small[1m]", Some(1.0)),
            ("big-20250101", Some(3.0)),
            ("big", None),
            ("small-2", None),
            ("", None),
        ] {
            assert_eq!(prices.cost(model, one), cost, "{model}");
        }
        let tokens = BilledTokens {
            input: 10,
            output: 20,
            cached_read: 100,
            cached_write: 4,
        };
        let cost = prices.cost("small", tokens).unwrap();
        assert!((cost - 66e-6).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn the_table_of_the_program_has_the_models_of_the_day() {
        let prices = Prices::own();
        assert!(prices.models.len() > 100);
        for (model, [input, output, ..]) in &prices.models {
            assert!(*input > 0.0 && *output > 0.0, "{model}");
        }
    }
}
