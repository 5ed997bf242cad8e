//! `/think`, `/plan`, `/image`, `/resource` and `/demo`: what a turn can show besides text and tool
//! calls.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, Plan, PlanEntry,
    PlanEntryPriority as Priority, PlanEntryStatus as Status, ResourceLink, SessionUpdate,
    TextResourceContents, ToolKind,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::args::{LONGEST_SECONDS, seconds};
use super::command::{DemoCommand, usage};
use super::simulated_tool;
use super::turn::{DemoTurn, Done, Sent};
use crate::engine::StopReason;
use crate::protocol::Role;

/// The steps of the plan.
const STEPS: [(&str, Priority); 3] = [
    ("Read what was asked", Priority::High),
    ("Think about it", Priority::Medium),
    ("Write the answer", Priority::Low),
];

/// A PNG file of 48 by 48 pixels in Base64: a ring on white, its left half teal and its right half
/// orange.
const RING: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAwAgMAAAAqbBEUAAAACVBMVEX///8OdJDqWAwq6KGHAAAAhklEQVR42rWR",
    "sQ2AMAwEHaQ09CzBFIxAgffJKClRpkRvJ4gHpQCJVD7Zedn/Il+flkut5aQIyBUmwO51UEBJbQqQ2xRgr1oqUqqe",
    "6ioyOgQ00Er2fwPMphAxhblsYgtgMLkb+CJPcDHI/Qv9Dfpb03F0NhlCVrGJZC8ZT5FQWBwjBczRv3wHSm9ZI5WL",
    "tfgAAAAASUVORK5CYII=",
);

/// The text that is embedded.
const NOTE: &str = "# A note\n\nThis text was embedded by the agent; there is no such file.\n";

/// Thinks the given text, or a default one, then answers.
pub(super) async fn think(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let thought = if rest.trim().is_empty() {
        "This is a thought. It is a message of its own kind: clients may fold it, and a replay \
         sends it as a thought again."
    } else {
        rest
    };
    turn.say_alone(Role::Thought, thought).await?;
    turn.say_all("That was a thought; this is the answer.")
        .await
}

/// Shows the plan, each step as it begins and ends, then an answer.
pub(super) async fn plan(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let Some(pause) = pause_between_steps(rest) else {
        return turn.say_all(&not_a_pause(DemoCommand::Plan, rest)).await;
    };
    show_plan(turn, 0, false).await?;
    for done in 0..STEPS.len() {
        show_plan(turn, done, true).await?;
        turn.pause(pause).await?;
    }
    show_plan(turn, STEPS.len(), false).await?;
    turn.say_all("All three steps of the plan are done.").await
}

/// Shows the plan with `done` steps completed, and the next one begun or not.
async fn show_plan(turn: &DemoTurn<'_>, done: usize, begun: bool) -> Sent {
    let entries = STEPS.iter().enumerate().map(|(at, (content, priority))| {
        let status = match at {
            _ if at < done => Status::Completed,
            _ if at == done && begun => Status::InProgress,
            _ => Status::Pending,
        };
        PlanEntry::new(*content, priority.clone(), status)
    });
    let plan = Plan::new(entries.collect());
    turn.send(&SessionUpdate::Plan(plan)).await
}

/// Answers with text, an image and more text, all in one message.
pub(super) async fn image(turn: &DemoTurn<'_>) -> Done {
    show_image(turn).await?;
    Ok(StopReason::EndTurn)
}

async fn show_image(turn: &DemoTurn<'_>) -> Sent {
    let message = turn.begin(Role::Agent);
    turn.say(&message, "Here is an image:\n\n").await?;
    let image = ImageContent::new(RING, "image/png");
    turn.chunk(&message, &ContentBlock::Image(image)).await?;
    let caption = "\n\nA ring of 48 by 48 pixels, teal on the left and orange on the right.\n";
    turn.say(&message, caption).await
}

