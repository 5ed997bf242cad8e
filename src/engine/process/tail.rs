//! The end of what a command has said: all of it, as long as it is short.

/// Bytes as they come, of which the last ones are kept.
#[derive(Debug)]
pub(super) struct Tail {
    kept: Vec<u8>,
    limit: usize,
    /// How many bytes there were.
    total: u64,
}

impl Tail {
    /// Keeps so many bytes at least, and twice as many at most.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            kept: Vec::new(),
            limit,
            total: 0,
        }
    }

    /// More has come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * self.limit {
            self.kept.drain(..self.kept.len() - self.limit);
        }
    }

    /// How many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The last bytes as text, no more than `most` of them, and whether that is less than all. What
    /// is no UTF-8 becomes replacement characters.
    pub(super) fn text(&self, most: usize) -> (String, bool) {
        let most = most.min(self.limit);
        let mut from = self.kept.len().saturating_sub(most);
        let cut = self.total > (self.kept.len() - from) as u64;
        if cut {
            // Not in the middle of a character, which has four bytes at most.
            let rest = self.kept[from..].iter().take(3);
            from += rest.take_while(|byte| **byte & 0xC0 == 0x80).count();
        }
        (
            String::from_utf8_lossy(&self.kept[from..]).into_owned(),
            cut,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let mut tail = Tail::new(6);
        assert_eq!(tail.text(9), (String::new(), false));
        for (more, text, cut) in [
            ("abc", "abc", false),
            ("def", "abcdef", false),
            ("g", "bcdefg", true),
            ("hijklmnop", "klmnop", true),
            ("äöü", "äöü", true),
            ("x", "öüx", true),
        ] {
            tail.push(more.as_bytes());
            assert_eq!(tail.text(9), (text.to_owned(), cut), "{more}");
            assert!(tail.kept.len() <= 12);
        }
        assert_eq!(tail.text(2), ("x".to_owned(), true));
        assert_eq!(tail.total(), 23);
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        let mut tail = Tail::new(6);
        tail.push(b"a\xFFb");
        assert_eq!(tail.text(6), ("a\u{FFFD}b".to_owned(), false));
    }
}
