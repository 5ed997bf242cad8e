//! Notifies the user, by a command, that a turn has ended or waits for an answer, if no client was active
//! meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::conversation::{PermissionRequest, TurnEnding};
use crate::engine::known::title;
use crate::engine::process::{Launch, run_notice, shell};
use crate::json;
use crate::protocol::method::ELICITATION_CREATE;
use crate::record::{Kind, Record};
use crate::redact;
use crate::sys::{SessionId, lock};
use crate::text::shortened;

/// How many notices are under way at a time; further ones are left out.
const AT_ONCE: usize = 4;

/// The longest text of a notice, in characters.
const LONGEST: usize = 500;

/// How the user is notified.
#[derive(Clone, Debug)]
pub enum NoticeWay {
    /// A command for a shell, which gets a JSON object on stdin.
    Command(String),
    /// A program that shows a title and a text, which are its last two arguments.
    Desktop(Vec<OsString>),
    /// The escape sequence of terminals for a notice, and a bell, written to this device.
    Terminal(PathBuf),
}

/// When and how the user is notified.
#[derive(Clone, Debug)]
pub struct NotifyOptions {
    /// How.
    pub way: NoticeWay,
    /// For how long no client may have been active.
    pub after: Duration,
    /// How programs are started.
    pub launch: Launch,
}

/// Notifies the user of what sessions do.
#[derive(Debug)]
pub struct Notifier {
    options: NotifyOptions,
    sessions: Mutex<HashMap<SessionId, WatchedSession>>,
    /// How many notices are under way.
    running: AtomicUsize,
}

/// A session with a turn.
#[derive(Debug)]
struct WatchedSession {
    /// When a client was active last: has prompted or answered.
    active: Instant,
    /// When each turn began, by the id of its prompt.
    turns: BTreeMap<String, Instant>,
    /// The requests to the client without an answer, by their ids.
    open: Vec<String>,
}

/// The session that a notice is about.
#[derive(Clone, Debug)]
pub(super) struct NoticeSubject {
    pub(super) id: SessionId,
    pub(super) title: Option<String>,
    pub(super) cwd: String,
    pub(super) agent: String,
}

impl Notifier {
    /// Nothing happens yet.
    pub fn new(options: NotifyOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            sessions: Mutex::default(),
            running: AtomicUsize::new(0),
        })
    }

    /// Takes a record that was just written to a session's log.
    pub(super) fn record(
        self: &Arc<Self>,
        record: &Record<'_>,
        subject: impl Fn() -> NoticeSubject,
        id: &SessionId,
    ) {
        let now = Instant::now();
        let key = record.id.unwrap_or_default().to_owned();
        let mut sessions = lock(&self.sessions);
        match record.kind {
            Kind::Prompt => {
                let watched = sessions
                    .entry(id.clone())
                    .or_insert_with(|| WatchedSession {
                        active: now,
                        turns: BTreeMap::new(),
                        open: Vec::new(),
                    });
                watched.active = now;
                watched.turns.insert(key, now);
            }
            Kind::Ask => {
                let Some(watched) = sessions.get_mut(id) else {
                    return;
                };
                watched.open.push(key.clone());
                let notice = waiting(&subject(), record);
                let waits = Arc::clone(self).waits(id.clone(), key, notice);
                drop(sessions);
                tokio::spawn(waits);
            }
            Kind::Answer => {
                if let Some(watched) = sessions.get_mut(id) {
                    watched.active = now;
                    watched.open.retain(|open| *open != key);
                }
            }
            Kind::End => {
                let Some(watched) = sessions.get_mut(id) else {
                    return;
                };
                let began = match record.id {
                    Some(id) => watched.turns.remove(id),
                    None => std::mem::take(&mut watched.turns).into_values().min(),
                };
                let is_due = now.duration_since(watched.active) >= self.options.after;
                if watched.turns.is_empty() {
                    sessions.remove(id);
                }
                drop(sessions);
                let how = TurnEnding::of(record.payload);
                // Who has cancelled it knows it.
                if is_due && how != TurnEnding::Cancelled {
                    let took = began.map(|began| now.duration_since(began));
                    self.notify(ended(&subject(), record, &how, took));
                }
            }
            _ => {}
        }
    }

    /// Notifies that an answer is needed, when no client was active for long enough and has given it.
    async fn waits(self: Arc<Self>, id: SessionId, request: String, notice: Notice) {
        let mut due = Instant::now();
        loop {
            sleep_until(due).await;
            let active = {
                let sessions = lock(&self.sessions);
                let watched = sessions.get(&id);
                let is_open = |watched: &&WatchedSession| watched.open.contains(&request);
                watched.filter(is_open).map(|watched| watched.active)
            };
            let Some(active) = active else {
                return;
            };
            due = active + self.options.after;
            if due <= Instant::now() {
                return self.notify(notice);
            }
        }
    }

    /// Notifies the user. Nobody waits until that is done.
    fn notify(self: &Arc<Self>, notice: Notice) {
        let free = |running: usize| (running < AT_ONCE).then_some(running + 1);
        if self
            .running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, free)
            .is_err()
        {
            tracing::warn!("a notice was left out: {AT_ONCE} commands of --notify still run");
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            this.run(notice).await;
            this.running.fetch_sub(1, Ordering::AcqRel);
        });
    }

    async fn run(&self, notice: Notice) {
        let launch = &self.options.launch;
        // Others may see the screen, and all users of the machine the arguments of a program.
        let shown = |text: &str| plain(&redact::text(text));
        let ran = match &self.options.way {
            NoticeWay::Command(command) => {
                let (shell, arguments) = shell(command);
                let arguments = arguments.into_iter().map(OsString::from);
                let program: Vec<_> = std::iter::once(shell.into()).chain(arguments).collect();
                run_notice(launch, &program, format!("{}\n", notice.object)).await
            }
            NoticeWay::Desktop(program) => {
                let texts = [&notice.title, &notice.text];
                let texts = texts.map(|text| OsString::from(shown(text)));
                let program: Vec<_> = program.iter().cloned().chain(texts).collect();
                run_notice(launch, &program, String::new()).await
            }
            NoticeWay::Terminal(device) => {
                let text = shown(&format!("{}: {}", notice.title, notice.text));
                let text = format!("\u{1b}]9;{text}\u{7}\u{7}");
                let device = device.clone();
                let write = move || write_to(&device, &text);
                let written = tokio::task::spawn_blocking(write).await;
                written
                    .unwrap_or_else(|error| Err(io::Error::other(error)))
                    .map(|()| true)
            }
        };
        match ran {
            Ok(true) => {}
            Ok(false) => tracing::warn!("the command of --notify took too long and was ended"),
            Err(error) => tracing::warn!(%error, "the user cannot be notified"),
        }
    }
}

