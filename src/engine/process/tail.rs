//! The end of a command's output, or all of it if it is short.

/// A byte buffer that keeps the last bytes.
#[derive(Debug)]
pub(super) struct TailBuffer {
    kept: Vec<u8>,
    limit: usize,
    /// How many bytes were pushed.
    total: u64,
}

impl TailBuffer {
    /// Keeps at least `limit` bytes, and at most twice as many.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            kept: Vec::new(),
            limit,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * self.limit {
            self.kept.drain(..self.kept.len() - self.limit);
        }
    }

    /// How many bytes were pushed.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The last bytes as text, at most `most` of them, and whether anything is left out. Invalid
    /// UTF-8 becomes replacement characters.
    pub(super) fn text(&self, most: usize) -> (String, bool) {
        let most = most.min(self.limit);
        let mut from = self.kept.len().saturating_sub(most);
        let cut = self.total > (self.kept.len() - from) as u64;
        if cut {
            // Starts at the boundary of a character, which has at most four bytes.
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
        let mut tail = TailBuffer::new(6);
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
    fn invalid_utf8_is_replaced() {
        let mut tail = TailBuffer::new(6);
        tail.push(b"a\xFFb");
        assert_eq!(tail.text(6), ("a\u{FFFD}b".to_owned(), false));
    }
}
