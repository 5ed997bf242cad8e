//! `rejoin` or `rejoin sessions` alone in a terminal: a list to choose from, with search and preview.

mod loader;
mod screen;
mod state;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::cli::export;
use crate::cli::open;
use crate::cli::page_file;
use crate::cli::programs::Rejoin;
use crate::cli::resume;
use crate::cli::store_changes::StoreChanges;
use crate::cli::store_path;
use crate::cli::term::{BAD, FAINT, Foreground, GOOD, Look, Output, StyledLine, WAITING, count};
use rejoin::export::Options;
use rejoin::export::parts::{self, PartOptions};
use rejoin::index::{Archived, Catalog, Filter, Listed, Pattern, Query, Search};
use rejoin::store::{Store, StoreError};
use rejoin::sys::{SessionId, Timestamp, with_causes};

use super::context::{CommandContext, OtherTools, deleted_by, read};
use super::delete::to_trash;
use super::list;
use super::named::ShortIds;
use super::rename::set_title;
use super::search::{hit_line, sought_words};
use super::show::painter::ConversationPainter;
use super::show::{self, EndNotes};
use loader::{LoadRequest, LoadedSessions, Overview};
use screen::{Screen, ScreenInput};
use state::{Picker, PickerAction, PickerRow, PreviewRequest};

/// How many sessions the index looks for.
const HITS: usize = 200;
/// How many words of logs are indexed at once, in bytes of logs.
const WORDS: usize = 64 * 1024 * 1024;
/// Of a longer log there is no preview, in bytes.
const LONGEST: u64 = 512 * 1024 * 1024;

/// How long the list stays as it is at least while sessions change.
const STEADY: Duration = Duration::from_secs(2);
/// How many places of the words that are searched for are shown of a session.
const PLACES: usize = 5;

/// Shows the list until the user leaves it.
pub(super) fn run(context: &CommandContext<'_>, output: &mut Output) -> Result<(), Failure> {
    if matches!(start(context, None, output)?, PickerEnd::Empty) {
        context.no_sessions();
    }
    Ok(())
}

/// The session that the user chooses from the list, or from those of it that a process has open. `verb` says
/// what happens to it.
pub(in crate::cli) fn choose(
    context: &CommandContext<'_>,
    verb: &'static str,
    only_open: bool,
) -> Result<SessionId, Failure> {
    let choice = PickerChoice { verb, only_open };
    match start(context, Some(choice), &mut Output::standard())? {
        PickerEnd::Chosen(id) => Ok(id),
        PickerEnd::Left => Err(Failure::reported()),
        PickerEnd::Empty if only_open => Err(Failure::with_code(NOT_FOUND, "no session is open")),
        PickerEnd::Empty => Err(Failure::with_code(NOT_FOUND, "there are no sessions")),
    }
}

/// The purpose for which the user chooses a session.
#[derive(Clone, Copy, Debug)]
struct PickerChoice {
    verb: &'static str,
    /// Whether only sessions that a process has open are offered.
    only_open: bool,
}

/// How the list was left.
enum PickerEnd {
    /// Without any session in it.
    Empty,
    /// By the user.
    Left,
    /// With this session.
    Chosen(SessionId),
}

fn start(
    context: &CommandContext<'_>,
    choice: Option<PickerChoice>,
    output: &mut Output,
) -> Result<PickerEnd, Failure> {
    // What the index has is shown before the files of the tools are looked at.
    let live = context.live.clone();
    let tools = live.map(|live| Arc::new(OtherTools::unscanned(&context.store, live)));
    context.tools.set(tools.clone()).ok();
    let look = output.look().clone();
    let (columns, lines) = Screen::size().map_err(|error| broken(&error))?;
    let screen = Screen::enter(look.colour).map_err(|error| broken(&error))?;
    let changes = StoreChanges::of(&context.store);
    let store = &context.store;
    let folder = list::folder(Some(Path::new(".")))?.map(PathBuf::from);
    let mut session = PickerScreen {
        context,
        listed: HashMap::new(),
        kept: BTreeSet::new(),
        screen,
        picker: Picker::new(columns, lines).choosing(choice.map(|choice| choice.verb)),
        choice,
        look: look.clone(),
        loads: Worker::start(loader::loader(store.clone(), tools.clone(), folder)),
        previews: Worker::start(previewer(store.clone(), tools.clone(), look)),
        searches: Worker::start(searcher(store.clone(), tools)),
    };
    session.run(&changes, output)
}

