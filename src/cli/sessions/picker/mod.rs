//! `rejoin sessions` alone in a terminal: a list to choose from, with search and preview.

mod screen;
mod state;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use crate::cli::exit::Failure;
use crate::cli::open;
use crate::cli::page_file;
use crate::cli::term::{BAD, Look, Output, StyledLine};
use rejoin::export::Options;
use rejoin::export::parts::{self, PartOptions};
use rejoin::index::{Archived, Catalog, Filter, Listed, Search};
use rejoin::store::Store;
use rejoin::sys::{SessionId, Timestamp};

use super::context::{CommandContext, OtherTools, read};
use super::delete::to_trash;
use super::list;
use super::named::ShortIds;
use super::show::painter::ConversationPainter;
use super::show::{self, Ending};
use screen::{Screen, ScreenInput};
use state::{Picker, PickerAction, PickerRow};

/// How many sessions the index looks for.
const HITS: usize = 200;
/// How many words of logs are indexed at once, in bytes of logs.
const WORDS: usize = 64 * 1024 * 1024;
/// Of a longer log there is no preview, in bytes.
const LONGEST: u64 = 32 * 1024 * 1024;

pub(super) fn run(context: &CommandContext<'_>, output: &mut Output) -> Result<(), Failure> {
    let filter = Filter {
        archived: Archived::Include,
        ..Filter::default()
    };
    let (listed, _) = list::read(context, &filter, usize::MAX)?;
    if listed.is_empty() {
        context.no_sessions();
        return Ok(());
    }
    let look = output.look().clone();
    let tools = context.tools()?.cloned();
    let short = context.short(&[])?;
    let now = context.sys.clock.now();
    let rows = listed.iter().map(|session| row(session, short, &look, now));
    let (columns, lines) = Screen::size().map_err(|error| broken(&error))?;
    let picker = Picker::new(rows.collect(), columns, lines);
    let listed = listed.into_iter().map(|one| (one.id.clone(), one));
    let screen = Screen::enter(look.colour).map_err(|error| broken(&error))?;
    let mut session = PickerScreen {
        context,
        listed: listed.collect(),
        screen,
        picker,
        previews: Worker::start(previewer(context.store.clone(), tools.clone(), look)),
        searches: Worker::start(searcher(context.store.clone(), tools)),
    };
    session.run(output)
}

fn broken(error: &io::Error) -> Failure {
    Failure::new(format!("cannot use the terminal: {error}"))
}

fn row(session: &Listed, short: ShortIds, look: &Look, now: Timestamp) -> PickerRow {
    let summary = &session.summary;
    let shown = list::row(session, short, look, now);
    let words = [
        &shown.title,
        session.id.as_str(),
        &shown.agent,
        &summary.source,
        &summary.cwd,
    ];
    let kept = summary.tool.as_ref();
    PickerRow {
        id: session.id.clone(),
        words: words.join("\n").to_lowercase(),
        kept: kept.map(|tool| {
            format!("It is read-only: {tool} keeps it. `rejoin import {tool}` makes a copy.")
        }),
        shown,
        has_state: false,
    }
}

/// The picker while it is on the screen.
struct PickerScreen<'a> {
    context: &'a CommandContext<'a>,
    listed: HashMap<SessionId, Listed>,
    screen: Screen,
    picker: Picker,
    previews: Worker<(SessionId, usize, usize), (SessionId, Vec<StyledLine>)>,
    searches: Worker<String, (String, Vec<SessionId>)>,
}

impl PickerScreen<'_> {
    fn run(&mut self, output: &mut Output) -> Result<(), Failure> {
        loop {
            if let Some(preview) = self.picker.wants_preview() {
                self.previews.ask(preview);
            }
            if let Some(words) = self.picker.wants_hits() {
                self.searches.ask(words.to_owned());
            }
            while let Some((id, lines)) = self.previews.answer() {
                self.picker.set_preview(id, lines);
            }
            while let Some((of, hits)) = self.searches.answer() {
                self.picker.set_hits(of, hits);
            }
            self.look_up_states();
            let frame = self.picker.frame();
            self.screen.draw(&frame).map_err(|error| broken(&error))?;
            let action = match self.screen.input().map_err(|error| broken(&error))? {
                ScreenInput::Key(key) => self.picker.key(key),
                ScreenInput::Size => {
                    let (columns, lines) = Screen::size().map_err(|error| broken(&error))?;
                    self.picker.resize(columns, lines);
                    self.previews.forget();
                    None
                }
                ScreenInput::End => return Ok(()),
                ScreenInput::None => None,
            };
            match action {
                None => {}
                Some(PickerAction::Quit) => return Ok(()),
                Some(action) => {
                    if let Err(failure) = self.perform(action, output) {
                        self.picker.say(failure.message());
                    }
                }
            }
        }
    }

    /// Finds out what the sessions on the screen are doing.
    fn look_up_states(&mut self) {
        let wanted = self.picker.wants_states().into_iter();
        let states = wanted.map(|id| {
            let listed = self.listed.get(&id);
            let state = listed.map(|listed| list::state(self.context, listed));
            (id, state.unwrap_or_default())
        });
        let states = states.collect();
        self.picker.set_states(states);
    }

    fn perform(&mut self, action: PickerAction, output: &mut Output) -> Result<(), Failure> {
        match action {
            PickerAction::Quit => {}
            PickerAction::Show(id) => {
                let mut reader = self.context.read(&id)?;
                Screen::lend().map_err(|error| broken(&error))?;
                let ending = Ending::of(self.context, &reader)?;
                let shown = show::stay(&mut reader, &ending, output);
                self.screen.take().map_err(|error| broken(&error))?;
                shown?;
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
            PickerAction::Delete(id) => {
                to_trash(self.context, &id)?;
                self.picker.remove(&id);
                let how = "It is in the trash; `rejoin restore last` brings it back.";
                self.picker.say(&self.context.global.with_store(how));
            }
        }
        Ok(())
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

/// Paints the beginning of a session's last turn.
fn previewer(
    store: Store,
    tools: Option<Arc<OtherTools>>,
    look: Look,
) -> impl Fn(&(SessionId, usize, usize)) -> (SessionId, Vec<StyledLine>) + Send + 'static {
    move |(id, columns, lines)| {
        let look = Look {
            width: *columns,
            terminal: true,
            ..look.clone()
        };
        let shown = preview(&store, tools.as_deref(), id, &look, *lines);
        let shown = shown.unwrap_or_else(|error| vec![StyledLine::new(BAD, &error)]);
        (id.clone(), shown)
    }
}

fn preview(
    store: &Store,
    tools: Option<&OtherTools>,
    id: &SessionId,
    look: &Look,
    lines: usize,
) -> Result<Vec<StyledLine>, String> {
    let size = store.len_of(id).map_err(|error| error.to_string())?;
    if let Some(size) = size.filter(|size| *size > LONGEST) {
        let size = size / 1024 / 1024;
        return Err(format!("There is no preview: this session has {size} MB."));
    }
    let read = read(store, tools, id);
    let mut reader = read.map_err(|failure| failure.message().to_owned())?;
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
        Ok::<(), rejoin::store::StoreError>(())
    })
    .map_err(|error| error.to_string())?;
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
