//! Reads one tool call from a log, with all that it was given and returned.

use crate::conversation::{Entry, TurnCalls, update_in};
use crate::protocol::UpdateKind;
use crate::record::{InVersion1, Record};
use crate::store::LogReader;

use super::turns::{TurnsError, read};

/// A tool call of a session or of one of its subagents.
#[derive(Debug)]
pub struct OneCall {
    /// All its updates applied to it, as JSON.
    pub call: String,
    /// Whether a member was left out because it was too long.
    pub truncated: bool,
}

/// Reads the call with this id, of at most `longest` bytes. `cancelled` is called now and then.
pub fn one_call(
    reader: &mut LogReader,
    id: &str,
    longest: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<OneCall>, TurnsError> {
    let (mut calls, mut budget, mut whole) = (TurnCalls::default(), longest, true);
    let mut take = |record: &Record<'_>| {
        if let Some((_, update)) = update_in(record)
            && let Entry::Call(update) = Entry::of(UpdateKind::of(update.as_bytes()), update)
            && update.id().is_some_and(|call| *call == *id.as_bytes())
        {
            whole &= calls.apply(&update, &mut budget);
        }
    };
    let mut converted = InVersion1::new();
    _ = read(reader, cancelled, |entry| {
        converted.record(&entry.record, &mut take);
        std::ops::ControlFlow::Continue(())
    })?;
    converted.finish(&mut take);
    Ok(calls.first().map(|call| OneCall {
        call,
        truncated: !whole,
    }))
}