fn broken(error: &io::Error) -> Failure {
    Failure::new(format!("cannot use the terminal: {error}"))
}

/// The row of a session, which its tool may delete at the time `due`.
fn row(
    session: &Listed,
    due: Option<Timestamp>,
    short: ShortIds,
    look: &Look,
    now: Timestamp,
) -> PickerRow {
    let summary = &session.summary;
    let mut shown = list::row(session, short, look, now);
    if let Some(due) = due {
        (shown.state, shown.state_style) = (days_left(due, now), WAITING);
    }
    let words = [
        &shown.title,
        session.id.as_str(),
        &shown.agent,
        &summary.source,
        &summary.cwd,
    ];
    let kept = summary.tool.as_ref().map(|_| &shown.agent);
    PickerRow {
        id: session.id.clone(),
        words: words.join("\n").to_lowercase(),
        version: (
            summary.scanned,
            summary.updated_at.clone().unwrap_or_default(),
        ),
        kept: kept.map(|tool| {
            format!("It is read-only: {tool} keeps it. `i` makes a copy, which can be changed.")
        }),
        shown,
        is_due: due.is_some(),
        has_state: due.is_some(),
    }
}

/// How long it takes until a tool deletes a conversation, in a few words.
fn days_left(due: Timestamp, now: Timestamp) -> String {
    let left = due.as_millis().saturating_sub(now.as_millis());
    let day = Duration::from_hours(24).as_millis();
    match u128::try_from(left).map(|left| left.div_ceil(day)) {
        Err(_) | Ok(0) => "no day left".to_owned(),
        Ok(days) => format!("{} left", count(days as usize, "day")),
    }
}

/// The picker while it is on the screen.
struct PickerScreen<'a> {
    context: &'a CommandContext<'a>,
    listed: HashMap<SessionId, Listed>,
    /// The conversations of tools of which the user has made a copy.
    kept: BTreeSet<SessionId>,
    screen: Screen,
    picker: Picker,
    choice: Option<PickerChoice>,
    look: Look,
    loads: Worker<LoadRequest, Result<LoadedSessions, Failure>>,
    previews: Worker<PreviewRequest, (PreviewRequest, Result<Vec<StyledLine>, Failure>)>,
    searches: Worker<String, (String, Vec<SessionId>)>,
}

