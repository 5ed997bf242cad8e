//! The state of a picker, and how keys change it. It knows neither the terminal nor the store.

use std::collections::HashMap;

use anstyle::{Effects, Style};

use crate::cli::sessions::table::{self, SessionTable};
use crate::cli::term::{FAINT, PLAIN, STRONG, Span, StyledLine, WAITING, cut, pad, wrap};
use rejoin::sys::SessionId;

/// From this width on the preview is beside the list, otherwise below it.
const WIDE: usize = 110;
/// How many columns the list beside a preview has at least, if that is not most of the screen.
const LEAST_LIST: usize = 72;
const CHOSEN: Style = Style::new().effects(Effects::INVERT);
/// How many columns the mark before a row takes.
const MARK: usize = 2;
/// The share of the list if the preview is below it: one row in so many.
const SHARE: usize = 2;

const KEYS: &str = "Enter show · / search · r go on · i keep · ? keys · q quit";
const NAMING_KEYS: &str = " · Enter rename · Esc leave it";
/// The keys, and what they do.
const ALL_KEYS: [(&str, &str); 16] = [
    ("Enter", "show the conversation"),
    (
        "/",
        "search titles and words; the preview shows where they are",
    ),
    ("o", "show it as a page in the browser"),
    ("r", "go on with it in its own tool"),
    ("a", "attach: follow it live, and answer its agent"),
    ("e", "export it as Markdown into a new file in this folder"),
    ("n", "give it another name"),
    ("i", "import: keep a copy here of what another tool keeps"),
    (
        "w",
        "only what its tool will delete in the next 7 days, or all",
    ),
    ("c", "copy its ID"),
    ("d", "move it to the trash"),
    ("↑ ↓ j k", "the one before, the next"),
    ("PgUp PgDn", "a page up or down"),
    ("Home End", "the first, the last"),
    ("Esc", "leave the search; leave"),
    ("q", "leave"),
];
/// How many columns the names of keys take.
const KEY_NAMES: usize = 11;

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
    Resume(SessionId),
    Attach(SessionId),
    Export(SessionId),
    Import(SessionId),
    Rename(SessionId, String),
}

/// What keys are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum PickerMode {
    /// Choosing a session.
    #[default]
    List,
    /// Typing what to search for.
    Search,
    /// Answering whether this session is to be deleted.
    Delete(SessionId),
    /// Typing another title of this session.
    Rename(SessionId, String),
    /// Reading what the keys do.
    Keys,
}

/// A preview to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PreviewRequest {
    pub(super) id: SessionId,
    /// The search whose words are looked for in it; none if it is empty.
    pub(super) query: Option<String>,
    pub(super) columns: usize,
    pub(super) lines: usize,
    /// The edition of what the session has, which a preview that was begun before a change is not of.
    pub(super) edition: u64,
}

/// A session in the list. Its texts are printable and on one line.
#[derive(Clone, Debug)]
pub(super) struct PickerRow {
    pub(super) id: SessionId,
    pub(super) shown: table::TableRow,
    /// The reason why the session cannot be changed, if so.
    pub(super) kept: Option<String>,
    /// The length of its log, and when it was changed: other ones if it has changed.
    pub(super) version: (u64, String),
    /// The text that is searched at once, in lower case.
    pub(super) words: String,
    /// Whether its tool will soon delete it.
    pub(super) is_due: bool,
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
    /// Whether only sessions that their tools will soon delete are shown.
    only_due: bool,
    /// The sessions that the index found, and the search that found them.
    hits: Option<(String, Vec<SessionId>)>,
    mode: PickerMode,
    chosen: usize,
    /// The first row on the screen.
    top: usize,
    note: String,
    columns: usize,
    lines: usize,
    preview: Option<(PreviewRequest, Vec<StyledLine>)>,
    /// How often the chosen session has changed.
    edition: u64,
    /// What Enter does with a session that is only to be chosen; none if the list is for everything.
    choosing: Option<&'static str>,
    /// What the user has, above the list; none until that is known.
    overview: Option<Vec<Vec<Span>>>,
}

impl Picker {
    /// A picker without rows so far.
    pub(super) fn new(columns: usize, lines: usize) -> Self {
        let mut picker = Self::default();
        picker.resize(columns, lines);
        picker
    }

    /// A picker in which a session is only chosen, for what `verb` says.
    pub(super) fn choosing(mut self, verb: Option<&'static str>) -> Self {
        self.choosing = verb;
        self
    }