/// Writes a text to a terminal.
fn write_to(device: &Path, text: &str) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a terminal is no file of a store"
    )]
    let mut terminal = File::options().append(true).open(device)?;
    terminal.write_all(text.as_bytes())
}

/// What the user is notified.
#[derive(Clone, Debug)]
struct Notice {
    title: String,
    text: String,
    /// Everything, for programs.
    object: Value,
}

impl Notice {
    /// A notice that this has happened in a session.
    fn of(subject: &NoticeSubject, event: &str, what: &str, at: &str) -> Self {
        let agent = title(&subject.agent);
        let named = subject
            .title
            .as_deref()
            .unwrap_or("a session without a title");
        Self {
            title: format!("{agent} {what}"),
            text: shortened(named, LONGEST),
            object: json!({
                "event": event,
                "message": format!("{agent} {what}"),
                "at": at,
                "sessionId": subject.id.as_str(),
                "title": subject.title.as_deref().map(|title| shortened(title, LONGEST)),
                "cwd": subject.cwd,
                "agent": subject.agent,
            }),
        }
    }
}

/// A request to the client waits for an answer.
fn waiting(subject: &NoticeSubject, record: &Record<'_>) -> Notice {
    let method = json::string_member(record.payload, "method");
    let mut notice = Notice::of(subject, "waiting", "waits for your answer", record.at);
    notice.object["method"] = method.clone().into();
    if let Some(asked) = PermissionRequest::of(record, 0) {
        let mut asked = asked.as_json();
        for name in ["turn", "decision"] {
            asked.as_object_mut().map(|asked| asked.remove(name));
        }
        notice.object["permission"] = asked;
    } else if method.as_deref() == Some(ELICITATION_CREATE) {
        let params = json::text_member(record.payload, "params").unwrap_or_default();
        let message = json::string_member(params, "message").unwrap_or_default();
        notice.object["question"] = shortened(&message, LONGEST).into();
    }
    notice
}

/// A turn has ended.
fn ended(
    subject: &NoticeSubject,
    record: &Record<'_>,
    how: &TurnEnding,
    took: Option<Duration>,
) -> Notice {
    let has_failed = matches!(how, TurnEnding::Failed(_) | TurnEnding::Interrupted(_));
    let (event, what) = if has_failed {
        ("failed", "has failed")
    } else {
        ("ended", "is done")
    };
    let mut notice = Notice::of(subject, event, what, record.at);
    notice.object["stopReason"] = json::string_member(record.payload, "stopReason").into();
    if has_failed {
        notice.object["reason"] = how.sentence().map(|why| shortened(&why, LONGEST)).into();
    }
    if let Some(took) = took {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        notice.object["durationMs"] = millis.into();
    }
    notice
}

/// A text without what a terminal or a desktop would interpret.
fn plain(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.filter(|c| !matches!(c, '<' | '>' | '&')).collect()
}
