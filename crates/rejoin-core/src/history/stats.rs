//! Counts sessions, turns, tokens and cost by agent, model, folder and day.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json;
use crate::protocol::UpdateKind;
use crate::record::activity::{cost_at_end, model_at_end};
use crate::record::header::{Implementation, Workspace};
use crate::record::{Activity, Kind, OpenTurns, Record, snapshot_of};
use crate::sources::UNNAMED;
use crate::store::{LogReader, StoreError};
use crate::sys::Timestamp;

use super::prices::{BilledTokens, Prices};

/// The name of an answering agent whose name is not known.
const UNKNOWN: &str = "unknown";

/// Numbers of a group of turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// The sessions that have such a turn.
    pub sessions: u64,
    /// The turns.
    pub turns: u64,
    /// The tokens that agents reported for turns, by the names of the protocol, such as
    /// `totalTokens`.
    pub tokens: BTreeMap<String, u64>,
    /// The cost that agents reported, by currency.
    pub cost: BTreeMap<String, f64>,
    /// The cost of turns of which no agent reported any, by list prices, in US dollars.
    #[serde(skip)]
    pub computed: f64,
    /// The turns of which no agent reported a cost and whose model has no known price, or whose tokens are
    /// not known.
    #[serde(skip)]
    pub without_cost: u64,
}

impl Numbers {
    /// The members of a prompt's `usage` that are counted.
    const TOKENS: [&str; 6] = [
        "totalTokens",
        "inputTokens",
        "outputTokens",
        "thoughtTokens",
        "cachedReadTokens",
        "cachedWriteTokens",
    ];

    /// All tokens; none if no agent reported any.
    pub fn total_tokens(&self) -> Option<u64> {
        self.tokens.get("totalTokens").copied()
    }

    /// Adds other numbers.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        for (name, number) in &other.tokens {
            let sum = self.tokens.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*number);
        }
        for (currency, amount) in &other.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
        self.computed += other.computed;
        self.without_cost += other.without_cost;
    }

    /// The tokens as they are billed; none if no agent reported any.
    fn billed(&self) -> Option<BilledTokens> {
        let total = self.total_tokens()?;
        let of = |name: &str| self.tokens.get(name).copied().unwrap_or(0);
        let [input, output, thought, cached_read, cached_write] = [
            "inputTokens",
            "outputTokens",
            "thoughtTokens",
            "cachedReadTokens",
            "cachedWriteTokens",
        ]
        .map(of);
        // Some agents count thoughts as a part of the output, and all that was cached as a part of the
        // input.
        let cached = cached_read.saturating_add(cached_write);
        let sum = input.saturating_add(output);
        let (input, output) = if total == sum && cached + thought > 0 {
            (input.saturating_sub(cached), output)
        } else if total == sum.saturating_add(cached) {
            (input, output)
        } else if total == sum.saturating_add(thought) {
            (input.saturating_sub(cached), output.saturating_add(thought))
        } else {
            (input, output.saturating_add(thought))
        };
        Some(BilledTokens {
            input,
            output,
            cached_read,
            cached_write,
        })
    }

    fn usage(&mut self, usage: &str) {
        for name in Self::TOKENS {
            let number = json::text_member(usage, name).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                let sum: &mut u64 = self.tokens.entry(name.to_owned()).or_default();
                *sum = sum.saturating_add(number);
            }
        }
    }

    fn as_json(&self) -> Value {
        // A sum of amounts has digits that nobody has reported.
        let rounded = |amount: f64| (amount * 1e9).round() / 1e9;
        let cost = self
            .cost
            .iter()
            .map(|(currency, amount)| json!({ "amount": rounded(*amount), "currency": currency }));
        json!({
            "sessions": self.sessions,
            "turns": self.turns,
            "tokens": self.tokens,
            "cost": cost.collect::<Vec<_>>(),
            "computedCost": { "amount": rounded(self.computed), "currency": "USD" },
            "turnsWithoutCost": self.without_cost,
        })
    }
}

/// Groups of turns, by name.
pub type Groups = BTreeMap<String, Numbers>;

/// The statistics of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Everything that was counted.
    pub total: Numbers,
    /// By the agent that answered.
    pub agents: Groups,
    /// By the model, as the agent names it.
    pub models: Groups,
    /// By the working directory.
    pub folders: Groups,
    /// By the local day, such as `2026-11-23`.
    pub days: Groups,
    /// By the local month, such as `2026-11`.
    pub months: Groups,
}

