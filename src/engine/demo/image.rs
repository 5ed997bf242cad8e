//! `/image`: an image in the agent's message.

use super::turn::{Done, Sent, Turn, Voice};
use super::update::Block;
use crate::engine::StopReason;

/// A PNG file of 48 by 48 pixels in Base64: a ring on white, its left half teal and its right half
/// orange.
const RING: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAwAgMAAAAqbBEUAAAACVBMVEX///8OdJDqWAwq6KGHAAAAhklEQVR42rWR",
    "sQ2AMAwEHaQ09CzBFIxAgffJKClRpkRvJ4gHpQCJVD7Zedn/Il+flkut5aQIyBUmwO51UEBJbQqQ2xRgr1oqUqqe",
    "6ioyOgQ00Er2fwPMphAxhblsYgtgMLkb+CJPcDHI/Qv9Dfpb03F0NhlCVrGJZC8ZT5FQWBwjBczRv3wHSm9ZI5WL",
    "tfgAAAAASUVORK5CYII=",
);

/// Answers with text, the image and more text, all in one message.
pub(super) async fn run(turn: &Turn<'_>) -> Done {
    show(turn).await?;
    Ok(StopReason::EndTurn)
}

/// Sends the message with the image.
pub(super) async fn show(turn: &Turn<'_>) -> Sent {
    let message = turn.begin(Voice::Answer);
    turn.say(&message, "Here is a picture:\n\n").await?;
    let picture = Block::Image {
        mime_type: "image/png",
        data: RING,
    };
    turn.chunk(&message, &picture).await?;
    let caption = "\n\nA ring of 48 by 48 pixels, teal on the left and orange on the right.\n";
    turn.say(&message, caption).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(base64: &str) -> Vec<u8> {
        let digits = base64.trim_end_matches('=').bytes().map(|byte| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("{byte} is no digit of Base64"),
        });
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
        for digit in digits {
            bits = bits << 6 | u32::from(digit);
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        bytes
    }

    #[test]
    fn the_picture_is_a_whole_png_file() {
        let file = decode(RING);
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