/// Answers with text, an embedded text and a link, all in one message.
pub(super) async fn resource(turn: &DemoTurn<'_>) -> Done {
    let path = Path::new(turn.cwd()).join("note.md");
    let uri = file_uri(&path.to_string_lossy());
    let message = turn.begin(Role::Agent);
    turn.say(&message, "Here are an embedded text, and a link to it:\n\n")
        .await?;
    let note = TextResourceContents::new(NOTE, &uri).mime_type("text/markdown");
    let note = EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(note));
    turn.chunk(&message, &ContentBlock::Resource(note)).await?;
    let link = ResourceLink::new("note.md", uri)
        .description("An example; there is no such file")
        .mime_type("text/markdown")
        .size(i64::try_from(NOTE.len()).ok());
    turn.chunk(&message, &ContentBlock::ResourceLink(link))
        .await?;
    Ok(StopReason::EndTurn)
}

/// The characters of a path that a URI escapes.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// The URI of a file with this absolute path.
fn file_uri(path: &str) -> String {
    let path = if cfg!(windows) {
        Cow::Owned(path.replace('\\', "/"))
    } else {
        Cow::Borrowed(path)
    };
    let root = if path.starts_with('/') { "" } else { "/" };
    format!("file://{root}{}", utf8_percent_encode(&path, &ESCAPED))
}

/// A thought, text, a plan, tool calls, an image and text, with updates of the plan in between.
pub(super) async fn demo(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let Some(pause) = pause_between_steps(rest) else {
        return turn.say_all(&not_a_pause(DemoCommand::Demo, rest)).await;
    };
    let thought = "One of each: a thought, some text, a plan, tool calls, an image.";
    turn.say_alone(Role::Thought, thought).await?;
    turn.pause(pause).await?;
    let text = "This turn shows one of each. No file is touched and nothing is run.";
    turn.say_alone(Role::Agent, text).await?;
    turn.pause(pause).await?;
    show_plan(turn, 0, false).await?;
    turn.pause(pause).await?;
    show_plan(turn, 0, true).await?;
    simulated_tool::show(turn, ToolKind::Read, pause, false).await?;
    show_plan(turn, 1, true).await?;
    turn.say_alone(
        Role::Agent,
        "That was a tool call that reads; next, one that edits.",
    )
    .await?;
    simulated_tool::show(turn, ToolKind::Edit, pause, false).await?;
    show_plan(turn, 2, true).await?;
    show_image(turn).await?;
    turn.pause(pause).await?;
    show_plan(turn, 3, false).await?;
    turn.say_all("That was one of each.").await
}

/// The pause between steps that a command was given; none by default.
fn pause_between_steps(rest: &str) -> Option<Duration> {
    match rest.split_whitespace().next() {
        None => Some(Duration::ZERO),
        Some(word) => seconds(word),
    }
}

/// The answer to an invalid pause.
fn not_a_pause(command: DemoCommand, rest: &str) -> String {
    let explanation =
        format!("SECONDS is the pause between the steps, from 0 to {LONGEST_SECONDS}.");
    usage(command, &explanation, rest)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn paths_become_uris() {
        assert_eq!(file_uri("/a b/é#?"), "file:///a%20b/%C3%A9%23%3F");
        assert_eq!(file_uri("C:/a"), "file:///C:/a");
    }

    #[test]
    fn the_image_is_a_complete_png_file() {
        let file = STANDARD.decode(RING).unwrap();
        let mut left = file.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap();
        let mut kinds = Vec::new();
        while let Some((length, rest)) = left.split_first_chunk::<4>() {
            let (chunk, rest) = rest.split_at(4 + u32::from_be_bytes(*length) as usize);
            let (checksum, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(crc32fast::hash(chunk), u32::from_be_bytes(*checksum));
            kinds.push(String::from_utf8_lossy(&chunk[..4]).into_owned());
            if chunk.starts_with(b"IHDR") {
                assert_eq!(chunk[4..12], [0, 0, 0, 48, 0, 0, 0, 48]);
            }
            left = rest;
        }
        assert_eq!(kinds, ["IHDR", "PLTE", "IDAT", "IEND"]);
        assert_eq!(left, b"");
    }
}