impl PickerScreen<'_> {
    /// Runs until the user leaves.
    fn run(&mut self, changes: &StoreChanges, output: &mut Output) -> Result<PickerEnd, Failure> {
        self.loads.ask(LoadRequest::AtOnce);
        let mut loaded_at = Instant::now();
        loop {
            while let Some(loaded) = self.loads.answer() {
                let mut loaded = loaded?;
                if self.choice.is_some_and(|choice| choice.only_open) {
                    let store = &self.context.store;
                    loaded.listed.retain(|listed| store.is_open(&listed.id));
                }
                let is_all = loaded.overview.is_some();
                if is_all && loaded.listed.is_empty() {
                    return Ok(PickerEnd::Empty);
                }
                self.take(loaded);
                loaded_at = Instant::now();
                if !is_all {
                    self.loads.ask(LoadRequest::All);
                }
            }
            if loaded_at.elapsed() >= STEADY && changes.any() {
                self.loads.ask(LoadRequest::All);
            }
            if let Some(preview) = self.picker.wants_preview() {
                self.previews.ask(preview);
            }
            if let Some(words) = self.picker.wants_hits() {
                self.searches.ask(words.to_owned());
            }
            while let Some((of, preview)) = self.previews.answer() {
                match preview {
                    Ok(lines) => self.picker.set_preview(of, lines),
                    Err(failure) if failure.code() == NOT_FOUND => self.lose(&of.id, &failure),
                    Err(failure) => {
                        let lines = vec![StyledLine::new(BAD, failure.message())];
                        self.picker.set_preview(of, lines);
                    }
                }
            }
            while let Some((of, hits)) = self.searches.answer() {
                self.picker.set_hits(of, hits);
            }
            self.look_up_states();
            let frame = self.picker.frame();
            self.screen.draw(&frame).map_err(|error| broken(&error))?;
            let is_awaited = self.loads.is_busy() || self.previews.is_busy();
            let input = self.screen.input(is_awaited);
            let action = match input.map_err(|error| broken(&error))? {
                ScreenInput::Key(key) => self.picker.key(key),
                ScreenInput::Size => {
                    let (columns, lines) = Screen::size().map_err(|error| broken(&error))?;
                    self.picker.resize(columns, lines);
                    self.previews.forget();
                    None
                }
                ScreenInput::End(code) => return Err(Failure::with_code(code, "")),
                ScreenInput::None => None,
            };
            match action {
                None => {}
                Some(PickerAction::Quit) => return Ok(PickerEnd::Left),
                Some(PickerAction::Show(id)) if self.choice.is_some() => {
                    return Ok(PickerEnd::Chosen(id));
                }
                Some(action) => match self.perform(action, output) {
                    Ok(true) => {}
                    Ok(false) => return Ok(PickerEnd::Left),
                    Err(failure) => match self.picker.chosen() {
                        Some(id) if failure.code() == NOT_FOUND => self.lose(&id, &failure),
                        _ => {
                            let next = failure.next().map(|next| format!(": {next}"));
                            let next = next.unwrap_or_default();
                            self.picker.say(&format!("{}{next}", failure.message()));
                        }
                    },
                },
            }
        }
    }

    /// Takes a session from the list that is no longer there, and says why.
    fn lose(&mut self, id: &SessionId, why: &Failure) {
        if !self.picker.remove(id) {
            // The user has just deleted it.
            return;
        }
        let of_tool = self.listed.get(id).map(|listed| &listed.summary);
        match of_tool.filter(|summary| summary.tool.is_some()) {
            // The index may have forgotten the conversation meanwhile, and whose it was.
            Some(summary) => self.picker.say(deleted_by(&summary.source).message()),
            None => self.picker.say(why.message()),
        }
        self.loads.ask(LoadRequest::All);
    }

    /// Takes the sessions that were loaded.
    fn take(&mut self, loaded: LoadedSessions) {
        let now = self.context.sys.clock.now();
        let rows = loaded.listed.iter();
        let due = loaded.overview.as_ref().map(Overview::due);
        let due = due.unwrap_or_default();
        let rows = rows.map(|session| {
            let due = due.get(session.id.as_str()).copied();
            let mut row = row(session, due, loaded.short, &self.look, now);
            // What was kept stays where it was shown, to go on with it.
            row.is_due |= self.kept.contains(&row.id);
            row
        });
        self.picker.set_rows(rows.collect());
        let listed = loaded.listed.into_iter();
        self.listed = listed.map(|one| (one.id.clone(), one)).collect();
        if let Some(overview) = loaded.overview {
            self.picker.set_overview(overview.lines());
        }
    }

    /// Finds out what the sessions on the screen are doing.
    fn look_up_states(&mut self) {
        let wanted = self.picker.wants_states().into_iter();
        let states = wanted.map(|id| {
            let listed = self.listed.get(&id);
            let state = listed.map(|listed| list::state(self.context, listed));
            let state = state.unwrap_or_default();
            if state.0.is_empty() && self.kept.contains(&id) {
                return (id, ("kept".to_owned(), GOOD));
            }
            (id, state)
        });
        let states = states.collect();
        self.picker.set_states(states);
    }

    /// Does what a key asks for. False if the user leaves the list with it.
    fn perform(&mut self, action: PickerAction, output: &mut Output) -> Result<bool, Failure> {
        match action {
            PickerAction::Quit => {}
            PickerAction::Show(id) => {
                let mut reader = self.context.read(&id)?;
                let tool_branch = self.context.tool_branch(&reader)?;
                let end_notes = EndNotes::of(self.context, &id, tool_branch.as_ref());
                return self.lend(|screen| {
                    let stays = show::show_whole(&mut reader, &end_notes, output)?;
                    Ok(stays || screen.wait_for_key().map_err(|error| broken(&error))?)
                });
            }
            PickerAction::Open(id) => {
                let path = open::write_page(self.context, &mut self.context.read(&id)?, None)?;
                self.picker.say(&if page_file::show(&path) {
                    "The page is open in the browser.".to_owned()
                } else {
                    let path = path.display();
                    format!("No browser can be opened here; the page is {path}")
                });
            }
            PickerAction::Copy(id) => {
                Screen::copy(id.as_str()).map_err(|error| broken(&error))?;
                self.picker.say(&format!(
                    "{id} is in the clipboard, if the terminal allows it."
                ));
            }
            PickerAction::Rename(id, title) => {
                set_title(self.context, &id, &title)?;
                self.picker.change(&id, |row| row.shown.title = title);
                self.picker.say("It is renamed.");
            }
            PickerAction::Import(id) => self.import(&id)?,
            PickerAction::Export(id) => {
                let short = ShortIds::of([&id]).id(&id);
                let names = (1..).map(|number| match number {
                    1 => format!("conversation-{short}.md"),
                    number => format!("conversation-{short}-{number}.md"),
                });
                // A file of the user's is not overwritten.
                let is_free = |path: &String| Path::new(path).symlink_metadata().is_err();
                let path = { names }.find(is_free).unwrap_or_default();
                export::write_markdown(&mut self.context.read(&id)?, Path::new(&path))?;
                let note = format!("Written to {path} in this folder.");
                self.picker.say(&note);
            }
            PickerAction::Attach(id) => self.attach(&id)?,
            PickerAction::Resume(id) => {
                let found = resume::runnable(self.context, id)?;
                let global = self.context.global;
                self.lend(|_| resume::start(global, &found))?;
            }
            PickerAction::Delete(id) => {
                to_trash(self.context, &id)?;
                self.picker.remove(&id);
                let how = "It is in the trash; `rejoin restore last` brings it back.";
                self.picker.say(&self.context.global.with_store(how));
            }
        }
        Ok(true)
    }
}

