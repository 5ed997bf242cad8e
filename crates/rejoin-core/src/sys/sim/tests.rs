//! Tests of the simulated disk itself.

use std::io::ErrorKind;

use super::*;

fn file(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

#[test]
fn a_power_cut_keeps_what_was_synced() {
    let disk = disk();
    let mut a = disk.create_new(&file("a")).unwrap();
    a.append(b"one").unwrap();
    a.sync().unwrap();
    assert_eq!(disk.power_cut(Tail::Lost).bytes(&file("a")), None);
    disk.sync_dir(Path::new("/d")).unwrap();
    a.append(b"twoo").unwrap();
    for (tail, left) in [
        (Tail::Lost, &b"one"[..]),
        (Tail::Torn, b"onetw"),
        (Tail::Zeroed, b"one\0\0\0\0"),
    ] {
        let left = Some(left.to_owned());
        assert_eq!(disk.power_cut(tail).bytes(&file("a")), left);
    }
    assert_eq!(disk.crash().bytes(&file("a")), Some(b"onetwoo".to_vec()));
}

#[test]
fn a_power_cut_brings_back_names_and_bytes_that_went_unsynced() {
    let disk = disk();
    disk.put(&file("a"), b"a");
    disk.put(&file("b"), b"long");
    disk.rename(&file("a"), &file("c")).unwrap();
    disk.open_append(&file("b")).unwrap().set_len(1).unwrap();
    assert_eq!(disk.files(), [file("b"), file("c")]);
    let after = disk.power_cut(Tail::Lost);
    assert_eq!(after.files(), [file("a"), file("b")]);
    assert_eq!(after.bytes(&file("b")), Some(b"long".to_vec()));
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(disk.power_cut(Tail::Lost).files(), [file("b"), file("c")]);
}

#[test]
fn a_folder_whose_name_is_not_synced_is_lost_with_all_in_it() {
    let disk = disk();
    let deep = Path::new("/d/e");
    disk.create_dir_all(deep).unwrap();
    disk.create_new(&deep.join("a")).unwrap();
    disk.sync_dir(deep).unwrap();
    assert_eq!(
        disk.power_cut(Tail::Lost).files(),
        [""; 0].map(PathBuf::from)
    );
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(disk.power_cut(Tail::Lost).files(), [deep.join("a")]);
}

#[test]
fn faults_hit_the_operation_they_are_set_at() {
    let full = ErrorKind::StorageFull;
    for (fault, result, left) in [
        (Fault::Error(full), Err(full), &b""[..]),
        (Fault::ShortWrite, Ok(2), b"ab"),
        (Fault::TornWrite(full), Err(full), b"a"),
        (Fault::Sync(full), Ok(3), b"abc"),
    ] {
        let disk = disk();
        let mut a = disk.create_new(&file("a")).unwrap();
        disk.fail_at(disk.operations(), fault);
        let taken = a.append(b"abc").map_err(|error| error.kind());
        assert_eq!(taken, result);
        assert_eq!(disk.bytes(&file("a")), Some(left.to_owned()));
        assert_eq!(a.append(b"").unwrap(), 0, "only that one operation fails");
    }
}

#[test]
fn what_a_failed_sync_lost_stays_lost() {
    let disk = disk();
    disk.put(&file("a"), b"");
    let mut a = disk.open_append(&file("a")).unwrap();
    a.append(b"lost").unwrap();
    disk.fail_at(disk.operations(), Fault::Sync(ErrorKind::Other));
    a.sync().unwrap_err();
    a.append(b"kept").unwrap();
    a.sync().unwrap();
    assert_eq!(disk.bytes(&file("a")), Some(b"lostkept".to_vec()));
    let after = disk.power_cut(Tail::Lost);
    assert_eq!(after.bytes(&file("a")), Some(b"\0\0\0\0kept".to_vec()));
}

#[test]
fn a_lock_lasts_as_long_as_its_file_is_open() {
    let disk = disk();
    let a = disk.create_new(&file("a")).unwrap();
    let b = disk.open_append(&file("a")).unwrap();
    assert!(a.try_lock().unwrap());
    assert!(a.try_lock().unwrap());
    assert!(!b.try_lock().unwrap());
    let after = disk.crash();
    let c = after.open_append(&file("a")).unwrap();
    assert!(c.try_lock().unwrap());
    drop(a);
    assert!(b.try_lock().unwrap());
}
