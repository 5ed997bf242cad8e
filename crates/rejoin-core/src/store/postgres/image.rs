//! Reads a log from the database, some blocks at a time, with the next ones on their way.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio_postgres::Row;

use crate::store::medium::Image;
use crate::sys::{blocking, lock};

use super::StoreTables;
use super::driver::{Pending, Repeat, int};
use super::failure::DatabaseFailure;

/// How much is read at first, in bytes: enough for headers and short sessions.
const FIRST: i64 = 64 * 1024;
/// How much one statement reads, in bytes.
const PAGE: i64 = 1024 * 1024;
/// How many pages are asked for ahead of the reader.
const AHEAD: usize = 3;

/// The blocks that begin between two offsets.
const FROM: &str = "
    SELECT off, bytes FROM @.block WHERE no = $1 AND off >= $2 AND off < $3 ORDER BY off";
/// The blocks that begin between two offsets, and the block which has the first offset.
const AROUND: &str = "
    SELECT off, bytes FROM @.block WHERE no = $1 AND off < $3 AND off >= coalesce(
        (SELECT off FROM @.block WHERE no = $1 AND off <= $2 ORDER BY off DESC LIMIT 1), $2)
    ORDER BY off";

/// The bytes of a log.
pub(super) struct Pages {
    tables: Arc<StoreTables>,
    no: i64,
    path: PathBuf,
    read: Mutex<PagesRead>,
}

#[derive(Default)]
struct PagesRead {
    /// The blocks that were read, with no gap between them, and where each begins in the log.
    page: Vec<(u64, Row)>,
    /// Where they end in the log.
    end: u64,
    /// The pages that were asked for: where each begins at the earliest.
    ahead: VecDeque<(i64, Pending)>,
    /// Whether the reader goes on from page to page.
    goes_on: bool,
}

impl Pages {
    pub(super) fn new(tables: Arc<StoreTables>, no: i64, path: PathBuf) -> Self {
        Self {
            tables,
            no,
            path,
            read: Mutex::default(),
        }
    }

    /// Forgets what was read, since the log has changed.
    pub(super) fn forget(&self) {
        *lock(&self.read) = PagesRead::default();
    }

    /// Reads the page that begins at `offset`, or around it. It is empty at the end of the log.
    fn turn_to(&self, read: &mut PagesRead, offset: u64) -> io::Result<()> {
        let at = i64::try_from(offset).unwrap_or(i64::MAX);
        let follows = read.end == offset && !read.page.is_empty();
        if follows && self.take_ahead(read, at)? {
            return self.ask_ahead(read);
        }
        read.ahead.clear();
        let size = if follows { PAGE } else { FIRST };
        let params = vec![int(self.no), int(at), int(at.saturating_add(size))];
        let rows = self.tables.driver.query(AROUND, params, Repeat::Yes);
        self.fill(read, rows)?;
        read.goes_on = follows;
        self.ask_ahead(read)
    }

    /// Takes the next page from those that were asked for; false if none of them has it. What they
    /// have may be from before the log grew.
    fn take_ahead(&self, read: &mut PagesRead, at: i64) -> io::Result<bool> {
        while let Some((_, rows)) = read.ahead.pop_front() {
            let rows = blocking(|| rows.recv());
            let rows = rows.unwrap_or_else(|_| Ok(Vec::new()));
            let begins = match &rows {
                Ok(rows) => rows.first().map(|row| row.get::<_, i64>(0)),
                Err(_) => None,
            };
            if begins == Some(at) {
                self.fill(read, rows)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ask_ahead(&self, read: &mut PagesRead) -> io::Result<()> {
        if !read.goes_on || read.page.is_empty() {
            return Ok(());
        }
        while read.ahead.len() < AHEAD {
            let from = match read.ahead.back() {
                Some((from, _)) => from + PAGE,
                None => i64::try_from(read.end).unwrap_or(i64::MAX),
            };
            let params = vec![int(self.no), int(from), int(from.saturating_add(PAGE))];
            let rows = self.tables.driver.begin(FROM, params, Repeat::Yes);
            read.ahead
                .push_back((from, rows.map_err(|failure| self.failed(failure))?));
        }
        Ok(())
    }

    /// Uses these rows as the page, as far as there is no gap between them.
    fn fill(
        &self,
        read: &mut PagesRead,
        rows: Result<Vec<Row>, DatabaseFailure>,
    ) -> io::Result<()> {
        read.page.clear();
        for row in rows.map_err(|failure| self.failed(failure))? {
            let off = row.get::<_, i64>(0).unsigned_abs();
            if !read.page.is_empty() && off != read.end {
                break;
            }
            read.end = off + bytes(&row).len() as u64;
            read.page.push((off, row));
        }
        Ok(())
    }

    fn failed(&self, failure: DatabaseFailure) -> io::Error {
        io::Error::other(self.tables.failed("read", failure))
    }
}

fn bytes(row: &Row) -> &[u8] {
    row.get(1)
}

impl PagesRead {
    /// Whether it has the byte at `offset`.
    fn has(&self, offset: u64) -> bool {
        let first = self.page.first();
        first.is_some_and(|(start, _)| (*start..self.end).contains(&offset))
    }

    /// Copies what it has from `offset` on.
    fn copy(&self, buffer: &mut [u8], offset: u64) -> usize {
        let behind = self.page.partition_point(|(start, _)| *start <= offset);
        let mut len = 0;
        for (start, row) in self.page.iter().skip(behind.saturating_sub(1)) {
            let at = usize::try_from(offset.saturating_sub(*start)).unwrap_or(usize::MAX);
            let rest = bytes(row).get(at..).unwrap_or_default();
            let fits = rest.len().min(buffer.len() - len);
            buffer[len..len + fits].copy_from_slice(&rest[..fits]);
            len += fits;
            if len == buffer.len() {
                break;
            }
        }
        len
    }
}

impl Image for Pages {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = lock(&self.read);
        if !read.has(offset) {
            self.turn_to(&mut read, offset)?;
            if !read.has(offset) {
                return Ok(0);
            }
        }
        Ok(read.copy(buffer, offset))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("no", &self.no)
            .finish_non_exhaustive()
    }
}
