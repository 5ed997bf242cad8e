//! The live view of `rejoin attach`: the conversation as text, and what follows as it is written.
//!
//! New records change the last turn: messages grow, tool calls end. So the lines of the last turn
//! are painted anew each time, from the first one that has changed.

use std::borrow::Cow;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::exit::Failure;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::show::painter::ConversationPainter;
use crate::cli::term::{ACTIVE, FAINT, Output, StyledLine, WAITING, answers, count, wrapped};
use rejoin::export::parts::{self, ConversationPart, NO_END, PartOptions, PartStart};
use rejoin::record::ActivityState;
use rejoin::store::StoreError;
use rejoin::sys::SessionId;

use super::permission::{self, AskedPermission};

/// How often it is checked whether a process has the session open, which no change of the log reports.
const TICK: Duration = Duration::from_secs(2);
/// How long the view stays as it is at least: it is for people.
const STEADY: Duration = Duration::from_millis(50);
/// How much of the time may be spent on reading a long log.
const PART: u32 = 4;
/// How many turns are shown at first, the last ones.
const TURNS: u64 = 10;
/// How many lines a question takes at most.
const QUESTION: usize = 6;
/// How many rows a terminal has if it does not say.
const ROWS: usize = 24;

/// Something that changes the view.
pub(super) enum ViewChange {
    /// The log may have grown.
    Grown,
    /// The agent asks for permission.
    Asked(AskedPermission),
    /// The agent no longer asks for the permission with this id.
    Withdrawn(String),
    /// The user has typed this.
    Typed(String),
}

/// The lines of some turns.
struct Painted {
    /// Where the last turn begins in the log.
    last: PartStart,
    /// Where it begins among the lines.
    from: usize,
    lines: Vec<String>,
}

/// The part of the screen below the turns that no longer change.
struct LiveView<'a, 'o> {
    context: &'a CommandContext<'a>,
    id: &'a SessionId,
    output: &'o mut Output,
    /// Where the last turn begins.
    last: PartStart,
    /// Its lines, and those below it.
    shown: Vec<String>,
    /// The agent's requests for permission.
    asked: Vec<AskedPermission>,
    /// Whether they are answered here.
    does_answer: bool,
}

/// Shows a session until the user ends it. With `answers`, asks for permissions.
pub(super) fn run(
    context: &CommandContext<'_>,
    id: &SessionId,
    does_answer: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let (changes, changed) = mpsc::channel();
    let grown = changes.clone();
    let (wanted, watched) = (vec![id.clone()], id.clone());
    let wanted = move || wanted.clone();
    let watch = context.store.watch_some(wanted, move |id| {
        if id.is_none_or(|id| id == watched) {
            grown.send(ViewChange::Grown).ok();
        }
    });
    if let Err(error) = &watch {
        // The log is read at each tick, too.
        tracing::debug!(%error, "changes are not reported");
    }
    if does_answer {
        permission::watch(context.store.clone(), id.clone(), changes.clone());
        read_answers(changes);
    }
    let mut view = LiveView::new(context, id, does_answer, output);
    view.first()?;
    view.follow(&changed)
}

/// Reads what the user types.
fn read_answers(changes: Sender<ViewChange>) {
    thread::spawn(move || {
        answers(|line| changes.send(ViewChange::Typed(line)).is_ok());
    });
}

impl<'a, 'o> LiveView<'a, 'o> {
    fn new(
        context: &'a CommandContext<'a>,
        id: &'a SessionId,
        does_answer: bool,
        output: &'o mut Output,
    ) -> Self {
        Self {
            context,
            id,
            output,
            last: PartStart::default(),
            shown: Vec::new(),
            asked: Vec::new(),
            does_answer,
        }
    }

    /// Shows all that is there.
    fn first(&mut self) -> Result<(), Failure> {
        let painted = self.read(true)?;
        self.show(painted)
    }

    fn follow(&mut self, changed: &Receiver<ViewChange>) -> Result<(), Failure> {
        loop {
            let mut next = changed.recv_timeout(TICK).ok();
            while let Some(change) = next {
                self.change(change);
                next = changed.try_recv().ok();
            }
            let begun = Instant::now();
            let painted = self.read(false)?;
            self.show(painted)?;
            if self.output.closed() {
                return Ok(());
            }
            // A long log takes long to read.
            thread::sleep(STEADY.max(begun.elapsed() * PART));
        }
    }

    fn change(&mut self, change: ViewChange) {
        match change {
            ViewChange::Grown => {}
            ViewChange::Asked(asked) => self.asked.push(asked),
            ViewChange::Withdrawn(id) => self.asked.retain(|asked| asked.id != id),
            ViewChange::Typed(line) => {
                // The terminal has shown it, and is on the next row.
                self.shown.push(line.clone());
                let answer = line.trim().to_lowercase();
                if self
                    .asked
                    .first()
                    .is_some_and(|asked| asked.answer(&answer))
                {
                    self.asked.remove(0);
                }
            }
        }
    }

