//! Marks where turns end among the events of a session: at the response to a prompt in version 1 of the
//! protocol, at a report of the agent's state in version 2.

use tokio::sync::oneshot;

use crate::engine::EngineEvent;
use crate::transport::Outcome;

use super::connection::TurnEnd;
use super::route::{SessionRoute, StateReport};
use super::terminals;

/// The agent has responded to a prompt.
pub(super) fn prompt_answered(end: TurnEnd, outcome: &Outcome) {
    match (end.is_end, outcome) {
        (Some(is_end), _) => end_turn(&end.route, end.message_id, is_end),
        (None, Ok(result)) => {
            let report = end.route.turn_accepted(&end.message_id, result);
            reported(&end.route, report);
        }
        // The turn ends with the error.
        (None, Err(_)) => end.route.turn_refused(&end.message_id),
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
    let outputs = terminals::output_block(route.turn_ends(&message_id));
    // Both fail if the session was closed.
    if !outputs.is_empty() {
        route.out.send_blocking(EngineEvent::Block(outputs)).ok();
    }
    let ends = EngineEvent::Ends { message_id, is_end };
    route.out.send_blocking(ends).ok();
}
