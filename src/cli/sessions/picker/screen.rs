//! The terminal of the picker: the whole screen, key by key. However the picker ends, the terminal is
//! as it was before.
#![expect(
    clippy::disallowed_methods,
    reason = "draws on the terminal, while no client is served"
)]

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};

use crate::cli::logging::StandardError;
use crate::cli::term::{EndSignals, StyledLine};

use super::state::PickerKey;

/// How long to wait for a key before looking for other news.
const WAIT: Duration = Duration::from_millis(100);
/// How long to wait for a key while there will soon be something to show.
const BRIEFLY: Duration = Duration::from_millis(10);

type Hook = dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync;

/// An event on the terminal.
pub(super) enum ScreenInput {
    Key(PickerKey),
    /// The terminal has another size.
    Size,
    /// Nothing that matters.
    None,
    /// This process is asked to end, by the signal with this exit code.
    End(u8),
}

/// The whole screen.
pub(super) struct Screen {
    signals: EndSignals,
    /// The hook that reported panics before: it must not write to the screen of the picker.
    hook: Arc<Hook>,
    shown: Vec<String>,
    colour: bool,
}

impl Screen {
    /// Takes the screen.
    pub(super) fn enter(colour: bool) -> io::Result<Self> {
        let signals = EndSignals::watch()?;
        #[cfg(unix)]
        std::thread::spawn(end_with_terminal);
        let hook: Arc<Hook> = Arc::from(panic::take_hook());
        let before = hook.clone();
        panic::set_hook(Box::new(move |info| {
            give_back().ok();
            before(info);
        }));
        let mut screen = Self {
            signals,
            hook,
            shown: Vec::new(),
            colour,
        };
        screen.take()?;
        Ok(screen)
    }

    /// Takes the screen again after [`Self::lend`].
    pub(super) fn take(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.shown.clear();
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
    }

    /// Lets others use the terminal.
    pub(super) fn lend() -> io::Result<()> {
        give_back()
    }

    /// Forgets that the user has pressed Ctrl-C while others used the terminal.
    pub(super) fn forget_interrupt(&mut self) {
        self.signals.forget_interrupt();
    }

    /// The number of columns and lines.
    pub(super) fn size() -> io::Result<(usize, usize)> {
        let (columns, lines) = crossterm::terminal::size()?;
        Ok((usize::from(columns), usize::from(lines)))
    }

    /// Shows these lines. Only those that changed are drawn.
    pub(super) fn draw(&mut self, frame: &[StyledLine]) -> io::Result<()> {
        let mut out = io::stdout();
        let lines: Vec<String> = frame.iter().map(|line| line.text(self.colour)).collect();
        if self.shown.len() != lines.len() {
            self.shown.clear();
            queue!(out, Clear(ClearType::All))?;
        }
        for (at, line) in lines.iter().enumerate() {
            if self.shown.get(at) != Some(line) {
                let row = u16::try_from(at).unwrap_or(u16::MAX);
                queue!(out, cursor::MoveTo(0, row), Clear(ClearType::CurrentLine))?;
                out.write_all(line.as_bytes())?;
            }
        }
        self.shown = lines;
        out.flush()
    }

    /// Waits a moment for input, and only briefly if there will soon be something to show.
    pub(super) fn input(&mut self, briefly: bool) -> io::Result<ScreenInput> {
        if let Some(code) = self.signals.any() {
            return Ok(ScreenInput::End(code));
        }
        if !event::poll(if briefly { BRIEFLY } else { WAIT })? {
            return Ok(ScreenInput::None);
        }
        Ok(match event::read()? {
            Event::Resize(..) => ScreenInput::Size,
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                key_of(key.code, control).map_or(ScreenInput::None, ScreenInput::Key)
            }
            _ => ScreenInput::None,
        })
    }

    /// Waits until the user has read what was printed while others used the terminal. False if the user
    /// leaves the list, too.
    pub(super) fn wait_for_key(&mut self) -> io::Result<bool> {
        // Ctrl-C was for what printed.
        self.forget_interrupt();
        enable_raw_mode()?;
        StandardError::say("Enter, q or Esc goes back, Ctrl-C leaves ");
        let goes_back = self.goes_back();
        disable_raw_mode()?;
        StandardError::say("\n");
        goes_back
    }

    /// Reads keys until one goes back, or leaves.
    fn goes_back(&mut self) -> io::Result<bool> {
        loop {
            match self.input(false)? {
                ScreenInput::Key(PickerKey::Control('c' | 'd')) => return Ok(false),
                // At the end of the process, the list ends by itself. Ctrl-J is Enter, if it was pressed before
                // keys were read one by one.
                ScreenInput::End(_)
                | ScreenInput::Key(
                    PickerKey::Enter
                    | PickerKey::Escape
                    | PickerKey::Char('q' | ' ')
                    | PickerKey::Control('j'),
                ) => return Ok(true),
                _ => {}
            }
        }
    }

    /// Asks the terminal to put text into the clipboard.
    pub(super) fn copy(text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        let text = [b"\x1b]52;c;", STANDARD.encode(text).as_bytes(), b"\x07"].concat();
        out.write_all(&text)?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back().ok();
        if !std::thread::panicking() {
            let hook = self.hook.clone();
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}

fn give_back() -> io::Result<()> {
    let shown = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    disable_raw_mode().and(shown)
}

fn key_of(code: KeyCode, control: bool) -> Option<PickerKey> {
    Some(match code {
        KeyCode::Up => PickerKey::Up,
        KeyCode::Down => PickerKey::Down,
        KeyCode::PageUp => PickerKey::PageUp,
        KeyCode::PageDown => PickerKey::PageDown,
        KeyCode::Home => PickerKey::Home,
        KeyCode::End => PickerKey::End,
        KeyCode::Enter => PickerKey::Enter,
        KeyCode::Esc => PickerKey::Escape,
        KeyCode::Tab => PickerKey::Tab,
        KeyCode::Backspace => PickerKey::Backspace,
        KeyCode::Char(c) if control => PickerKey::Control(c),
        KeyCode::Char(c) => PickerKey::Char(c),
        _ => return None,
    })
}

/// Ends this process when its terminal is gone, which not every process learns by a signal: without
/// a terminal, reading keys would never end.
#[cfg(unix)]
#[expect(
    clippy::exit,
    reason = "the thread that draws may be inside of a read that does not end"
)]
fn end_with_terminal() {
    use crate::cli::exit::SIGNALLED;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::Signal;
    let stdin = io::stdin();
    loop {
        // The end is reported in any case.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if watched[0].revents().contains(PollFlags::HUP) => {
                std::process::exit(i32::from(SIGNALLED) + Signal::HUP.as_raw());
            }
            // This system does not say it.
            _ => return,
        }
    }
}
