//! Cursors: positions in lists, as text that the client hands back unchanged.
//!
//! A cursor begins with a checksum of its text and of its scope: which list it belongs to. So what
//! another list, another filter or another program has made is rejected.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that are escaped, so that a cursor is the same text wherever a client puts it.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The length of a checksum: eight hexadecimal digits.
const CHECKSUM_LEN: usize = 8;

/// The cursor that holds `text`, for one scope. Neither may hold a NUL.
pub fn seal(text: &str, scope: &str) -> String {
    let sum = checksum(text, scope);
    format!("{sum:08x}{}", utf8_percent_encode(text, &ESCAPED))
}

/// The text of a cursor that [`seal`] made for this scope.
pub fn open(cursor: &str, scope: &str) -> Option<String> {
    let (_, text) = cursor.split_at_checked(CHECKSUM_LEN)?;
    let text = percent_decode_str(text).decode_utf8().ok()?;
    // Only the spelling that `seal` writes counts: two different cursors are never the same
    // position.
    (cursor == seal(&text, scope)).then(|| text.into_owned())
}

fn checksum(text: &str, scope: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    // The parts cannot run into one another.
    for part in [text, "\0", scope] {
        hasher.update(part.as_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_for_the_same_scope_opens() {
        let text = "q7-4096 [\"é%\"]";
        let good = seal(text, "turns");
        assert!(good.is_ascii() && !good.contains(['"', '\\', ' ']));
        assert_eq!(open(&good, "turns").as_deref(), Some(text));
        assert_eq!(open(&good, "sessions"), None);
        for at in 0..good.len() {
            let mut bad = good.clone().into_bytes();
            bad[at] = if bad[at] == b'7' { b'8' } else { b'7' };
            let bad = String::from_utf8(bad).unwrap();
            assert_eq!(open(&bad, "turns"), None, "{bad}");
            assert_eq!(open(&good[..at], "turns"), None, "cut at {at}");
        }
        let (upper, longer) = (good.to_uppercase(), format!("{good}00"));
        let lower = good.replace("%C3", "%c3");
        for bad in ["", " ", "00", "ééééé", "\0", &upper, &lower, &longer] {
            assert_eq!(open(bad, "turns"), None, "{bad:?}");
        }
    }
}
