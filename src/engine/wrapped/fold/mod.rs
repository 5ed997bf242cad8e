//! Writes a conversation down as text, for an agent that does not know it.
//!
//! The newest turns are there word by word, older ones in short, and of the oldest only how many
//! there were: as much as a budget of bytes allows. A session may be far longer than that, so what
//! has no chance to be shown any more is let go of while the records come in.
//!
//! What was said is data: an agent must not take a tool's output for its user's words. So all that
//! is not content stands on lines of its own that begin with a mark, and the mark is chosen such
//! that it occurs nowhere in the content (`mark`, `page`). `turn` is what is kept of a turn, `call` of a
//! tool call, `clip` of a text, `block` of a picture or a file, `kept` of all; `node` reads payloads.

mod block;
mod call;
mod clip;
mod kept;
mod mark;
mod node;
mod page;
mod turn;
mod update;

use crate::record::{Kind, Record};

use kept::Kept;
use node::Node;
use page::Page;
use turn::{End, Turn};
use update::Update;

/// A larger budget counts as this one, in bytes: no line takes more.
const MOST: usize = 64 * 1024 * 1024;
/// The longest name of one, in characters.
const NAME: usize = 60;

/// A conversation as text, growing with each record.
#[derive(Debug)]
pub(super) struct Fold {
    budget: usize,
    kept: Kept,
    /// Who answers now, by its place among the agents.
    agent: Option<usize>,
    prompts: u64,
    current: Turn,
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
        }
    }

    /// Takes the next record of the session's log. Those of the prompt that the text is to precede
    /// are left to the caller to leave out.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        let payload = Node::root(record.payload);
        match record.kind {
            Kind::Session => self.answers(payload.get("engine")),
            Kind::Inner => self.answers(payload.get("agent")),
            Kind::Prompt => self.prompt(payload),
            Kind::Update | Kind::Output => self.update(payload),
            Kind::UpdateParams => {
                if let Some(update) = payload.get("update") {
                    self.update(update);
                }
            }
            Kind::End => self.current.end = End::of(payload),
            _ => {}
        }
    }

    /// The text; `None` if nothing was said, or if the budget has no room for a word of it.
    pub(super) fn finish(mut self) -> Option<String> {
        self.close();
        Page::new(self.budget, &self.kept).write()
    }

    /// Takes note of who answers from here on.
    fn answers(&mut self, party: Option<Node<'_>>) {
        let name = party.and_then(|party| party.get("name")?.short(NAME));
        let Some(name) = name else {
            return;
        };
        self.agent = self.kept.agent(name);
    }

    fn prompt(&mut self, params: Node<'_>) {
        self.close();
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
                self.current.agent = self.agent;
                self.current.agent_says(&update);
            }
            Some("tool_call" | "tool_call_update") => {
                self.current.agent = self.agent;
                self.current.call(&update);
            }
            Some("plan") => self.kept.plan = plan(&update),
            _ => {}
        }
    }

    /// Puts the current turn to the others.
    fn close(&mut self) {
        let next = Turn::new(self.prompts, self.budget);
        let turn = std::mem::replace(&mut self.current, next);
        if !turn.is_empty() {
            self.kept.push(turn, self.budget);
        }
    }
}

/// The most lines that are kept of a plan.
const PLAN_LINES: usize = 50;
/// The longest of them, in characters.
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