    /// The list has these rows, in their order. What was chosen stays so. A question about a session that
    /// is gone ends.
    pub(super) fn set_rows(&mut self, rows: Vec<PickerRow>) {
        let asked = match &self.mode {
            PickerMode::Delete(id) | PickerMode::Rename(id, _) => Some(id.clone()),
            _ => None,
        };
        if let Some(id) = &asked
            && !rows.iter().any(|row| row.id == *id)
        {
            self.mode = PickerMode::List;
            self.say("This session is gone: nothing was changed.");
        }
        // The first one is nobody's choice.
        let before = asked.or_else(|| self.chosen().filter(|_| self.chosen > 0));
        let version = |rows: &[PickerRow], id: &SessionId| {
            let row = rows.iter().find(|row| row.id == *id);
            row.map(|row| row.version.clone())
        };
        if let Some(id) = self.chosen()
            && version(&self.rows, &id) != version(&rows, &id)
        {
            self.edition += 1;
        }
        self.rows = rows;
        self.lay_out();
        self.search_and_choose(before.as_ref());
    }

    /// What the user has.
    pub(super) fn set_overview(&mut self, overview: Vec<Vec<Span>>) {
        self.overview = Some(overview);
        self.settle();
    }

    /// Whether the list is still being read.
    fn is_reading(&self) -> bool {
        self.overview.is_none()
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
        if key == PickerKey::Control('c') {
            return Some(PickerAction::Quit);
        }
        match std::mem::take(&mut self.mode) {
            PickerMode::List => self.listed(key),
            PickerMode::Search => {
                self.mode = PickerMode::Search;
                self.searched(key)
            }
            PickerMode::Delete(id) => {
                let yes = matches!(key, PickerKey::Char('y' | 'Y'));
                yes.then_some(PickerAction::Delete(id))
            }
            PickerMode::Rename(id, title) => self.renamed(key, id, title),
            PickerMode::Keys => None,
        }
    }

    /// A key that moves the choice, or shows what is chosen, in the list and in a search.
    fn moved(&mut self, key: PickerKey) -> Option<PickerAction> {
        let page = self.list_lines().max(2) - 1;
        match key {
            PickerKey::Up | PickerKey::Control('p') => self.chosen = self.chosen.saturating_sub(1),
            PickerKey::Down | PickerKey::Control('n') => self.chosen += 1,
            PickerKey::PageUp => self.chosen = self.chosen.saturating_sub(page),
            PickerKey::PageDown => self.chosen += page,
            PickerKey::Home => self.chosen = 0,
            PickerKey::End => self.chosen = usize::MAX,
            PickerKey::Enter => return self.chosen().map(PickerAction::Show),
            _ => {}
        }
        self.settle();
        None
    }

    /// A key in the list.
    fn listed(&mut self, key: PickerKey) -> Option<PickerAction> {
        let PickerKey::Char(letter) = key else {
            if key != PickerKey::Escape {
                return self.moved(key);
            }
            if self.only_due {
                self.only_due = false;
            } else if self.query.is_empty() {
                return Some(PickerAction::Quit);
            } else {
                self.query.clear();
            }
            self.search();
            return None;
        };
        let action = match letter {
            'q' => return Some(PickerAction::Quit),
            'k' => return self.moved(PickerKey::Up),
            'j' => return self.moved(PickerKey::Down),
            '/' => {
                self.mode = PickerMode::Search;
                return None;
            }
            _ if self.choosing.is_some() => return None,
            '?' => {
                self.mode = PickerMode::Keys;
                return None;
            }
            'w' => {
                self.switch_due();
                return None;
            }
            'd' | 'n' => {
                self.ask_to_change(letter == 'n');
                return None;
            }
            'o' => PickerAction::Open,
            'c' => PickerAction::Copy,
            'r' => PickerAction::Resume,
            'a' => PickerAction::Attach,
            'e' => PickerAction::Export,
            'i' => PickerAction::Import,
            _ => return None,
        };
        self.chosen().map(action)
    }

    /// Shows only sessions that their tools will soon delete, or all again.
    fn switch_due(&mut self) {
        if self.only_due || self.rows.iter().any(|row| row.is_due) {
            self.only_due = !self.only_due;
            self.search();
        } else {
            self.say(
                "No conversation of this list will be deleted by its tool in the next 7 days.",
            );
        }
    }

