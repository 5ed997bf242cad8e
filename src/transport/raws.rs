//! Results as JSON text, on their way through the SDK, which only takes trees of values.
//!
//! A handler returns a small placeholder, and the sink replaces it by the text. So an agent's
//! result reaches the client verbatim.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::sys::lock;

/// The member that identifies a placeholder.
pub(super) const MARK: &str = "_rejoinText";

/// Texts that are waiting to be sent.
#[derive(Debug, Default)]
pub struct VerbatimResults {
    texts: Mutex<(u64, HashMap<u64, String>)>,
    /// The number of texts, to skip the search while there are none.
    count: AtomicUsize,
    /// Their total length.
    bytes: AtomicUsize,
}

impl VerbatimResults {
    /// Returns a placeholder for this JSON text, for any place in a response.
    pub fn put(&self, text: String) -> Value {
        let mut texts = self.lock();
        texts.0 += 1;
        let ticket = texts.0;
        self.bytes.fetch_add(text.len(), Ordering::Relaxed);
        texts.1.insert(ticket, text);
        self.count.store(texts.1.len(), Ordering::Release);
        json!({ MARK: ticket })
    }

    /// Replaces the placeholders in a line by their texts.
    pub fn restore(&self, line: String) -> String {
        if self.count.load(Ordering::Acquire) == 0 {
            return line;
        }
        let open = format!("{{\"{MARK}\":");
        let mut out = String::new();
        let mut rest = line.as_str();
        while let Some(at) = rest.find(&open) {
            let behind = &rest[at + open.len()..];
            let end = behind.find('}').unwrap_or(behind.len());
            let text = behind[..end]
                .parse()
                .ok()
                .and_then(|ticket| self.take(ticket));
            let Some(text) = text else {
                out.push_str(&rest[..at + open.len()]);
                rest = behind;
                continue;
            };
            out.push_str(&rest[..at]);
            out.push_str(&text);
            rest = &behind[end + 1..];
        }
        if out.is_empty() {
            return line;
        }
        out.push_str(rest);
        out
    }

    fn take(&self, ticket: u64) -> Option<String> {
        let mut texts = self.lock();
        let text = texts.1.remove(&ticket);
        self.count.store(texts.1.len(), Ordering::Release);
        if let Some(text) = &text {
            self.bytes.fetch_sub(text.len(), Ordering::Relaxed);
        }
        text
    }

    /// The total length of the texts that are waiting.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, String>)> {
        lock(&self.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_to_the_byte_and_once() {
        let raws = VerbatimResults::default();
        let first = raws.put(r#"{"n":1e400, "_rejoinText":2}"#.to_owned());
        let second = raws.put("[ ]".to_owned());
        let line = json!({ "id": 1, "result": first, "x": { "data": second } }).to_string();
        let restored = raws.restore(line.clone());
        assert_eq!(
            restored,
            r#"{"id":1,"result":{"n":1e400, "_rejoinText":2},"x":{"data":[ ]}}"#
        );
        assert_eq!(raws.restore(line.clone()), line);
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        let raws = VerbatimResults::default();
        let kept = raws.put("1".to_owned());
        for line in [
            r#"{"_rejoinText":77}"#,
            r#"{"_rejoinText":"1"}"#,
            r#"{"_rejoinText":"#,
        ] {
            assert_eq!(raws.restore(line.to_owned()), line);
        }
        assert_eq!(raws.restore(kept.to_string()), "1");
    }
}
