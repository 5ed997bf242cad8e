//! A turn: a message of the user, or all that the agent said and did until the next one.

use crate::json::{self, Object};
use crate::protocol::Role;

use super::call::TurnCalls;
use super::end::end_members;
use super::entry::{Entry, prompt_blocks};
use super::message::MessageContent;
use super::splitter::TurnContent;

/// A turn, as far as its records have been read.
#[derive(Debug)]
pub struct TurnFold {
    role: Role,
    at: String,
    message_id: Option<String>,
    content: MessageContent,
    thoughts: MessageContent,
    calls: TurnCalls,
    /// The entries of the last plan.
    plan: Option<String>,
    /// The payload of the record that ended it.
    end: String,
    budget: usize,
    truncated: bool,
}

impl TurnFold {
    /// A turn that began at this time, in a record's format. It holds at most `longest` bytes.
    pub fn new(role: Role, at: &str, longest: usize) -> Self {
        Self {
            role,
            at: at.to_owned(),
            message_id: None,
            content: MessageContent::default(),
            thoughts: MessageContent::default(),
            calls: TurnCalls::default(),
            plan: None,
            end: String::new(),
            budget: longest,
            truncated: false,
        }
    }

    /// The speaker.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Adds the payload of the record that ended it: a stop reason, an error or an interruption.
    pub fn end(&mut self, payload: &str) {
        payload.clone_into(&mut self.end);
    }

    /// The JSON object behind a text.
    pub fn write(&self, text: String) -> String {
        let role = match self.role {
            Role::User => "user",
            Role::Agent | Role::Thought => "assistant",
        };
        let mut turn = Object::behind(text)
            .string("role", role)
            .string("timestamp", &self.at)
            .written("content", |text| self.content.write(text))
            .optional("messageId", self.message_id.as_deref());
        if !self.calls.is_empty() {
            turn = turn.written("toolCalls", |text| self.calls.write(text));
        }
        if !self.thoughts.is_empty() {
            turn = turn.written("thoughts", |text| self.thoughts.write(text));
        }
        let turn = turn
            .optional("plan", self.plan.as_deref())
            .optional("truncated", self.truncated.then_some("true"));
        let ends = end_members(&self.end).into_iter();
        ends.fold(turn, |turn, (name, value)| turn.raw(name, value))
            .end()
    }
}

impl TurnContent for TurnFold {
    fn prompt(&mut self, id: Option<&str>, payload: &str) {
        self.message_id = id.map(|id| format!("\"{id}\""));
        for block in prompt_blocks(payload) {
            // Each block stays as the user sent it, so they are not joined.
            self.content.close();
            self.truncated |= !self.content.add(block, "", &mut self.budget);
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Chunk(chunk) => {
                let message = chunk.message;
                for block in chunk.blocks() {
                    if chunk.role == Role::User && self.message_id.is_none() {
                        self.message_id = json::text_body(message).map(|_| message.to_owned());
                    }
                    let content = match chunk.role {
                        Role::Thought => &mut self.thoughts,
                        Role::User | Role::Agent => &mut self.content,
                    };
                    if chunk.alone.is_some() {
                        content.close();
                    }
                    self.truncated |= !content.add(&block, message, &mut self.budget);
                    if chunk.alone.is_some() {
                        content.close();
                    }
                }
            }
            Entry::Call(update) => {
                self.content.close();
                self.thoughts.close();
                self.truncated |= !self.calls.apply(update, &mut self.budget);
            }
            Entry::Plan(entries) => {
                let before = self.plan.as_ref().map_or(0, String::len);
                match (self.budget + before).checked_sub(entries.len()) {
                    Some(left) => {
                        self.budget = left;
                        self.plan = Some((*entries).to_owned());
                    }
                    None => self.truncated = true,
                }
            }
            Entry::Other => {}
        }
    }
}