impl Stats {
    /// The statistics of sessions, from their turns that began at this time or later. A turn that
    /// several of them have, as a fork has those of its source, is one of the session that began
    /// first.
    pub fn of(mut sessions: Vec<Vec<TurnStats>>, since: &str, prices: &Prices) -> Self {
        sessions.retain(|turns| !turns.is_empty());
        sessions.sort_by(|one, other| one[0].at.cmp(&other[0].at));
        let mut stats = Self::default();
        let mut known: HashMap<u64, usize> = HashMap::new();
        for (number, turns) in sessions.iter().enumerate() {
            let mut own = Self::default();
            for turn in turns {
                let is_own = *known.entry(turn.copies).or_insert(number) == number;
                if is_own && turn.at.as_str() >= since {
                    own.count(turn, prices);
                }
            }
            stats.add(own);
        }
        stats
    }

    /// Adds the numbers of a turn of the only session to each of its groups.
    fn count(&mut self, turn: &TurnStats, prices: &Prices) {
        let day = Timestamp::parse(&turn.at).map(Timestamp::local_day);
        let day = day.unwrap_or_default();
        let month = day.get(..7).unwrap_or_default().to_owned();
        let groups = [
            (&mut self.agents, &turn.agent),
            (&mut self.models, &turn.model),
            (&mut self.folders, &turn.folder),
            (&mut self.days, &day),
            (&mut self.months, &month),
        ];
        let of_turn = turn.priced(prices);
        let groups = groups.map(|(groups, name)| groups.entry(name.clone()).or_default());
        for numbers in [&mut self.total].into_iter().chain(groups) {
            numbers.add(&of_turn);
            numbers.sessions = 1;
        }
    }

    /// Adds other statistics to these.
    fn add(&mut self, other: Self) {
        self.total.add(&other.total);
        for (to, from) in [
            (&mut self.agents, other.agents),
            (&mut self.models, other.models),
            (&mut self.folders, other.folders),
            (&mut self.days, other.days),
            (&mut self.months, other.months),
        ] {
            for (name, numbers) in from {
                to.entry(name).or_default().add(&numbers);
            }
        }
    }

    /// The statistics as JSON, as `docs/stats.md` describes them, with where the prices are from.
    pub fn as_json(&self, prices: &Prices) -> Value {
        let groups = |groups: &Groups| {
            let groups = groups.iter().map(|(name, numbers)| {
                let mut group = numbers.as_json();
                group["name"] = name.as_str().into();
                group
            });
            groups.collect::<Vec<_>>()
        };
        json!({
            "total": self.total.as_json(),
            "agents": groups(&self.agents),
            "models": groups(&self.models),
            "folders": groups(&self.folders),
            "days": groups(&self.days),
            "months": groups(&self.months),
            "prices": { "from": prices.from, "date": prices.date },
        })
    }
}

/// A turn of a session: its numbers, and the groups to which it belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnStats {
    /// When it began.
    at: String,
    agent: String,
    model: String,
    folder: String,
    numbers: Numbers,
    /// A number that copies of the turn in other sessions have, too.
    copies: u64,
}

impl TurnStats {
    /// The numbers of the turn, with its cost by these prices if its agent reported none. The built-in
    /// engine costs nothing.
    fn priced(&self, prices: &Prices) -> Numbers {
        let mut numbers = self.numbers.clone();
        if numbers.cost.is_empty() && self.agent != crate::NAME {
            let tokens = numbers.billed();
            match tokens.and_then(|tokens| prices.cost(&self.model, tokens)) {
                Some(cost) => numbers.computed = cost,
                None => numbers.without_cost = 1,
            }
        }
        numbers
    }

    /// The turns of a session, from its log.
    pub fn all(reader: &mut LogReader) -> Result<Vec<Self>, StoreError> {
        let mut session = SessionFold::new(reader);
        while let Some(entry) = reader.next()? {
            session.record(&entry.record);
        }
        Ok(session.turns)
    }
}

