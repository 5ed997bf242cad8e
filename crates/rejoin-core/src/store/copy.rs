//! Copies sessions between stores, byte for byte.

use super::folder::Store;
use super::header;
use super::medium::{Holder, Image, StoreError, Trashed, WritableLog};
use crate::sys::SessionId;

/// How much is read at once, in bytes, and about how long the blocks of the copy are.
const BLOCK: usize = 64 * 1024;
/// A line may be longer; then the block is, up to this length.
const LONGEST: usize = 16 * 1024 * 1024;

/// The outcome of copying a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The other store did not have the session before.
    New,
    /// The store had the beginning of it, and has all of it now.
    Continued,
    /// The store had it already.
    Same,
    /// The store has a session with this id and another history. It is left as it is.
    Differs,
    /// A process has it open, in one of the stores.
    InUse(Option<Holder>),
}

impl Store {
    /// Copies the log of a session to another store, in which it continues what is there if that is
    /// its beginning. Its bytes are not interpreted, so damage and later formats are copied, too.
    /// Nothing is appended to it meanwhile. With `verify`, the copy is read and compared.
    pub fn copy_to(&self, id: &SessionId, to: &Self, verify: bool) -> Result<Copied, StoreError> {
        let copied = self.copy_claimed(id, to, verify);
        match copied {
            Err(StoreError::InUse { holder, .. }) => Ok(Copied::InUse(holder)),
            copied => copied,
        }
    }

    fn copy_claimed(&self, id: &SessionId, to: &Self, verify: bool) -> Result<Copied, StoreError> {
        let from = self.context.medium.claim(id, false)?;
        to.prepare()?;
        let mut head = Vec::new();
        let (mut copy, end, copied) = match to.context.medium.claim(id, false) {
            Ok(copy) => {
                head = new_head(&*from, &*copy, id)?;
                match same_bytes_from(head.len() as u64, &*from, &*copy)? {
                    Same::All => return Ok(Copied::Same),
                    Same::Beginning(end) => (copy, end, Copied::Continued),
                    Same::No => return Ok(Copied::Differs),
                }
            }
            Err(StoreError::NotFound { .. }) => (to.context.medium.draft(id)?, 0, Copied::New),
            Err(error) => return Err(error),
        };
        append_rest(&*from, &mut *copy, end, &head)?;
        if copied == Copied::New {
            copy.publish()?;
        } else {
            copy.sync()?;
        }
        if verify {
            check(&*from, &*to.context.medium.open(id)?)?;
        }
        Ok(copied)
    }

    /// Copies the log of a session in the trash to the trash of the other store, with the time of
    /// its deletion, unless that store has the session. With `verify`, the copy is read and
    /// compared.
    pub fn copy_trashed_to(
        &self,
        trashed: &Trashed,
        to: &Self,
        verify: bool,
    ) -> Result<Copied, StoreError> {
        let from = self.context.medium.open_trashed(trashed)?;
        to.prepare()?;
        let medium = &to.context.medium;
        if medium.info(&trashed.id)?.is_some() {
            return Ok(Copied::Same);
        }
        match medium.open_trashed(trashed) {
            Ok(copy) if same_bytes(&*from, &*copy)? == Same::All => return Ok(Copied::Same),
            Ok(_) => return Ok(Copied::Differs),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut copy = medium.draft(&trashed.id)?;
        append_rest(&*from, &mut *copy, 0, &[])?;
        copy.publish_in_trash(trashed.at)?;
        if verify {
            check(&*from, &*medium.open_trashed(trashed)?)?;
        }
        Ok(Copied::New)
    }
}

/// Fails if a copy does not have the bytes of a log.
fn check(from: &dyn Image, copy: &dyn Image) -> Result<(), StoreError> {
    if same_bytes(from, copy)? == Same::All {
        return Ok(());
    }
    let differs = std::io::Error::other("the copy has other bytes");
    Err(StoreError::disk("verify", copy.path())(differs))
}

/// How much of a log a copy has.
#[derive(PartialEq, Eq)]
enum Same {
    All,
    /// The copy has the beginning of the log, with this many bytes.
    Beginning(u64),
    No,
}

fn same_bytes(from: &dyn Image, copy: &dyn Image) -> Result<Same, StoreError> {
    same_bytes_from(0, from, copy)
}

/// The beginning of the header of a log that has got rewinds since it was copied; empty if it is the same in
/// the copy.
fn new_head(from: &dyn Image, copy: &dyn Image, id: &SessionId) -> Result<Vec<u8>, StoreError> {
    // Headers of other kinds cannot be marked, and are compared as they are.
    let head = header::rewound(copy, id).ok().flatten().unwrap_or_default();
    let mut ours = vec![0; head.len()];
    let len = fill(from, &mut ours, 0)?;
    Ok(if ours[..len] == head {
        head
    } else {
        Vec::new()
    })
}

fn same_bytes_from(mut at: u64, from: &dyn Image, copy: &dyn Image) -> Result<Same, StoreError> {
    let (mut ours, mut theirs) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let have = fill(copy, &mut theirs, at)?;
        let want = fill(from, &mut ours, at)?;
        if have > want || ours[..have] != theirs[..have] {
            return Ok(Same::No);
        }
        at += have as u64;
        if have < want {
            return Ok(Same::Beginning(at));
        }
        if have == 0 {
            return Ok(Same::All);
        }
    }
}

/// Appends what a log has after `at` to its copy, in blocks of whole lines, and before it the beginning of the
/// header that the copy lacks.
fn append_rest(
    from: &dyn Image,
    copy: &mut dyn WritableLog,
    mut at: u64,
    mut head: &[u8],
) -> Result<(), StoreError> {
    let mut block = Vec::new();
    let mut end = at;
    loop {
        let known = block.len();
        block.resize(known + BLOCK, 0);
        let got = fill(from, &mut block[known..], at)?;
        block.truncate(known + got);
        at += got as u64;
        let lines = memchr::memrchr(b'\n', &block[known..]).map(|found| known + found + 1);
        let len = match lines {
            _ if got == 0 => block.len(),
            None if block.len() >= LONGEST => block.len(),
            lines => lines.unwrap_or(0),
        };
        if len > 0 && !head.is_empty() {
            copy.append_with_head(std::mem::take(&mut head), end, &block[..len], false)?;
        } else {
            copy.append(end, &block[..len], false)?;
        }
        end += len as u64;
        block.drain(..len);
        if got == 0 {
            return Ok(());
        }
    }
}

/// Fills a buffer as far as there are bytes.
fn fill(from: &dyn Image, buffer: &mut [u8], at: u64) -> Result<usize, StoreError> {
    let mut len = 0;
    while len < buffer.len() {
        let read = from.read_at(&mut buffer[len..], at + len as u64);
        match read.map_err(StoreError::disk("read", from.path()))? {
            0 => break,
            got => len += got,
        }
    }
    Ok(len)
}
