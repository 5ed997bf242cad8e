//! Forks a session that need not be open, after one of its turns.

use crate::index::{Catalog, Summary};
use crate::record::header::{ForkedFrom, Header};
use crate::record::{Kind, Places};
use crate::store::{ForkError, ForkPoint, Store, StoreError};
use crate::sys::SessionId;

/// Why a session was not forked after a turn. Nothing remains.
#[derive(Debug, thiserror::Error)]
pub enum ForkAfterError {
    /// A log could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are fewer turns.
    #[error("the session has only {0} turns")]
    Turns(u64),
    /// The turn, or one before it, has not ended.
    #[error("the turn has not ended")]
    Open,
}

/// Creates the session `id` with the turns of `source` up to the turn with this number, counted from 1, as
/// prompts are. It has the workspace and the engine of the source.
pub fn fork_after(
    store: &Store,
    catalog: &Catalog,
    source: &SessionId,
    id: &SessionId,
    turn: u64,
) -> Result<(), ForkAfterError> {
    let mut places = Places::new(source.as_str());
    let mut reader = store.read(source)?;
    let (mut turns, mut cursor) = (0, None);
    let scan = reader.scan_with(&mut |entry| {
        let place = places.record(&entry.record);
        if entry.record.kind == Kind::Prompt {
            turns += 1;
            if turns == turn + 1 {
                cursor = place.map(|place| place.cursor.to_string());
            }
        }
    })?;
    if turns < turn {
        return Err(ForkAfterError::Turns(turns));
    }
    let header = Header {
        session_id: id.to_string(),
        known_as: None,
        workspace: scan.workspace,
        client: None,
        forked_from: Some(ForkedFrom {
            session_id: source.to_string(),
            message_id: None,
            cursor_id: cursor.clone(),
        }),
        ..scan.header
    };
    let at = cursor.map(ForkPoint::Cursor);
    let before = catalog.before_change();
    let forked = store.fork(&mut reader, id, &header, at.as_ref(), &|| false);
    let forked = forked.map_err(|error| match error {
        ForkError::Store(error) => ForkAfterError::Store(error),
        // All of the session was to be forked, or a place in it that was just found.
        _ => ForkAfterError::Open,
    })?;
    if forked.scan.prompts.len() as u64 != turn {
        forked.log.trash()?;
        return Err(ForkAfterError::Open);
    }
    catalog.created(id, &Summary::of(&forked.scan), before);
    Ok(())
}
