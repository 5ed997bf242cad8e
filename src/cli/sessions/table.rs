//! Lists of sessions as people see them: a table that fits into the terminal.

use anstyle::Style;

use crate::cli::exit::Failure;
use crate::cli::term::{FAINT, ID, Output, PLAIN, STRONG, StyledLine, cut, cut_start, width};

/// How many sessions are listed on a terminal.
pub(super) const ON_A_SCREEN: usize = 20;

/// How many columns of the terminal are between those of the table.
const GAP: usize = 2;
/// The columns of the table, in their order.
const TITLE: usize = 0;
const ID_: usize = 1;
const AGENT: usize = 2;
const WHEN: usize = 3;
const FOLDER: usize = 4;
const STATE: usize = 5;
/// How wide they may be.
const MOST: [usize; 6] = [72, 48, 14, 15, 40, 28];
/// Columns beside title and ID, the most important first, and the width that each leaves to the
/// title. The folder takes what is left.
const OTHERS: [(usize, usize); 3] = [(WHEN, 16), (STATE, 16), (AGENT, 22)];
/// The least width of the folder, if there is room for it.
const LEAST_FOLDER: usize = 12;
/// The least width of title and folder together.
const WITH_FOLDER: usize = 40;

/// A session in a list. Its texts are one line each, and printable.
#[derive(Clone, Debug, Default)]
pub(super) struct TableRow {
    pub(super) title: String,
    /// The short form of its ID.
    pub(super) id: String,
    pub(super) agent: String,
    pub(super) when: String,
    pub(super) folder: String,
    /// Empty if nothing is going on.
    pub(super) state: String,
    pub(super) state_style: Style,
}

impl TableRow {
    fn cells(&self) -> [&str; 6] {
        let Self {
            title,
            id,
            agent,
            when,
            folder,
            state,
            ..
        } = self;
        [title, id, agent, when, folder, state]
    }
}

/// Prints a table with heads, if there are rows; `when` says what the times are.
pub(super) fn print_table(
    rows: &[TableRow],
    when: &'static str,
    output: &mut Output,
) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    let (room, colour) = (output.look().width, output.look().colour);
    let table = SessionTable::of(room, when, rows);
    output.line(table.head().text(colour))?;
    for row in rows {
        output.line(table.row(row).text(colour))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// A table of sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTable {
    heads: [&'static str; 6],
    title: Style,
    /// How wide the columns are; 0 if they are left out.
    wide: [usize; 6],
}

impl SessionTable {
    /// A table of `room` columns that fits these rows; `when` says what the times are.
    pub(super) fn of<'a>(
        room: usize,
        when: &'static str,
        rows: impl IntoIterator<Item = &'a TableRow>,
    ) -> Self {
        let heads = ["Title", "ID", "Agent", when, "Folder", "State"];
        let mut most = [0; 6];
        for row in rows {
            for (most, cell) in most.iter_mut().zip(row.cells()) {
                *most = width(cell).max(*most);
            }
        }
        let wanted = |n: usize| match most[n] {
            0 => 0,
            most => most.max(width(heads[n])).min(MOST[n]),
        };
        let mut wide = [0; 6];
        wide[ID_] = wanted(ID_);
        let mut left = room.saturating_sub(wide[ID_] + GAP);
        for (n, least_title) in OTHERS {
            let needed = wanted(n) + GAP;
            if left >= needed + least_title && needed > GAP {
                wide[n] = wanted(n);
                left -= needed;
            }
        }
        if left >= WITH_FOLDER + GAP && wanted(FOLDER) > 0 {
            let free = left - GAP;
            let room = (free / 4).max(LEAST_FOLDER);
            let room = room.max(free.saturating_sub(wanted(TITLE)));
            wide[FOLDER] = wanted(FOLDER).min(room);
            left = free - wide[FOLDER];
        }
        wide[TITLE] = wanted(TITLE).min(left);
        Self {
            heads,
            title: PLAIN,
            wide,
        }
    }

    /// The table with titles in this style.
    pub(super) fn with_titles(self, title: Style) -> Self {
        Self { title, ..self }
    }

    /// The heads of the columns.
    pub(super) fn head(&self) -> StyledLine {
        self.line(self.heads, [STRONG; 6])
    }

    /// The line of a session.
    pub(super) fn row(&self, row: &TableRow) -> StyledLine {
        let styles = [self.title, ID, PLAIN, FAINT, FAINT, row.state_style];
        self.line(row.cells(), styles)
    }

    fn line(&self, cells: [&str; 6], styles: [Style; 6]) -> StyledLine {
        let mut line = StyledLine::default();
        let mut missing = 0;
        let columns = self.wide.into_iter().enumerate();
        for (n, wide) in columns.filter(|(_, wide)| *wide > 0) {
            let shown = match n {
                FOLDER => cut_start(cells[n], wide),
                _ => cut(cells[n], wide),
            };
            if !shown.is_empty() {
                line.push(PLAIN, &" ".repeat(missing));
                line.push(styles[n], &shown);
                missing = 0;
            }
            missing += wide - width(&shown) + GAP;
        }
        line
    }
}