impl PickerScreen<'_> {
    /// Copies a conversation that another tool keeps into the store.
    fn import(&mut self, id: &SessionId) -> Result<(), Failure> {
        let of_tool = self.listed.get_mut(id);
        let of_tool = of_tool.filter(|listed| listed.summary.tool.is_some());
        let (Some(tools), Some(listed)) = (self.context.tools()?, of_tool) else {
            return Err(Failure::new("it is in the store already"));
        };
        let imported = tools.live.follow(&self.context.store, &tools.catalog, id);
        imported.map_err(|error| {
            let failed = || Failure::new(format!("cannot import it: {}", with_causes(&error)));
            tools.deleted(id).unwrap_or_else(failed)
        })?;
        listed.summary.tool = None;
        self.kept.insert(id.clone());
        self.picker.change(id, |row| row.kept = None);
        self.loads.ask(LoadRequest::All);
        let note = "A copy is in the store, which stays if the tool deletes its own.";
        self.picker.say(note);
        Ok(())
    }

    /// Follows a session live, until the user leaves it.
    fn attach(&mut self, id: &SessionId) -> Result<(), Failure> {
        if !self.context.store.is_open(id) {
            let why = Failure::new("no process has it open");
            return Err(why.hint("load it in your editor, or go on with it by `r`"));
        }
        let mut attach = Command::new(Rejoin::this()?.path);
        if self.context.global.names_store() {
            let root = store_path::root(self.context.global)?;
            attach.arg("--store").arg(root);
        }
        attach.args(["attach", "--answer", id.as_str()]);
        self.lend(|_| {
            let attached = Foreground::start(&mut attach).and_then(Foreground::wait);
            let attached = attached.map(drop);
            attached.map_err(|error| Failure::new(format!("cannot attach: {error}")))
        })
    }

    /// Lets something else use the terminal for a while.
    fn lend<T>(
        &mut self,
        work: impl FnOnce(&mut Screen) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        Screen::lend().map_err(|error| broken(&error))?;
        let done = work(&mut self.screen);
        // Ctrl-C was for what used the terminal, and not for the list.
        self.screen.forget_interrupt();
        self.screen.take().map_err(|error| broken(&error))?;
        done
    }
}

/// Does one thing after another on a thread of its own, the latest request first. It ends with the
/// process.
struct Worker<Q, A> {
    requests: Sender<Q>,
    answers: Receiver<A>,
    asked: Option<Q>,
}

impl<Q: Clone + PartialEq + Send + 'static, A: Send + 'static> Worker<Q, A> {
    fn start(work: impl Fn(&Q) -> A + Send + 'static) -> Self {
        let (requests, incoming) = channel::<Q>();
        let (outgoing, answers) = channel();
        thread::spawn(move || {
            while let Ok(mut request) = incoming.recv() {
                while let Ok(newer) = incoming.try_recv() {
                    request = newer;
                }
                if outgoing.send(work(&request)).is_err() {
                    break;
                }
            }
        });
        Self {
            requests,
            answers,
            asked: None,
        }
    }

