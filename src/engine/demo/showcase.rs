//! `/demo`: one of each kind of update in a single turn, for people who build user interfaces.

use super::args::{not_a_pause, pause_between_steps};
use super::image;
use super::plan;
use super::sample::Sample;
use super::tool;
use super::turn::{Done, Turn, Voice};

/// A thought, text, a plan, tool calls, an image and text, with updates of the plan in between.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let Some(pause) = pause_between_steps(rest) else {
        return turn.say_all(&not_a_pause("/demo", rest)).await;
    };
    let thought = "One of each: a thought, some text, a plan, tool calls, a picture.";
    turn.say_alone(Voice::Thought, thought).await?;
    turn.pause(pause).await?;
    let text = "This turn shows one of each. No file is touched and nothing is run.";
    turn.say_alone(Voice::Answer, text).await?;
    turn.pause(pause).await?;
    plan::show(turn, 0, false).await?;
    turn.pause(pause).await?;
    plan::show(turn, 0, true).await?;
    tool::show(turn, &Sample::of("read", turn.cwd()), pause, false).await?;
    plan::show(turn, 1, true).await?;
    turn.say_alone(
        Voice::Answer,
        "That was a tool call that reads; next, one that edits.",
    )
    .await?;
    tool::show(turn, &Sample::of("edit", turn.cwd()), pause, false).await?;
    plan::show(turn, 2, true).await?;
    image::show(turn).await?;
    turn.pause(pause).await?;
    plan::show(turn, 3, false).await?;
    turn.say_all("That was one of each.").await
}
