//! `/think`: thoughts before an answer.

use super::turn::{Done, Turn, Voice};

/// Thinks the given text, or a default one, then answers.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let thought = if rest.trim().is_empty() {
        "I am asked to think. A thought is a message of its own kind: clients may fold it away, \
         and a replay brings it back as a thought. That is enough thinking."
    } else {
        rest
    };
    turn.say_alone(Voice::Thought, thought).await?;
    turn.say_all("That was a thought; this is the answer.")
        .await
}
