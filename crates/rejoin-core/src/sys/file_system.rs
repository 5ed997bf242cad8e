//! The kind of file system that a folder is on, and how much room it has.

use std::path::Path;

/// Kinds of file systems whose locks and syncs may not be what programs expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Another machine has the files; the name of its protocol.
    Network(&'static str),
    /// Another machine has the files, and a lock is only seen on the machine that has it; the name
    /// of the protocol.
    LocalLocks(&'static str),
    /// The files are in memory.
    Memory,
}

impl Special {
    /// Whether another machine has the files.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Network(_) | Self::LocalLocks(_))
    }
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
        0x4750_4653 => Special::Network("GPFS"),
        0x0bd0_0bd0 if has_option(path, "localflock") => Special::LocalLocks("Lustre"),
        0x0bd0_0bd0 => Special::Network("Lustre"),
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

/// Whether the file system of a path is mounted with an option.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_option(path: &Path, option: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    options_of(&mounts, &path).any(|found| found == option)
}

/// The options of the mount with a path, from a list such as `/proc/mounts`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn options_of<'a>(mounts: &'a str, path: &Path) -> impl Iterator<Item = &'a str> {
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?.replace("\\040", " ");
        Some((place, fields.nth(1)?))
    });
    // The last one hides those before it.
    let of_path = fields.filter(|(place, _)| path.starts_with(place));
    let longest = of_path.max_by_key(|(place, _)| place.len());
    longest.map_or("", |(_, options)| options).split(',')
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
    fn options_are_those_of_the_nearest_mount() {
        let mounts = "/dev/sda / ext4 rw 0 0\n\
            a@tcp:/fs /lustre lustre rw,flock 0 0\n\
            a@tcp:/fs /lustre/with\\040space lustre rw,localflock,lazystatfs 0 0\n";
        for (path, expected) in [
            ("/home", "rw"),
            ("/lustre/a", "rw,flock"),
            ("/lustre/with space/a", "rw,localflock,lazystatfs"),
            ("relative", ""),
        ] {
            let found: Vec<_> = options_of(mounts, Path::new(path)).collect();
            assert_eq!(found.join(","), expected);
        }
    }

    #[test]
    fn memory_is_known() {
        assert_eq!(special(Path::new("/proc")), None);
        assert_eq!(special(Path::new("/no/such/folder")), None);
        assert!(free_bytes(&std::env::temp_dir()).is_some_and(|free| free > 0));
        let shared = Path::new("/dev/shm");
        assert!(!shared.exists() || special(shared) == Some(Special::Memory));
    }
}
