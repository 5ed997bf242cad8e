//! Stores on file systems of other machines.

use std::path::Path;

use rejoin::store::{Durability, Store, StoreError};
use rejoin::sys::file_system::Special;
use rejoin::sys::sim::SimDisk;

/// The store, as another process opens it.
fn open(disk: &SimDisk) -> Result<Store, StoreError> {
    Store::open(Path::new("/store"), disk.sys(), Durability::Turn)
}

#[test]
fn the_index_is_not_on_a_network() {
    let disk = SimDisk::new();
    let own = Path::new("/store/index.sqlite");
    assert_eq!(open(&disk).unwrap().catalog(), Some(own));
    let disk = SimDisk::new();
    disk.is_on(Special::Network("NFS"));
    // Everything is on the network here.
    assert_eq!(open(&disk).unwrap().catalog(), None);
}

#[test]
fn it_is_noted_once_that_a_store_is_on_a_network() {
    let disk = SimDisk::new();
    disk.is_on(Special::Network("NFS"));
    let note = Path::new("/store/file-system");
    open(&disk).unwrap();
    assert_eq!(disk.bytes(note).as_deref(), Some(&b"NFS"[..]));
    // A process that finds the note writes none.
    disk.put(note, b"NFS\n");
    let noted = disk.operations();
    open(&disk).unwrap();
    assert_eq!(disk.bytes(note).as_deref(), Some(&b"NFS\n"[..]));
    let read = disk.operations();
    open(&disk).unwrap();
    assert_eq!(disk.operations() - read, read - noted);
}

#[test]
fn nothing_is_written_where_locks_exclude_nobody() {
    let disk = SimDisk::new();
    disk.is_on(Special::LocalLocks("Lustre"));
    let refused = open(&disk).unwrap_err();
    assert!(matches!(refused, StoreError::Unusable { .. }));
    assert!(refused.to_string().contains("Lustre"), "{refused}");
    assert_eq!(disk.operations(), 0);
}