    /// Paints the last turn and what follows it, or everything, of which all but the last turn is
    /// printed at once.
    fn read(&mut self, all: bool) -> Result<Painted, Failure> {
        let mut reader = self.context.store.read(self.id)?;
        let look = self.output.look().clone();
        let is_running = self.state() != Some(ActivityState::Idle) && self.is_open();
        let mut painter = ConversationPainter::new(&look);
        let (mut from, mut lines) = (0, Vec::<String>::new());
        let mut is_first = all;
        let output = &mut *self.output;
        let mut visit = |part: ConversationPart<'_>| {
            match &part {
                ConversationPart::Ended(NO_END) if is_running => return Ok(()),
                ConversationPart::Turn(number, _) => {
                    if std::mem::take(&mut is_first) && *number > 1 {
                        let earlier = count((number - 1) as usize, "earlier turn");
                        let text = format!("… {earlier}: `rejoin show` has all");
                        lines.extend([String::new(), look.paint(FAINT, &text)]);
                    }
                    while lines.pop_if(|line| line.is_empty()).is_some() {}
                    from = lines.len();
                    if all {
                        from = 0;
                        for line in lines.drain(..) {
                            output.line(line)?;
                        }
                    }
                }
                _ => {}
            }
            // A turn is apart from what is above it, which may be on the screen already.
            let is_turn = matches!(part, ConversationPart::Turn(..));
            let painted = painter.part(part).into_iter();
            let painted = painted.map(|line: StyledLine| line.text(look.colour));
            // A single blank line is enough.
            for line in painted {
                if !(line.is_empty() && lines.last().map_or(!is_turn, String::is_empty)) {
                    lines.push(line);
                }
            }
            Ok::<(), ViewEnd>(())
        };
        let mut choice = PartOptions::default();
        choice.options.last = all.then_some(TURNS);
        let read = if all {
            parts::read(&mut reader, choice, &mut visit)
        } else {
            parts::read_on(&mut reader, self.last, choice, &mut visit)
        };
        match read {
            Ok(last) => Ok(Painted { last, from, lines }),
            Err(ViewEnd(failure)) => Err(failure),
        }
    }

    /// Shows these lines in place of those of the last turn.
    fn show(&mut self, painted: Painted) -> Result<(), Failure> {
        let mut lines = painted.lines;
        lines.push(String::new());
        lines.extend(self.status());
        let same = self.shown.iter().zip(&lines);
        let same = same.take_while(|(shown, line)| shown == line).count();
        if same == lines.len() && same == self.shown.len() {
            return Ok(());
        }
        // What has left the screen stays as it is.
        let rows = terminal_size::terminal_size().map_or(ROWS, |(_, height)| height.0.into());
        let within = self.shown.len().saturating_sub(rows.saturating_sub(1));
        let same = same.max(within).min(lines.len());
        let up = self.shown.len().saturating_sub(same);
        if up > 0 {
            self.output.raw(&format!("\x1b[{up}A\r\x1b[J"))?;
        }
        for line in &lines[same..] {
            self.output.line(line)?;
        }
        self.output.flush()?;
        // The turns before the last one no longer change.
        self.last = painted.last;
        self.shown = lines.split_off(painted.from);
        Ok(())
    }

    /// The last lines: what the session is doing, or what the agent asks for.
    fn status(&self) -> Vec<String> {
        let look = self.output.look();
        if let Some(asked) = self.asked.first() {
            let mut lines = wrapped(&asked.question(), look.width.saturating_sub(1));
            if lines.len() > QUESTION {
                lines.truncate(QUESTION);
                lines[QUESTION - 1] += " …";
            }
            let answers = asked.answers().into_iter();
            lines.extend(answers.map(|(key, name)| format!("  {key}  {name}")));
            lines.push("Type one of these, then Enter:".to_owned());
            let painted = lines
                .iter()
                .map(|line| look.paint(WAITING, &cut(line, look.width)));
            return painted.collect();
        }
        let (style, text) = match self.state() {
            _ if !self.is_open() => (
                FAINT,
                "no process has the session open: load it in your client".into(),
            ),
            Some(ActivityState::Running) => {
                (ACTIVE, "running; Ctrl-C leaves, and it goes on".into())
            }
            Some(ActivityState::RequiresAction) => (WAITING, self.how_to_answer()),
            _ => (FAINT, "idle; Ctrl-C leaves".into()),
        };
        let lines = wrapped(&text, look.width.saturating_sub(1)).into_iter();
        lines.map(|line| look.paint(style, &line)).collect()
    }

    /// The line for a session that waits for an answer, which is given elsewhere or not known here yet.
    fn how_to_answer(&self) -> Cow<'static, str> {
        match self.context.short(&[]) {
            Ok(short) if !self.does_answer => {
                let id = short.id(self.id);
                let text =
                    format!("waiting for an answer; `rejoin attach {id} --answer` gives one");
                self.context.global.with_store(&text).into()
            }
            _ => "waiting for an answer".into(),
        }
    }

    fn is_open(&self) -> bool {
        self.context.store.is_open(self.id)
    }

    fn state(&self) -> Option<ActivityState> {
        let summary = self.context.catalog.find(self.id)?;
        Some(summary.activity.state())
    }
}

fn cut(text: &str, width: usize) -> String {
    crate::cli::term::cut(text, width.saturating_sub(1))
}

/// Why the view ends.
struct ViewEnd(Failure);

impl From<StoreError> for ViewEnd {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl From<Failure> for ViewEnd {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sessions::snapshots::{check_commands, id};

    #[test]
    fn a_live_view_looks_like_a_conversation() {
        let attach = |n: usize| {
            move |context: CommandContext<'_>, output: &mut Output| {
                let id = &id(n);
                let mut view = LiveView::new(&context, id, false, output);
                view.first()
            }
        };
        let (waiting, idle) = (attach(1), attach(3));
        check_commands(
            "attach",
            &[("attach 2b3c4d58", &waiting), ("attach b60b60ae", &idle)],
        );
    }
}
