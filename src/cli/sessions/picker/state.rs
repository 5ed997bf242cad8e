//! The state of a picker, and how keys change it. It knows neither the terminal nor the store.

use std::collections::HashMap;

use anstyle::{Effects, Style};

use crate::cli::sessions::table::{self, SessionTable};
use crate::cli::term::{FAINT, PLAIN, STRONG, StyledLine, WAITING, cut, wrap};
use rejoin::sys::SessionId;

/// From this width on the preview is beside the list, otherwise below it.
const WIDE: usize = 110;
const CHOSEN: Style = Style::new().effects(Effects::INVERT);
/// How many columns the mark before a row takes.
const MARK: usize = 2;
/// The share of the list if the preview is below it: one row in so many.
const SHARE: usize = 2;

const KEYS: &str = "Enter show · / search · o page · c copy · d trash · q quit";
const TYPING_KEYS: &str = "type titles or words · Enter show · Tab keep · Esc clear";

/// A key, or several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PickerKey {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Tab,
    Backspace,
    Char(char),
    /// With Ctrl.
    Control(char),
}

/// The action that a key requests, besides a change of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PickerAction {
    Quit,
    Show(SessionId),
    Open(SessionId),
    Copy(SessionId),
    Delete(SessionId),
}

/// A session in the list. Its texts are printable and on one line.
#[derive(Clone, Debug)]
pub(super) struct PickerRow {
    pub(super) id: SessionId,
    pub(super) shown: table::TableRow,
    /// The reason why the session cannot be deleted, if so.
    pub(super) kept: Option<String>,
    /// The text that is searched at once, in lower case.
    pub(super) words: String,
    /// Whether the session's state is known.
    pub(super) has_state: bool,
}

/// The list, the search and the preview.
#[derive(Debug, Default)]
pub(super) struct Picker {
    rows: Vec<PickerRow>,
    table: SessionTable,
    /// The rows that match the search, in the order in which they are shown.
    found: Vec<usize>,
    query: String,
    /// The sessions that the index found, and the search that found them.
    hits: Option<(String, Vec<SessionId>)>,
    is_typing: bool,
    /// Whether the user is asked if the chosen session is to be deleted.
    asks: bool,
    chosen: usize,
    /// The first row on the screen.
    top: usize,
    note: String,
    columns: usize,
    lines: usize,
    preview: Option<(SessionId, Vec<StyledLine>)>,
}

impl Picker {
    pub(super) fn new(rows: Vec<PickerRow>, columns: usize, lines: usize) -> Self {
        let mut picker = Self {
            found: (0..rows.len()).collect(),
            rows,
            ..Self::default()
        };
        picker.resize(columns, lines);
        picker
    }

    /// The screen has another size.
    pub(super) fn resize(&mut self, columns: usize, lines: usize) {
        (self.columns, self.lines) = (columns.max(20), lines.max(4));
        self.preview = None;
        self.lay_out();
        self.settle();
    }

    /// Fits the columns of the list to its rows.
    fn lay_out(&mut self) {
        let room = self.list_columns() - MARK;
        let rows = self.rows.iter().map(|row| &row.shown);
        self.table = SessionTable::of(room, "Used", rows);
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: PickerKey) -> Option<PickerAction> {
        self.note.clear();
        if std::mem::take(&mut self.asks) {
            let yes = matches!(key, PickerKey::Char('y' | 'Y'));
            return self.chosen().filter(|_| yes).map(PickerAction::Delete);
        }
        let page = self.list_lines().max(2) - 1;
        match key {
            PickerKey::Control('c') => return Some(PickerAction::Quit),
            PickerKey::Up | PickerKey::Control('p') => self.chosen = self.chosen.saturating_sub(1),
            PickerKey::Down | PickerKey::Control('n') => self.chosen += 1,
            PickerKey::PageUp => self.chosen = self.chosen.saturating_sub(page),
            PickerKey::PageDown => self.chosen += page,
            PickerKey::Home => self.chosen = 0,
            PickerKey::End => self.chosen = usize::MAX,
            PickerKey::Enter => return self.chosen().map(PickerAction::Show),
            key if self.is_typing => self.typed(key),
            PickerKey::Escape if !self.query.is_empty() => {
                self.query.clear();
                self.search();
            }
            PickerKey::Escape | PickerKey::Char('q') => return Some(PickerAction::Quit),
            PickerKey::Char('/') => self.is_typing = true,
            PickerKey::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            PickerKey::Char('j') => self.chosen += 1,
            PickerKey::Char('o') => return self.chosen().map(PickerAction::Open),
            PickerKey::Char('c') => return self.chosen().map(PickerAction::Copy),
            PickerKey::Char('d') => match self.chosen_row().map(|row| row.kept.clone()) {
                Some(Some(why)) => self.note = why,
                row => self.asks = row.is_some(),
            },
            _ => {}
        }
        self.settle();
        None
    }

