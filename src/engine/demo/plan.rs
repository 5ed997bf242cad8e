//! `/plan`: a plan whose steps are completed one by one.

use super::args::{not_a_pause, pause_between_steps};
use super::turn::{Done, Sent, Turn};
use super::update::{Status, Step, plan};

/// The steps of the plan, with their priorities.
const STEPS: [(&str, &str); 3] = [
    ("Read what was asked", "high"),
    ("Think about it", "medium"),
    ("Write the answer", "low"),
];

/// Shows the plan, each step as it begins and ends, then an answer.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let Some(pause) = pause_between_steps(rest) else {
        return turn.say_all(&not_a_pause("/plan", rest)).await;
    };
    show(turn, 0, false).await?;
    for done in 0..STEPS.len() {
        show(turn, done, true).await?;
        turn.pause(pause).await?;
    }
    show(turn, STEPS.len(), false).await?;
    turn.say_all("All three steps of the plan are done.").await
}

/// Shows the plan with `done` steps completed, and the next one begun or not.
pub(super) async fn show(turn: &Turn<'_>, done: usize, begun: bool) -> Sent {
    let steps = STEPS
        .iter()
        .enumerate()
        .map(|(at, &(content, priority))| Step {
            content,
            priority,
            status: match at {
                _ if at < done => Status::Completed,
                _ if at == done && begun => Status::InProgress,
                _ => Status::Pending,
            },
        });
    turn.send(plan(&steps.collect::<Vec<_>>())).await
}
