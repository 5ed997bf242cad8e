//! What a response of the agent means for a session besides its own request, and the reports that end
//! turns: at the response to a prompt in version 1 of the protocol, at a report of the agent's state in
//! version 2.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::conversation::prompt_blocks;
use crate::engine::{Block, EngineEvent};
use crate::json::string_member;
use crate::protocol::{Role, UpdateKind};
use crate::record::Kind;
use crate::transport::Outcome;

use crate::engine::agent::route::{SessionRoute, StateReport};

/// The action for the arrival of a response, before any message that follows it.
#[derive(Debug)]
pub(in crate::engine::agent) enum Awaited {
    TurnEnd(TurnEnd),
    Steering(Steering),
    /// A session was opened, with this route.
    Opened(Arc<SessionRoute>),
}

impl Awaited {
    /// The response has arrived.
    pub(super) fn arrived(self, outcome: &Outcome) {
        match self {
            Self::TurnEnd(end) => end.answered(outcome),
            Self::Steering(steering) => steering.answered(outcome),
            Self::Opened(route) => route.opened(),
        }
    }
}

/// Marks the end of a turn: handled when the response to its prompt arrives, before any message
/// that follows it.
#[derive(Debug)]
pub(in crate::engine::agent) struct TurnEnd {
    pub(in crate::engine::agent) route: Arc<SessionRoute>,
    /// The id of the message that is answered.
    pub(in crate::engine::agent) message_id: String,
    /// Resolves to whether the response ends the turn. `None` if the response only says that the
    /// agent has accepted the prompt.
    pub(in crate::engine::agent) is_end: Option<oneshot::Receiver<bool>>,
}

impl TurnEnd {
    fn answered(self, outcome: &Outcome) {
        match (self.is_end, outcome) {
            (Some(is_end), _) => end_turn(&self.route, self.message_id, is_end),
            (None, Ok(result)) => {
                let report = self.route.turn_accepted(&self.message_id, result);
                reported(&self.route, report);
            }
            // The turn ends with the error.
            (None, Err(_)) => self.route.turn_refused(&self.message_id),
        }
    }
}

/// Passes on reports of the agent's state. One that ends a turn comes with the end.
pub(super) fn reported(route: &SessionRoute, report: Option<StateReport>) {
    match report {
        Some(StateReport::Ends(turn, params)) => {
            // Sending fails if the turn was given up.
            turn.report.send(params).ok();
            end_turn(route, turn.message_id, turn.is_end);
        }
        Some(StateReport::States(reports)) => {
            for params in reports {
                // Sending fails if the session was closed.
                let state = EngineEvent::State(Some(params));
                route.out.send_blocking(state).ok();
            }
        }
        None => {}
    }
}

/// Marks the end of a turn among the session's events: later ones belong to other turns or to none.
fn end_turn(route: &SessionRoute, message_id: String, is_end: oneshot::Receiver<bool>) {
    let outputs = route.turn_ends(&message_id);
    // Both fail if the session was closed.
    if !outputs.is_empty() {
        route.out.send_blocking(EngineEvent::Block(outputs)).ok();
    }
    let ends = EngineEvent::Ends { message_id, is_end };
    route.out.send_blocking(ends).ok();
}

/// A message of the user in the middle of a turn, by a request of its own. It is recorded when the agent
/// has taken it.
#[derive(Debug)]
pub(in crate::engine::agent) struct Steering {
    route: Arc<SessionRoute>,
    /// The message's id.
    id: String,
    /// The updates that show it.
    said: Block,
}

impl Steering {
    /// The message with this id, by the parameters of the request.
    pub(in crate::engine::agent) fn new(route: &Arc<SessionRoute>, id: &str, params: &str) -> Self {
        route.with_normalizer(|normalizer| normalizer.steered(id, params));
        let mut said = Block::default();
        for block in prompt_blocks(params) {
            let chunk = UpdateKind::Chunk(Role::User).object();
            let chunk = chunk.raw("content", block);
            said.push(Kind::Output, &chunk.string("messageId", id).end());
        }
        Self {
            route: route.clone(),
            id: id.to_owned(),
            said,
        }
    }

    /// Records the message if the agent has taken it and has not shown it. The client shows it already.
    fn answered(self, outcome: &Outcome) {
        let answer = outcome.as_deref().ok();
        let answer = answer.and_then(|answer| string_member(answer, "outcome"));
        let is_taken = matches!(answer.as_deref(), Some("injected" | "startedNewTurn"));
        let is_due = self
            .route
            .with_normalizer(|normalizer| normalizer.steering_answered(&self.id, is_taken));
        if is_due {
            // Sending fails if the session was closed.
            let said = EngineEvent::Block(self.said);
            self.route.out.send_blocking(said).ok();
        }
    }
}
