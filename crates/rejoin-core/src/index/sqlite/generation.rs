//! Detects whether the database is as the last process left it.
//!
//! A power cut can lose the last changes of the database, and somebody can replace it by an older
//! copy. Both look like a database in which nothing is missing. So each mark that a session makes
//! before a prompt increments a number in the database. The number is also written to a small file
//! beside it, together with the id of the system's boot. If the two differ, the lengths of all logs
//! are compared with the rows once.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Result, Transaction};

use crate::sys::{Disk, boot_id};

use super::ownership::{beside, is_regular};

/// Longer than any line of the file.
const MAX_LEN: usize = 128;

/// The length in bytes above which the file is truncated. Only its last line counts.
const CUT_AT: u64 = 64 * 1024;

/// The files beside the database.
#[derive(Debug)]
pub(super) struct Generation {
    path: Option<PathBuf>,
    /// This file exists if a process could not write a change to the database.
    missed: Option<PathBuf>,
    boot: Option<String>,
}

impl Generation {
    /// For the database at `path`, if it is in a file.
    pub(super) fn new(path: Option<&Path>) -> Self {
        Self {
            path: path.map(|path| beside(path, ".generation")),
            missed: path.map(|path| beside(path, ".missed")),
            boot: None,
        }
    }

    /// Whether the database has every change that was ever written to it, as far as can be known.
    pub(super) fn is_current(&mut self, disk: &dyn Disk, tx: &Transaction<'_>) -> Result<bool> {
        let missed = self.missed.as_deref();
        if missed.is_some_and(|path| std::fs::symlink_metadata(path).is_ok()) {
            return Ok(false);
        }
        let expected = self.text(number(tx)?);
        Ok(expected.is_some() && self.read(disk) == expected)
    }

    /// Increments the number, if nothing is missing so far.
    pub(super) fn advance(&mut self, disk: &dyn Disk, tx: &Transaction<'_>) -> Result<()> {
        if self.is_current(disk, tx)? {
            self.renew(disk, tx)?;
        }
        Ok(())
    }

    /// Increments the number: the caller knows that nothing is missing.
    pub(super) fn renew(&mut self, disk: &dyn Disk, tx: &Transaction<'_>) -> Result<()> {
        let number = number(tx)?.wrapping_add(1);
        tx.prepare_cached("UPDATE names SET generation = ?")?
            .execute([number])?;
        if let Some(text) = self.text(number)
            && let Err(error) = self.write(disk, &text)
        {
            // The next process compares lengths.
            tracing::debug!(%error, "cannot write the catalog's generation");
        }
        Ok(())
    }

    /// Records that a change is missing, so that the next process checks the logs.
    pub(super) fn missed(&self, disk: &dyn Disk) {
        let Some(path) = &self.missed else {
            return;
        };
        if let Err(error) = disk.create_new(path)
            && error.kind() != ErrorKind::AlreadyExists
        {
            tracing::debug!(%error, "cannot note that the catalog misses a change");
        }
    }

    /// To be called before all lengths are compared: changes missed from then on are recorded
    /// again.
    pub(super) fn begin_audit(&self, disk: &dyn Disk) {
        if let Some(path) = &self.missed
            && let Err(error) = disk.remove_if_exists(path)
        {
            tracing::debug!(%error, "the next process compares the lengths of all logs again");
        }
    }

    /// The expected content of the file; none if the system does not report its boot.
    fn text(&mut self, number: i64) -> Option<String> {
        if self.boot.is_none() {
            self.boot = boot_id();
        }
        let boot = self.boot.as_ref()?;
        Some(format!("{boot} {number}\n"))
    }

    fn read(&self, disk: &dyn Disk) -> Option<String> {
        let path = self.path.as_ref()?;
        if !is_regular(path).unwrap_or(false) {
            return None;
        }
        let file = disk.open_read(path).ok()?;
        let mut end = vec![0; MAX_LEN];
        let from = file.len().ok()?.saturating_sub(MAX_LEN as u64);
        let len = file.read_at(&mut end, from).ok()?;
        end.truncate(len);
        let end = String::from_utf8(end).ok()?;
        let last = end.strip_suffix('\n')?.rsplit('\n').next()?;
        Some(format!("{last}\n"))
    }

    fn write(&self, disk: &dyn Disk, text: &str) -> std::io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut file = match is_regular(path) {
            Ok(true) => disk.open_append(path)?,
            Ok(false) => disk.create_new(path)?,
            Err(error) => return Err(std::io::Error::other(error)),
        };
        // Not each time: some systems write a truncated file to the disk at once.
        if file.len()? > CUT_AT {
            file.set_len(0)?;
        }
        file.append(text.as_bytes())?;
        Ok(())
    }
}

fn number(tx: &Transaction<'_>) -> Result<i64> {
    tx.prepare_cached("SELECT generation FROM names")?
        .query_row([], |row| row.get(0))
}
