//! Writes a conversation down as text.
use crate::record::{Kind, Record};
#[derive(Debug)]
pub(super) struct Fold {
    budget: usize,
    text: String,
}
impl Fold {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            budget,
            text: String::new(),
        }
    }
    pub(super) fn record(&mut self, record: &Record<'_>) {
        if matches!(record.kind, Kind::Prompt | Kind::Update) {
            self.text.push_str(record.payload);
            self.text.push('\n');
            self.text.truncate(self.budget);
        }
    }
    pub(super) fn finish(self) -> Option<String> {
        (!self.text.is_empty()).then_some(self.text)
    }
}
