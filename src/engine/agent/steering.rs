//! Messages of the user in the middle of a turn, by a request of their own.

use std::sync::Arc;

use crate::engine::{Block, EngineEvent};
use crate::json::{self, string_member};
use crate::protocol::{Role, UpdateKind};
use crate::record::Kind;
use crate::transport::Outcome;

use super::route::SessionRoute;

/// A message that is recorded when the agent has taken it.
#[derive(Debug)]
pub(super) struct Steering {
    route: Arc<SessionRoute>,
    /// The message's id.
    id: String,
    /// The updates that show it.
    said: Vec<String>,
}

impl Steering {
    /// The message with this id, by the parameters of the request.
    pub(super) fn new(route: &Arc<SessionRoute>, id: &str, params: &str) -> Self {
        route.with_normalizer(|normalizer| normalizer.steered(id, params));
        let mut said = Vec::new();
        let mut blocks = json::member_elements(params.as_bytes(), 0, "prompt");
        while let Some(block) = blocks.as_mut().and_then(json::Parts::element) {
            let chunk = UpdateKind::Chunk(Role::User).object();
            let chunk = chunk.raw("content", &params[block]);
            said.push(chunk.string("messageId", id).end());
        }
        Self {
            route: route.clone(),
            id: id.to_owned(),
            said,
        }
    }

    /// Records the message if the agent has taken it and has not shown it. The client shows it already.
    pub(super) fn answered(self, outcome: &Outcome) {
        let answer = outcome.as_deref().ok();
        let answer = answer.and_then(|answer| string_member(answer, "outcome"));
        let is_taken = matches!(answer.as_deref(), Some("injected" | "startedNewTurn"));
        let is_due = self
            .route
            .with_normalizer(|normalizer| normalizer.steering_answered(&self.id, is_taken));
        if !is_due {
            return;
        }
        let mut block = Block::default();
        for update in &self.said {
            block.push(Kind::Output, update);
        }
        // Sending fails if the session was closed.
        let event = EngineEvent::Block(block);
        self.route.out.send_blocking(event).ok();
    }
}