/// A number that a turn with this prompt has in all sessions of the agent: from the prompt, and from
/// its id, or its time where the tool gives it none. Some tools change the time in a copy.
fn copies(agent: &str, prompt: &Record<'_>) -> u64 {
    let id = prompt.id.filter(|id| !id.starts_with(UNNAMED));
    let mut hash = md5::Context::new();
    for part in [agent, id.unwrap_or(prompt.at), prompt.payload] {
        hash.consume(part.len().to_le_bytes());
        hash.consume(part);
    }
    let hash = u128::from_le_bytes(hash.finalize().0);
    (hash >> 64) as u64
}

/// The turns of a session while its log is read.
#[derive(Debug)]
struct SessionFold {
    turns: Vec<TurnStats>,
    agent: String,
    folder: String,
    activity: Activity,
    /// The numbers of open turns.
    open: OpenTurns<usize>,
    /// The last cost, which grows with the session.
    cost: BTreeMap<String, f64>,
}

impl SessionFold {
    fn new(reader: &LogReader) -> Self {
        let header = reader.header();
        Self {
            turns: Vec::new(),
            agent: Implementation::shown(&header.engine.name).to_owned(),
            folder: header.workspace.cwd.clone(),
            activity: Activity::default(),
            open: OpenTurns::default(),
            cost: BTreeMap::new(),
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        if let Some(info) = snapshot_of(record.kind, record.payload) {
            let (kind, payload) = (Kind::Info, info.as_str());
            let record = Record {
                kind,
                payload,
                ..*record
            };
            return self.record(&record);
        }
        let (kind, payload) = (record.kind, record.payload);
        match kind {
            Kind::Prompt => {
                self.open.begin(record.id, self.turns.len());
                self.begin(record);
            }
            Kind::End => self.end(record.id, payload),
            Kind::AgentSessionId | Kind::Info => {
                self.activity.note(kind, record.id, &record.at, payload);
                if let Some(agent) = json::text_member(payload, "agent")
                    && kind == Kind::AgentSessionId
                    && let Some(name) = json::string_member(agent, "name")
                {
                    Implementation::shown(&name).clone_into(&mut self.agent);
                }
                let update = json::text_member(payload, "update").unwrap_or(payload);
                self.note_cost(update);
            }
            Kind::Update => self.note_cost(payload),
            Kind::UpdateParams => {
                self.note_cost(json::text_member(payload, "update").unwrap_or_default());
            }
            Kind::Reopen => {
                if let Ok(place) = serde_json::from_str::<Workspace>(payload) {
                    self.folder = place.cwd;
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, record: &Record<'_>) {
        let named = |name: &str| if name.is_empty() { UNKNOWN } else { name }.to_owned();
        self.turns.push(TurnStats {
            at: record.at.to_owned(),
            copies: copies(&self.agent, record),
            agent: named(&self.agent),
            model: named(self.activity.model.as_deref().unwrap_or_default()),
            folder: self.folder.clone(),
            numbers: Numbers {
                turns: 1,
                ..Numbers::default()
            },
        });
    }

    fn end(&mut self, id: Option<&str>, payload: &str) {
        if let Some(cost) = cost_at_end(payload) {
            self.add_cost(cost);
        }
        let ended = self.open.end(id);
        let Some(turn) = ended.last().and_then(|turn| self.turns.get_mut(*turn)) else {
            return;
        };
        if let Some(usage) = json::text_member(payload, "usage") {
            turn.numbers.usage(usage);
        }
        if let Some(model) = model_at_end(payload) {
            turn.model = model;
        }
    }

    /// Adds what the session's cost has grown by. A new agent begins at zero again.
    fn note_cost(&mut self, update: &str) {
        if UpdateKind::of(update.as_bytes()) != UpdateKind::Usage {
            return;
        }
        if let Some(cost) = json::text_member(update, "cost") {
            self.add_cost(cost);
        }
    }

    fn add_cost(&mut self, cost: &str) {
        let amount = json::text_member(cost, "amount").and_then(|amount| amount.parse().ok());
        let (Some(amount), Some(currency)) = (amount, json::string_member(cost, "currency")) else {
            return;
        };
        let before = self.cost.insert(currency.clone(), amount).unwrap_or(0.0);
        let more: f64 = if amount >= before {
            amount - before
        } else {
            amount
        };
        // What is reported between turns belongs to the one before.
        if let Some(turn) = self.turns.last_mut() {
            *turn.numbers.cost.entry(currency).or_default() += more;
        }
    }
}
