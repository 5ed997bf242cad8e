//! Changes a session that is not open: its title, whether it is archived, and what its conversation is.

use crate::index::{Catalog, Summary};
use crate::record::metadata::MetadataChange;
use crate::record::{Kind, RewindTarget};
use crate::store::{OpenedLog, RewindError, Store, StoreError, Sync};
use crate::sys::SessionId;

/// Records a change in the session's log and in the catalog, unless it changes nothing.
pub fn change_metadata(
    store: &Store,
    catalog: Option<&Catalog>,
    id: &SessionId,
    change: &MetadataChange,
) -> Result<(), StoreError> {
    let OpenedLog { mut log, scan, .. } = store.open_log(id)?;
    let mut summary = Summary::of(&scan);
    if is_change(summary.archived, change) {
        let payload = change.payload();
        let appended = log.append(Kind::Info, None, &payload, Sync::Turn)?;
        summary.apply(Kind::Info, None, &appended.at, &payload);
    }
    summary.scanned = log.end();
    if let Some(catalog) = catalog {
        // While the log is locked, so that this cannot overwrite a later entry.
        catalog.closed(id, &summary);
    }
    Ok(())
}

/// Records in the session's log, and in the catalog, that the conversation goes on from an earlier place.
/// `client` is the name of who has asked for it. Fails if a process has the session open.
pub fn rewind(
    store: &Store,
    catalog: Option<&Catalog>,
    id: &SessionId,
    target: &RewindTarget,
    client: &str,
) -> Result<(), RewindError> {
    let mut log = store.open_log(id)?.log;
    let mark = store.sys().ids.message();
    let scan = log.rewind(target, &mark, Some(client.to_owned()))?;
    if let Some(catalog) = catalog {
        // While the log is locked, so that this cannot overwrite a later entry.
        catalog.closed(id, &Summary::of(&scan));
    }
    Ok(())
}

/// Whether a change changes anything in a session that is archived or not.
pub fn is_change(archived: bool, change: &MetadataChange) -> bool {
    *change != MetadataChange::Archived(archived)
}
