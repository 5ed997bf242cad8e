//! Splits an answer into the pieces in which it is streamed.

/// The shortest piece that gets a chunk of its own, in bytes: a few words, as models send them.
const SHORTEST: usize = 24;

/// The approximate number of pieces of a long text, so that quoting a large prompt does not take a
/// hundred thousand updates.
const MOST: usize = 64;

/// The pieces of a text, in order, none empty; joined they are the text. They end after a space if
/// one is near, and never inside a character or between CR and LF.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let size = SHORTEST.max(text.len() / MOST);
    let mut left = text;
    std::iter::from_fn(move || {
        let (piece, rest) = left.split_at(end_of_first(left, size));
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The end of the first piece of a text: after the first space beyond `size` bytes, or at twice
/// that size if the text has no space there.
fn end_of_first(text: &str, size: usize) -> usize {
    let Some(tail) = text.get(text.ceil_char_boundary(size)..) else {
        return text.len();
    };
    let start = text.len() - tail.len();
    let limit = text.ceil_char_boundary(start + size);
    match text[start..limit].find(' ') {
        Some(space) => start + space + 1,
        None if text[..limit].ends_with('\r') && text[limit..].starts_with('\n') => limit + 1,
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sentence_is_cut_between_words() {
        let text = "This is the first prompt of this session, and a short one it is.";
        let cut: Vec<_> = pieces(text).collect();
        assert_eq!(
            cut,
            [
                "This is the first prompt ",
                "of this session, and a short ",
                "one it is."
            ]
        );
        assert_eq!(pieces("").count(), 0);
        assert_eq!(pieces("short").collect::<Vec<_>>(), ["short"]);
    }

    #[test]
    fn a_large_text_is_cut_into_few_pieces() {
        let text = "x".repeat(1_000_000);
        assert!(pieces(&text).count() <= MOST);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_cut_in_two(text in "(?s)(.|\r\n| |é){0,200}") {
            let cut: Vec<_> = pieces(&text).collect();
            prop_assert_eq!(&cut.concat(), &text);
            for piece in &cut {
                prop_assert!(!piece.is_empty());
            }
            for pair in cut.windows(2) {
                prop_assert!(!(pair[0].ends_with('\r') && pair[1].starts_with('\n')));
            }
        }
    }
}
