//! What kind of file system a folder is on, and how much room it has.

use std::path::Path;

/// Kinds of file systems whose locks and syncs may not be what programs expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Another machine has the files; the name of its protocol.
    Network(&'static str),
    /// The files are in memory.
    Memory,
}

/// The special kind of the file system that an existing path is on, if it is one that is known.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn special(path: &Path) -> Option<Special> {
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    // As in `statfs(2)`.
    Some(match u64::try_from(kind).ok()? & 0xffff_ffff {
        0x6969 => Special::Network("NFS"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Special::Network("SMB"),
        0x0102_1997 => Special::Network("9P"),
        0x5346_414f => Special::Network("AFS"),
        0x00c3_6400 => Special::Network("Ceph"),
        0x7375_7245 => Special::Network("Coda"),
        0x0102_1994 | 0x8584_58f6 => Special::Memory,
        _ => return None,
    })
}

/// The special kind of the file system that an existing path is on, if it is one that is known.
#[cfg(target_vendor = "apple")]
pub fn special(path: &Path) -> Option<Special> {
    let name = rustix::fs::statfs(path).ok()?.f_fstypename;
    let name = name.iter().map_while(|c| u8::try_from(*c).ok());
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    Some(match &name[..] {
        b"nfs" => Special::Network("NFS"),
        b"smbfs" => Special::Network("SMB"),
        b"afpfs" => Special::Network("AFP"),
        b"webdav" => Special::Network("WebDAV"),
        _ => return None,
    })
}

/// The special kind of the file system that an existing path is on, if it is one that is known.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub fn special(path: &Path) -> Option<Special> {
    // A share has no drive.
    let is_share = cfg!(windows) && path.as_os_str().as_encoded_bytes().starts_with(br"\\");
    is_share.then_some(Special::Network("SMB"))
}

/// How many bytes the user may still write where an existing path is.
#[cfg(unix)]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// How many bytes the user may still write where an existing path is.
#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_known() {
        assert_eq!(special(Path::new("/proc")), None);
        assert_eq!(special(Path::new("/no/such/folder")), None);
        assert!(free_bytes(&std::env::temp_dir()).is_some_and(|free| free > 0));
        let shared = Path::new("/dev/shm");
        assert!(!shared.exists() || special(shared) == Some(Special::Memory));
    }
}