    /// Asks for another title of the chosen session, or whether to delete it; says why not if another tool
    /// keeps it.
    fn ask_to_change(&mut self, renames: bool) {
        let row = self.chosen_row();
        let Some(row) = row else { return };
        let id = row.id.clone();
        match row.kept.clone() {
            Some(why) => self.note = why,
            None if renames => self.mode = PickerMode::Rename(id, row.shown.title.clone()),
            None => self.mode = PickerMode::Delete(id),
        }
    }

    /// A key while a title is typed.
    fn renamed(
        &mut self,
        key: PickerKey,
        id: SessionId,
        mut title: String,
    ) -> Option<PickerAction> {
        match key {
            PickerKey::Char(c) => title.push(c),
            PickerKey::Backspace => _ = title.pop(),
            PickerKey::Control('u') => title.clear(),
            PickerKey::Escape => return None,
            PickerKey::Enter => {
                let is_title = !title.trim().is_empty();
                return is_title.then_some(PickerAction::Rename(id, title));
            }
            _ => {}
        }
        self.mode = PickerMode::Rename(id, title);
        None
    }

    /// A key while words to search for are typed.
    fn searched(&mut self, key: PickerKey) -> Option<PickerAction> {
        match key {
            PickerKey::Char(c) => self.query.push(c),
            PickerKey::Backspace => _ = self.query.pop(),
            PickerKey::Control('u') => self.query.clear(),
            PickerKey::Tab => {
                self.mode = PickerMode::List;
                return None;
            }
            PickerKey::Escape => {
                self.mode = PickerMode::List;
                self.query.clear();
            }
            key => return self.moved(key),
        }
        self.search();
        None
    }

    /// Looks for the words in what the list has, and puts what the index found behind that.
    fn search(&mut self) {
        let before = self.chosen();
        self.search_and_choose(before.as_ref());
    }

    /// Searches, and chooses this session again if it is found.
    fn search_and_choose(&mut self, before: Option<&SessionId>) {
        let query = self.query.to_lowercase();
        let is_shown = |row: &PickerRow| row.is_due || !self.only_due;
        let has_all = |row: &PickerRow| {
            let mut words = query.split_whitespace();
            is_shown(row) && words.all(|word| row.words.contains(word))
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
                if !self.found.contains(&place) && is_shown(&self.rows[place]) {
                    self.found.push(place);
                }
            }
        }
        let again = |at: &usize| Some(&self.rows[*at].id) == before;
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

    pub(super) fn chosen(&self) -> Option<SessionId> {
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
        // The places of the words are known only now.
        self.preview = None;
        self.search();
    }

    /// The preview that is missing.
    pub(super) fn wants_preview(&self) -> Option<PreviewRequest> {
        let (columns, lines) = if self.is_wide() {
            (self.columns - self.list_columns() - 3, self.list_lines())
        } else {
            let above = self.head().len() + self.list_lines();
            (self.columns, self.lines.saturating_sub(2 + above))
        };
        let wanted = PreviewRequest {
            id: self.chosen()?,
            query: Some(self.query.clone()).filter(|query| !query.trim().is_empty()),
            columns,
            lines,
            edition: self.edition,
        };
        let has = self.preview.as_ref().is_some_and(|(of, _)| *of == wanted);
        (!has).then_some(wanted)
    }

    pub(super) fn set_preview(&mut self, of: PreviewRequest, lines: Vec<StyledLine>) {
        self.preview = Some((of, lines));
    }

    /// Says something until the next key.
    pub(super) fn say(&mut self, note: &str) {
        note.clone_into(&mut self.note);
    }

    /// A session is no longer there. Whether it was in the list.
    pub(super) fn remove(&mut self, id: &SessionId) -> bool {
        let (place, before) = (self.chosen, self.rows.len());
        self.rows.retain(|row| row.id != *id);
        self.found.clear();
        self.lay_out();
        self.search();
        self.chosen = place;
        self.settle();
        self.rows.len() < before
    }

