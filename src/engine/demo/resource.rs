//! `/resource`: an embedded text and a link in the agent's message.

use super::sample::at;
use super::turn::{Done, Turn, Voice};
use super::update::{Block, TextResource};
use crate::engine::StopReason;

/// The text that is embedded.
const NOTE: &str = "# A note\n\nThis text was embedded by the agent; there is no such file.\n";

/// Answers with text, an embedded text and a link, all in one message.
pub(super) async fn run(turn: &Turn<'_>) -> Done {
    let uri = file_uri(&at(turn.cwd(), &["note.md"]));
    let message = turn.begin(Voice::Answer);
    turn.say(
        &message,
        "Here is a text, and a link to where it might be:\n\n",
    )
    .await?;
    let resource = TextResource {
        uri: &uri,
        mime_type: "text/markdown",
        text: NOTE,
    };
    turn.chunk(&message, &Block::Resource { resource }).await?;
    let link = Block::ResourceLink {
        uri: &uri,
        name: "note.md",
        description: "An example; there is no such file",
        mime_type: "text/markdown",
        size: NOTE.len(),
    };
    turn.chunk(&message, &link).await?;
    Ok(StopReason::EndTurn)
}

/// The URI of a file with this absolute path.
fn file_uri(path: &str) -> String {
    let mut uri = String::from("file://");
    if !path.starts_with(['/', '\\']) {
        uri.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b':' => {
                uri.push(char::from(byte));
            }
            _ => {
                let digit = |half| char::from(b"0123456789ABCDEF"[usize::from(half)]);
                uri.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_addresses() {
        assert_eq!(file_uri("/a b/é#?"), "file:///a%20b/%C3%A9%23%3F");
        assert_eq!(file_uri("C:/a"), "file:///C:/a");
    }
}
