//! Renders a conversation as text, for an agent that does not have it.
//!
//! The newest turns are rendered word for word and older ones in short; of the oldest, only their
//! number is given. A budget of bytes decides how much. A session may be far longer than that, so
//! what no longer fits is dropped while the records are read.
//!
//! The conversation is data: an agent must not mistake a tool's output for its user's words. So
//! everything that is not content is on lines of its own that begin with a mark, and the mark
//! occurs nowhere in the content (`mark`, `page`). `turn` is what is kept of a turn, `call` of a
//! tool call, `clip` of a text, `block` of a picture or a file, `kept` of all turns; `node` reads
//! payloads.

mod block;
mod call;
mod clip;
mod kept;
mod mark;
mod node;
mod page;
mod turn;
mod update;

use crate::record::header::Implementation;
use crate::record::{Kind, OpenTurns, Record};

use kept::Kept;
use node::Node;
use page::Page;
use turn::{End, Turn};
use update::Update;

/// A larger budget is reduced to this one, in bytes, so that the text always fits into a line.
const MOST: usize = 64 * 1024 * 1024;
/// The longest name of an agent, in characters.
const NAME: usize = 60;

/// The first words of each text that is rendered here, by which copies of it are recognized.
pub(super) const OPENINGS: [&str; 4] = [
    page::WHOLE.opening,
    page::WHOLE.opening_in_short,
    page::LAST_TURN.opening,
    page::LAST_TURN.opening_in_short,
];

/// A conversation as text, built record by record.
#[derive(Debug)]
pub(super) struct Fold {
    budget: usize,
    kept: Kept,
    /// The name of the agent that answers now.
    agent: Option<String>,
    prompts: u64,
    current: Turn,
    /// Whether only the last turn is rendered.
    last_only: bool,
    /// The numbers of the turns that have not ended.
    open: OpenTurns<u64>,
}

impl Fold {
    /// A text of at most `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        let budget = budget.min(MOST);
        Self {
            budget,
            kept: Kept::default(),
            agent: None,
            prompts: 0,
            current: Turn::new(0, budget),
            open: OpenTurns::default(),
            last_only: false,
        }
    }

    /// The same for the last turn alone, for an agent that may not have all of that turn.
    pub(super) fn of_last_turn(budget: usize) -> Self {
        Self {
            last_only: true,
            ..Self::new(budget)
        }
    }

    /// Adds the next record of the session's log. The caller must leave out the records of the
    /// prompt that the text will precede.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        let payload = Node::root(record.payload);
        match record.kind {
            Kind::Session => self.answers(payload.get("engine")),
            Kind::AgentSessionId => self.answers(payload.get("agent")),
            Kind::Prompt => {
                self.prompt(payload);
                self.open.begin(record.id, self.prompts);
            }
            Kind::Update | Kind::Output => self.update(payload),
            Kind::UpdateParams => {
                if let Some(update) = payload.get("update") {
                    self.update(update);
                }
            }
            Kind::End => {
                let ended = self.open.end(record.id);
                match (record.id, ended.first()) {
                    (Some(_), Some(number)) if *number != self.current.number => {
                        self.kept.ended(*number, &End::of(payload));
                    }
                    // The turn that it ends is not known.
                    (Some(_), None) => {}
                    _ => self.current.end = End::of(payload),
                }
            }
            _ => {}
        }
    }

    /// The text; `None` if the conversation is empty, or if the budget is too small for any of it.
    pub(super) fn finish(mut self) -> Option<String> {
        self.close();
        let words = if self.last_only {
            &page::LAST_TURN
        } else {
            &page::WHOLE
        };
        Page::new(self.budget, &self.kept, words).write()
    }

    /// Sets the agent that answers from here on.
    fn answers(&mut self, party: Option<Node<'_>>) {
        let name = party.and_then(|party| party.get("name")?.short(NAME));
        if let Some(name) = name {
            self.agent = Some(Implementation::shown(&name).to_owned());
        }
    }

    /// The index of the current agent among those that have answered.
    fn answering(&mut self) -> Option<usize> {
        self.agent.as_deref().and_then(|name| self.kept.agent(name))
    }

    fn prompt(&mut self, params: Node<'_>) {
        if self.last_only {
            self.kept = Kept::default();
        } else {
            self.close();
        }
        self.prompts += 1;
        self.current = Turn::new(self.prompts, self.budget);
        for block in params.get("prompt").into_iter().flat_map(Node::elements) {
            self.current.user_says(block);
        }
    }

    fn update(&mut self, update: Node<'_>) {
        let update = Update::read(update);
        let name = update.name.and_then(|name| name.short(NAME));
        match name.as_deref() {
            Some("agent_message_chunk") => {
                self.current.agent = self.answering();
                self.current.agent_says(&update);
            }
            Some("tool_call" | "tool_call_update") => {
                self.current.agent = self.answering();
                self.current.call(&update);
            }
            Some("plan") => self.kept.plan = plan(&update),
            _ => {}
        }
    }

    /// Adds the current turn to the kept ones.
    fn close(&mut self) {
        let next = Turn::new(self.prompts, self.budget);
        let turn = std::mem::replace(&mut self.current, next);
        if !turn.is_empty() {
            self.kept.push(turn, self.budget);
        }
    }
}

/// The most lines of a plan that are kept.
const PLAN_LINES: usize = 50;
/// The longest of these lines, in characters.
const PLAN_LINE: usize = 200;

fn plan(update: &Update<'_>) -> Vec<String> {
    let entries = update.entries.into_iter().flat_map(Node::elements);
    let line = |entry: Node<'_>| {
        let content = entry.get("content")?.short(PLAN_LINE)?;
        let status = entry.get("status").and_then(|status| status.short(NAME));
        Some(format!("{}: {content}", status.unwrap_or_default()))
    };
    entries.filter_map(line).take(PLAN_LINES).collect()
}

#[cfg(test)]
mod tests;