    /// A session has another title, or is no longer one that another tool keeps.
    pub(super) fn change(&mut self, id: &SessionId, change: impl FnOnce(&mut PickerRow)) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == *id) {
            change(row);
            row.has_state = false;
        }
        self.edition += 1;
        self.lay_out();
        self.search();
    }

    fn is_wide(&self) -> bool {
        self.columns >= WIDE
    }

    fn list_columns(&self) -> usize {
        if self.is_wide() {
            LEAST_LIST.min(self.columns * 3 / 5).max(self.columns / 2)
        } else {
            self.columns
        }
    }

    /// How many rows the list may have.
    fn list_lines(&self) -> usize {
        let lines = self.lines.saturating_sub(self.head().len() + 1).max(1);
        if self.is_wide() || self.lines < 10 {
            lines
        } else {
            lines / SHARE
        }
    }

    /// What the user has, or what is searched for.
    fn head(&self) -> Vec<StyledLine> {
        if self.mode == PickerMode::Search || !self.query.is_empty() {
            let count = format!("{} of {}", self.found.len(), self.rows.len());
            let mut head = StyledLine::new(STRONG, "Search: ");
            head.push(PLAIN, &cut(&self.query, self.columns.saturating_sub(30)));
            let typing = self.mode == PickerMode::Search;
            head.push(FAINT, if typing { "▏ " } else { "  " });
            head.push(FAINT, &count);
            return vec![head.cut(self.columns)];
        }
        if self.only_due {
            let text =
                "What tools will delete in the next 7 days: `i` keeps one, `w` shows all again";
            return vec![StyledLine::new(WAITING, text).cut(self.columns)];
        }
        let Some(overview) = &self.overview else {
            return vec![StyledLine::new(FAINT, "Looking for conversations …").cut(self.columns)];
        };
        let lines = overview.iter();
        let lines = lines.flat_map(|line| wrap(line, Some(self.columns)));
        // The list is what it is about.
        lines.take(self.lines / 4).map(StyledLine::of).collect()
    }

    /// The whole screen, from top to bottom.
    pub(super) fn frame(&self) -> Vec<StyledLine> {
        let mut frame = self.head();
        if self.mode == PickerMode::Keys {
            self.add_keys(&mut frame);
        } else {
            self.add_list(&mut frame);
        }
        let foot = self.foot();
        frame.resize(self.lines - foot.len(), StyledLine::default());
        frame.extend(foot);
        frame
    }

    /// Adds what the keys do.
    fn add_keys(&self, frame: &mut Vec<StyledLine>) {
        let lines = ALL_KEYS.map(|(key, does)| {
            let mut line = StyledLine::new(STRONG, &pad(key, KEY_NAMES));
            line.push(PLAIN, does);
            line.cut(self.columns)
        });
        frame.extend(lines);
        frame.truncate(self.lines - 1);
    }

    /// Adds the list, and the preview beside it or below.
    fn add_list(&self, frame: &mut Vec<StyledLine>) {
        let no_preview = Vec::new();
        let shown = self.chosen();
        let preview = self
            .preview
            .as_ref()
            .filter(|(of, _)| Some(&of.id) == shown.as_ref());
        let preview = preview.map_or(&no_preview, |(_, lines)| lines);
        let room = self.list_columns();
        for at in 0..self.list_lines() {
            let line = match self.found.get(self.top + at) {
                Some(place) => self.row_line(&self.rows[*place], self.top + at == self.chosen),
                None if at == 0 && !self.is_reading() => StyledLine::new(
                    FAINT,
                    if self.rows.is_empty() {
                        "There are no sessions."
                    } else if self.only_due {
                        "Nothing will be deleted that has no copy here."
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
    }

    /// The keys, a question or a message, in as many lines as it takes.
    fn foot(&self) -> Vec<StyledLine> {
        let spans = match &self.mode {
            PickerMode::Delete(_) => {
                vec![(WAITING, "Move this session to the trash? y/N".to_owned())]
            }
            PickerMode::Rename(_, title) => vec![
                (STRONG, "Title: ".to_owned()),
                (PLAIN, title.clone()),
                (FAINT, format!("▏{NAMING_KEYS}")),
            ],
            _ if !self.note.is_empty() => vec![(WAITING, self.note.clone())],
            PickerMode::Search => {
                let does = self.choosing.unwrap_or("show");
                let keys = format!("type titles or words · Enter {does} · Tab keep · Esc clear");
                vec![(FAINT, keys)]
            }
            PickerMode::Keys => vec![(FAINT, "any key: back to the list".to_owned())],
            PickerMode::List => vec![(
                FAINT,
                match self.choosing {
                    None => KEYS.to_owned(),
                    Some(does) => format!("Enter {does} · / search · Esc leave"),
                },
            )],
        };
        let lines = wrap(&spans, Some(self.columns));
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
