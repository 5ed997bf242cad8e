//! Counts sessions, turns, tokens and cost by agent, model, folder and day.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json;
use crate::protocol::UpdateKind;
use crate::record::activity::cost_at_end;
use crate::record::header::{Implementation, Workspace};
use crate::record::{Activity, Kind, OpenTurns, Record, snapshot_of};
use crate::store::{Reader, StoreError};
use crate::sys::Timestamp;

/// What the agent that answers is called if its name is not known.
const UNKNOWN: &str = "unknown";

/// Numbers of a group of turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// The sessions that have such a turn.
    pub sessions: u64,
    /// The turns.
    pub turns: u64,
    /// The tokens that agents reported for turns, by the names of the protocol, such as
    /// `totalTokens`.
    pub tokens: BTreeMap<&'static str, u64>,
    /// The cost that agents reported, by currency.
    pub cost: BTreeMap<String, f64>,
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
            let sum = self.tokens.entry(name).or_default();
            *sum = sum.saturating_add(*number);
        }
        for (currency, amount) in &other.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
    }

    fn usage(&mut self, usage: &str) {
        for name in Self::TOKENS {
            let number = json::text_member(usage, name).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                let sum: &mut u64 = self.tokens.entry(name).or_default();
                *sum = sum.saturating_add(number);
            }
        }
    }

    fn as_json(&self) -> Value {
        let cost = self.cost.iter();
        let cost = cost.map(|(currency, amount)| json!({ "amount": amount, "currency": currency }));
        json!({
            "sessions": self.sessions,
            "turns": self.turns,
            "tokens": self.tokens,
            "cost": cost.collect::<Vec<_>>(),
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
}

impl Stats {
    /// Those of a session, from its log: of the turns that began at this time or later.
    pub fn of(reader: &mut Reader, since: &str) -> Result<Self, StoreError> {
        let mut session = Session::new(reader);
        while let Some(entry) = reader.next()? {
            session.record(&entry.record, since);
        }
        Ok(session.stats)
    }

    /// Adds other statistics to these.
    pub fn add(&mut self, other: Self) {
        self.total.add(&other.total);
        for (to, from) in [
            (&mut self.agents, other.agents),
            (&mut self.models, other.models),
            (&mut self.folders, other.folders),
            (&mut self.days, other.days),
        ] {
            for (name, numbers) in from {
                to.entry(name).or_default().add(&numbers);
            }
        }
    }

    /// The statistics as JSON, as `docs/stats.md` describes them.
    pub fn as_json(&self) -> Value {
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
        })
    }
}

/// The groups to which a turn belongs.
#[derive(Clone, Debug)]
struct Turn {
    agent: String,
    model: String,
    folder: String,
    day: String,
}

/// The statistics of a session while its log is read.
#[derive(Debug)]
struct Session {
    stats: Stats,
    agent: String,
    folder: String,
    activity: Activity,
    open: OpenTurns<Turn>,
    /// The turn that began last; what is reported between turns belongs to it.
    last: Option<Turn>,
    /// The last cost, which grows with the session.
    cost: BTreeMap<String, f64>,
}

impl Session {
    fn new(reader: &Reader) -> Self {
        let header = reader.header();
        Self {
            stats: Stats::default(),
            agent: Implementation::shown(&header.engine.name).to_owned(),
            folder: header.place.cwd.clone(),
            activity: Activity::default(),
            open: OpenTurns::default(),
            last: None,
            cost: BTreeMap::new(),
        }
    }

    fn record(&mut self, record: &Record<'_>, since: &str) {
        if let Some(info) = snapshot_of(record.kind, record.payload) {
            let (kind, payload) = (Kind::Info, info.as_str());
            let record = Record {
                kind,
                payload,
                ..*record
            };
            return self.record(&record, since);
        }
        let (kind, payload) = (record.kind, record.payload);
        match kind {
            Kind::Prompt => {
                let turn = (record.at >= since).then(|| self.begin(record.at));
                if let Some(turn) = &turn {
                    self.open.begin(record.id, turn.clone());
                }
                self.last = turn;
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

    fn begin(&mut self, at: &str) -> Turn {
        let named = |name: &str| if name.is_empty() { UNKNOWN } else { name }.to_owned();
        let day = Timestamp::parse(at).map(Timestamp::local_day);
        let turn = Turn {
            agent: named(&self.agent),
            model: named(self.activity.model.as_deref().unwrap_or_default()),
            folder: self.folder.clone(),
            day: day.unwrap_or_default(),
        };
        self.count(&turn, |numbers| {
            numbers.sessions = 1;
            numbers.turns += 1;
        });
        turn
    }

    fn end(&mut self, id: Option<&str>, payload: &str) {
        if let Some(cost) = cost_at_end(payload) {
            self.add_cost(cost);
        }
        let ended = self.open.end(id);
        if let Some(turn) = ended.last()
            && let Some(usage) = json::text_member(payload, "usage")
        {
            self.count(turn, |numbers| numbers.usage(usage));
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
        if let Some(turn) = self.last.clone() {
            self.count(&turn, |numbers| {
                *numbers.cost.entry(currency.clone()).or_default() += more;
            });
        }
    }

    /// Changes the numbers of each group of a turn.
    fn count(&mut self, turn: &Turn, change: impl Fn(&mut Numbers)) {
        let stats = &mut self.stats;
        change(&mut stats.total);
        for (groups, name) in [
            (&mut stats.agents, &turn.agent),
            (&mut stats.models, &turn.model),
            (&mut stats.folders, &turn.folder),
            (&mut stats.days, &turn.day),
        ] {
            change(groups.entry(name.clone()).or_default());
        }
    }
}