    fn typed(&mut self, key: PickerKey) {
        match key {
            PickerKey::Char(c) => self.query.push(c),
            PickerKey::Backspace => _ = self.query.pop(),
            PickerKey::Control('u') => self.query.clear(),
            PickerKey::Tab => self.is_typing = false,
            PickerKey::Escape => {
                self.is_typing = false;
                self.query.clear();
            }
            _ => return,
        }
        self.search();
    }

    /// Looks for the words in what the list has, and puts what the index found behind that.
    fn search(&mut self) {
        let before = self.chosen();
        let query = self.query.to_lowercase();
        let has_all = |row: &PickerRow| {
            query
                .split_whitespace()
                .all(|word| row.words.contains(word))
        };
        let rows = self.rows.iter().enumerate();
        self.found = rows
            .filter(|(_, row)| has_all(row))
            .map(|(at, _)| at)
            .collect();
        if let Some((of, hits)) = &self.hits
            && *of == self.query
        {
            let places = hits
                .iter()
                .filter_map(|id| self.rows.iter().position(|row| row.id == *id));
            for place in places {
                if !self.found.contains(&place) {
                    self.found.push(place);
                }
            }
        }
        let again = |at: &usize| Some(&self.rows[*at].id) == before.as_ref();
        self.chosen = self.found.iter().position(again).unwrap_or(0);
        self.settle();
    }

    /// Keeps the chosen row in the list, and on the screen.
    fn settle(&mut self) {
        self.chosen = self.chosen.min(self.found.len().saturating_sub(1));
        let lines = self.list_lines();
        self.top = self
            .top
            .clamp((self.chosen + 1).saturating_sub(lines), self.chosen);
        self.top = self.top.min(self.found.len().saturating_sub(lines));
    }

    fn chosen_row(&self) -> Option<&PickerRow> {
        Some(&self.rows[*self.found.get(self.chosen)?])
    }

    fn chosen(&self) -> Option<SessionId> {
        self.chosen_row().map(|row| row.id.clone())
    }

    /// The sessions on the screen of which it is not known what they are doing: to look that up for
    /// all would take long.
    pub(super) fn wants_states(&self) -> Vec<SessionId> {
        let shown = self.found.iter().skip(self.top).take(self.list_lines());
        let rows = shown.map(|place| &self.rows[*place]);
        rows.filter(|row| !row.has_state)
            .map(|row| row.id.clone())
            .collect()
    }

    /// Sets the states of these sessions, and their styles.
    pub(super) fn set_states(&mut self, mut states: HashMap<SessionId, (String, Style)>) {
        if states.is_empty() {
            return;
        }
        for row in &mut self.rows {
            if let Some((state, style)) = states.remove(&row.id) {
                row.has_state = true;
                (row.shown.state, row.shown.state_style) = (state, style);
            }
        }
        self.lay_out();
    }

    /// The words that the index was not yet asked for.
    pub(super) fn wants_hits(&self) -> Option<&str> {
        let known = self.hits.as_ref().is_some_and(|(of, _)| *of == self.query);
        (!known && !self.query.trim().is_empty()).then_some(&self.query)
    }

    /// The index has found these sessions.
    pub(super) fn set_hits(&mut self, of: String, hits: Vec<SessionId>) {
        self.hits = Some((of, hits));
        self.search();
    }

    /// The session of which a preview is missing, and how wide and long that may be.
    pub(super) fn wants_preview(&self) -> Option<(SessionId, usize, usize)> {
        let id = self.chosen()?;
        let has = self.preview.as_ref().is_some_and(|(of, _)| *of == id);
        let (columns, lines) = if self.is_wide() {
            (self.columns - self.list_columns() - 3, self.lines - 2)
        } else {
            (
                self.columns,
                self.lines.saturating_sub(3 + self.list_lines()),
            )
        };
        (!has).then_some((id, columns, lines))
    }