    /// Asks, unless that was the last request.
    fn ask(&mut self, request: Q) {
        if self.asked.as_ref() != Some(&request) {
            // If the thread has ended, there is no answer.
            self.requests.send(request.clone()).ok();
            self.asked = Some(request);
        }
    }

    /// Whether an answer is due.
    fn is_busy(&self) -> bool {
        self.asked.is_some()
    }

    /// Forgets the last request, so that it may be made again.
    fn forget(&mut self) {
        self.asked = None;
    }

    fn answer(&mut self) -> Option<A> {
        match self.answers.try_recv() {
            Ok(answer) => {
                self.asked = None;
                Some(answer)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

/// Paints the places of a session that have the words of the search, and the beginning of its last turn.
fn previewer(
    store: Store,
    tools: Option<Arc<OtherTools>>,
    look: Look,
) -> impl Fn(&PreviewRequest) -> (PreviewRequest, Result<Vec<StyledLine>, Failure>) + Send + 'static
{
    let own = Catalog::open(store.clone());
    move |request| {
        let look = Look {
            width: request.columns,
            terminal: true,
            ..look.clone()
        };
        let catalog = tools.as_ref().map_or(&own, |tools| &tools.catalog);
        let query = request.query.as_deref();
        let now = store.sys().clock.now();
        let mut lines = query.map_or(Vec::new(), |query| {
            places(catalog, &request.id, query, &look, now)
        });
        let room = request.lines.saturating_sub(lines.len());
        let shown = preview(&store, tools.as_deref(), &request.id, &look, room);
        let shown = shown.map(|shown| {
            lines.extend(shown);
            lines
        });
        (request.clone(), shown)
    }
}

/// The places in a session that have the words of a search, with a blank line below; nothing if none has.
fn places(
    catalog: &Catalog,
    id: &SessionId,
    words: &str,
    look: &Look,
    now: Timestamp,
) -> Vec<StyledLine> {
    let Some(search) = Search::parse(words) else {
        return Vec::new();
    };
    let mut query = Query::new(Pattern::Words(search));
    query.session = Some(id.clone());
    query.per_session = PLACES;
    query.limit = PLACES;
    query.sessions.archived = Archived::Include;
    // What cannot be searched is previewed without places.
    let hits = catalog.hits(&query, None, &|| false).unwrap_or_default();
    let sought = sought_words(words);
    let lines = hits.hits.iter();
    let lines = lines.map(|hit| hit_line(hit, sought.as_ref(), look, now));
    let mut lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        lines.push(StyledLine::default());
    }
    lines
}

fn preview(
    store: &Store,
    tools: Option<&OtherTools>,
    id: &SessionId,
    look: &Look,
    lines: usize,
) -> Result<Vec<StyledLine>, Failure> {
    if let Some(size) = store.len_of(id)?.filter(|size| *size > LONGEST) {
        let size = size / 1024 / 1024;
        let text = format!("There is no preview: this session has {size} MB.");
        return Ok(vec![StyledLine::new(FAINT, &text)]);
    }
    let mut reader = read(store, tools, id)?;
    let (mut shown, mut painter) = (Vec::<StyledLine>::new(), ConversationPainter::new(look));
    let options = Options {
        last: Some(1),
        ..Options::default()
    };
    let choice = PartOptions {
        options,
        ..PartOptions::default()
    };
    parts::read(&mut reader, choice, &mut |part| {
        for line in painter.part(part) {
            // A single blank line is enough.
            let repeats = shown
                .last()
                .is_none_or(|last| *last == StyledLine::default());
            if shown.len() < lines && !(repeats && line == StyledLine::default()) {
                shown.push(line);
            }
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(shown)
}

/// Looks for sessions in the index, which it completes first.
fn searcher(
    store: Store,
    tools: Option<Arc<OtherTools>>,
) -> impl Fn(&String) -> (String, Vec<SessionId>) + Send + 'static {
    let own = Catalog::open(store);
    move |words| {
        let catalog = tools.as_ref().map_or(&own, |tools| &tools.catalog);
        let filter = Filter {
            archived: Archived::Include,
            search: Search::parse(words),
            ..Filter::default()
        };
        if let Some(tools) = &tools {
            // What could not be read is not found.
            tools.read_all().ok();
        }
        while let Ok(false) = catalog.read_words(WORDS) {}
        let page = catalog.list(&filter, None, HITS).unwrap_or_default();
        let found = page.sessions.into_iter().map(|session| session.id);
        (words.clone(), found.collect())
    }
}