    pub(super) fn set_preview(&mut self, id: SessionId, lines: Vec<StyledLine>) {
        self.preview = Some((id, lines));
    }

    /// Says something until the next key.
    pub(super) fn say(&mut self, note: &str) {
        note.clone_into(&mut self.note);
    }

    /// A session is no longer there.
    pub(super) fn remove(&mut self, id: &SessionId) {
        let place = self.chosen;
        self.rows.retain(|row| row.id != *id);
        self.found.clear();
        self.lay_out();
        self.search();
        self.chosen = place;
        self.settle();
    }

    fn is_wide(&self) -> bool {
        self.columns >= WIDE
    }

    fn list_columns(&self) -> usize {
        if self.is_wide() {
            self.columns / 2
        } else {
            self.columns
        }
    }

    /// How many rows the list may have.
    fn list_lines(&self) -> usize {
        let lines = self.lines - 2;
        if self.is_wide() || lines < 8 {
            lines
        } else {
            lines / SHARE
        }
    }

    /// The whole screen, from top to bottom.
    pub(super) fn frame(&self) -> Vec<StyledLine> {
        let count = format!("{} of {}", self.found.len(), self.rows.len());
        let mut head = if self.is_typing || !self.query.is_empty() {
            let mut head = StyledLine::new(STRONG, "Search: ");
            head.push(PLAIN, &cut(&self.query, self.columns.saturating_sub(30)));
            head.push(FAINT, if self.is_typing { "▏ " } else { "  " });
            head
        } else {
            StyledLine::new(STRONG, "Sessions  ")
        };
        head.push(FAINT, &count);
        let mut frame = vec![head.cut(self.columns)];
        let no_preview = Vec::new();
        let shown = self.chosen();
        let preview = self
            .preview
            .as_ref()
            .filter(|(of, _)| Some(of) == shown.as_ref());
        let preview = preview.map_or(&no_preview, |(_, lines)| lines);
        let room = self.list_columns();
        for at in 0..self.list_lines() {
            let line = match self.found.get(self.top + at) {
                Some(place) => self.row_line(&self.rows[*place], self.top + at == self.chosen),
                None if at == 0 => StyledLine::new(
                    FAINT,
                    if self.rows.is_empty() {
                        "There are no sessions."
                    } else {
                        "No session has these words."
                    },
                ),
                None => StyledLine::default(),
            };
            if !self.is_wide() {
                frame.push(line.cut(room));
                continue;
            }
            let mut left = line.cut(room);
            left.push(FAINT, &" ".repeat(room.saturating_sub(left.width())));
            left.push(FAINT, " │ ");
            let right = preview.get(at).cloned().unwrap_or_default();
            frame.push(right.cut(self.columns - room - 3).behind(left));
        }
        if !self.is_wide() && frame.len() + 2 < self.lines {
            frame.push(StyledLine::new(FAINT, &"─".repeat(self.columns)));
            let left = self.lines - 1 - frame.len();
            frame.extend(preview.iter().take(left).map(|line| line.cut(self.columns)));
        }
        let foot = self.foot();
        frame.resize(self.lines - foot.len(), StyledLine::default());
        frame.extend(foot);
        frame
    }

    /// The keys, a question or a message, in as many lines as it takes.
    fn foot(&self) -> Vec<StyledLine> {
        let (style, text) = if self.asks {
            (WAITING, "Move this session to the trash? y/N")
        } else if !self.note.is_empty() {
            (WAITING, self.note.as_str())
        } else if self.is_typing {
            (FAINT, TYPING_KEYS)
        } else {
            (FAINT, KEYS)
        };
        let lines = wrap(&[(style, text.to_owned())], Some(self.columns));
        lines
            .into_iter()
            .take(self.lines / 2)
            .map(StyledLine::of)
            .collect()
    }

    /// A session's line.
    fn row_line(&self, row: &PickerRow, is_chosen: bool) -> StyledLine {
        let mark = if is_chosen { "> " } else { "  " };
        let line = self
            .table
            .row(&row.shown)
            .behind(StyledLine::new(PLAIN, mark));
        if is_chosen {
            line.marked(CHOSEN, self.list_columns())
        } else {
            line
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
