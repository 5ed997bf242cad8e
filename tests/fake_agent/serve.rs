//! Answers the client's requests; turns run on threads of their own.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::describe;
use crate::harm;
use crate::link::{Link, Refusal};
use crate::memory::{Memory, Session};
use crate::message::{Message, Params, blocks, chunk, quoted};
use crate::options::{Options, SecondPrompt};
use crate::record::Record;
use crate::turn::Turn;
use crate::version_2;

/// The whole agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) options: Options,
    pub(crate) record: Record,
    pub(crate) link: Link,
    memory: Mutex<Memory>,
    live: Mutex<Live>,
    /// Notified when a prompt was answered.
    ended: Condvar,
    /// Whether the client speaks version 2.
    is_native: AtomicBool,
}

/// What is not kept over a restart.
#[derive(Debug, Default)]
struct Live {
    signed_in: bool,
    /// The sessions that were opened in this life.
    open: HashSet<String>,
    /// The prompts under way: the JSON texts of their requests' ids, their sessions, and how they
    /// are cancelled. In the order in which they came.
    prompts: Vec<(String, String, Arc<Cancel>)>,
    /// Requests that are answered only if they are cancelled.
    held: Vec<String>,
}

/// Whether a turn is to end.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    asked: Mutex<Option<By>>,
    changed: Condvar,
    /// Whether the turn has ended.
    over: AtomicBool,
}

/// How a turn was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Session,
    Request,
}

impl Live {
    /// Whether a turn of a session runs.
    fn runs(&self, session: &str) -> bool {
        let mut prompts = self.prompts.iter();
        prompts.any(|(_, of, cancel)| of == session && !cancel.over.load(Ordering::SeqCst))
    }

    /// Cancels all prompts of a session.
    fn cancel(&self, session: &str) {
        for (_, _, cancel) in self.prompts.iter().filter(|(_, of, _)| of == session) {
            cancel.set(By::Session);
        }
    }
}

impl Cancel {
    /// How it was asked for, if it was.
    pub(crate) fn asked(&self) -> Option<By> {
        *self.asked.lock().expect("no thread panics with it")
    }

    /// Waits until it is asked.
    pub(crate) fn wait(&self) {
        let asked = self.asked.lock().expect("no thread panics with it");
        let asked = self.changed.wait_while(asked, |asked| asked.is_none());
        drop(asked.expect("no thread panics with it"));
    }

    /// The turn ends, before its client learns that.
    pub(crate) fn turn_ends(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn set(&self, by: By) {
        *self.asked.lock().expect("no thread panics with it") = Some(by);
        self.changed.notify_all();
    }
}

impl Agent {
    pub(crate) fn new(options: Options) -> Arc<Self> {
        let file = options.state.as_deref().filter(|_| !options.forgetful);
        let mut memory = Memory::open(file, options.foreign);
        if let Some(turns) = options.lost_turns {
            memory.lose_turns(turns);
        }
        Arc::new(Self {
            record: Record::new(options.record.as_deref()),
            link: Link::new(options.string_ids),
            memory: Mutex::new(memory),
            live: Mutex::default(),
            ended: Condvar::new(),
            is_native: AtomicBool::new(false),
            options,
        })
    }

    /// What happens before anything is read.
    pub(crate) fn start(&self) {
        self.record.note("started", &std::process::id().to_string());
        let options = &self.options;
        if options.ignore_term {
            harm::ignore_term();
        }
        if options.spawn_grandchild {
            harm::grandchild(&self.record);
        }
        harm::stderr_flood(options.stderr_flood);
        std::thread::sleep(Duration::from_millis(options.slow_start));
        let mut memory = self.memory();
        if options.fail_start || memory.fail_starts > 0 {
            memory.fail_starts = memory.fail_starts.saturating_sub(1);
            memory.save();
            eprintln!("fake-agent: the flux capacitor is missing");
            self.exit(3);
        }
    }

    /// Ends before the input does.
    pub(crate) fn exit(&self, code: i32) -> ! {
        if self.options.leaves_process {
            harm::leave_process(&self.record);
        }
        std::process::exit(code);
    }

    /// Whether the client speaks version 2.
    pub(crate) fn is_native(&self) -> bool {
        self.is_native.load(Ordering::Relaxed)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("no thread panics with it")
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().expect("no thread panics with it")
    }

    /// Takes one line of input.
    pub(crate) fn line(self: &Arc<Self>, line: &[u8]) {
        self.record.line(line);
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            return self
                .link
                .refuse("null", &Refusal::new(-32700, "Parse error"));
        };
        let params = message.params.map_or("{}", |params| params.get());
        match (&message.id, &message.method) {
            (Some(id), Some(method)) => self.request(id.get(), method, params),
            (None, Some(method)) => self.notification(method, params),
            (Some(id), None) => {
                let answer = match (message.result, message.error) {
                    (Some(result), _) => result.get().to_owned(),
                    (_, error) => {
                        format!(
                            r#"{{"error":{}}}"#,
                            error.map_or("null", |error| error.get())
                        )
                    }
                };
                self.link.answered(id.get(), answer);
            }
            (None, None) => {}
        }
    }

    fn notification(&self, method: &str, text: &str) {
        let params = Params::read(text);
        match method {
            "session/cancel" => {
                self.live().cancel(&params.session_id);
            }
            "$/cancel_request" => {
                let id = params.request_id.map(|id| id.get().to_owned());
                let id = id.unwrap_or_default();
                let mut live = self.live();
                for (_, _, cancel) in live.prompts.iter().filter(|(prompt, ..)| *prompt == id) {
                    cancel.set(By::Request);
                }
                if let Some(at) = live.held.iter().position(|held| *held == id) {
                    live.held.remove(at);
                    self.link
                        .refuse(&id, &Refusal::new(-32800, "Request cancelled"));
                }
            }
            "_ping" => self.link.notify("_pong", text),
            "_subagent" => self.subagent(&params.session_id, "goes on"),
            _ => {}
        }
    }

    fn request(self: &Arc<Self>, id: &str, method: &str, text: &str) {
        let params = Params::read(text);
        let is = |listed: &[String]| listed.iter().any(|listed| listed == method);
        if self.options.mute || is(&self.options.silent_on) {
            return;
        }
        let is_oldest = || self.memory().sessions.keys().next() == Some(&params.session_id);
        if is(&self.options.fails_on) && (!self.options.fails_for_oldest || is_oldest()) {
            return self
                .link
                .refuse(id, &Refusal::new(-32603, &self.options.failure));
        }
        if is(&self.options.dies_on) {
            std::process::exit(7);
        }
        let needs_session = [
            "session/new",
            "session/load",
            "session/resume",
            "session/prompt",
        ];
        if self.options.needs_auth && !self.live().signed_in && needs_session.contains(&method) {
            let refusal = Refusal::new(-32000, "Authentication required");
            return self.link.refuse(id, &refusal);
        }
        let done = match method {
            "session/load" if !self.is_native() => return self.load(id, &params),
            "session/resume" if self.is_native() => return self.resume_from(id, &params),
            "session/prompt" => return self.prompt(id, &params),
            "_session/steering" => {
                let runs = self.live().runs(&params.session_id);
                let outcome = if runs { "injected" } else { "promptRequired" };
                let outcome = format!(r#"{{"outcome":"{outcome}"}}"#);
                let result = self.options.steering_result.clone().unwrap_or(outcome);
                if self.options.echo_steering_first {
                    self.echo_steering(&params);
                }
                self.link.answer(id, &result);
                if self.options.echo_steering {
                    self.echo_steering(&params);
                }
                return;
            }
            "_hold" => return self.live().held.push(id.to_owned()),
            "session/new" if self.options.echo_version && !text.contains("mcpServers") => {
                Err(Refusal::new(-32602, "mcpServers is missing"))
            }
            "session/new" => {
                let session = if self.options.one_session {
                    self.memory().only(&params.cwd)
                } else {
                    self.memory().add(Session::new(&params.cwd))
                };
                self.open(&session);
                let mut members = self.opened(&session);
                members.insert(0, format!(r#""sessionId":"{session}""#));
                members.extend(self.options.new_members.clone());
                if self.options.early {
                    return self.speak_early(id, session, members);
                }
                self.link.answer(id, &format!("{{{}}}", members.join(",")));
                return self.announce(&session);
            }
            "session/resume" => match self.resume(&params) {
                Ok(other) => {
                    let mut members = self.opened(&params.session_id);
                    let other = other.map(|id| format!(r#"{{"fake":{{"acpSessionId":"{id}"}}}}"#));
                    members.extend(other.map(|meta| format!(r#""_meta":{meta}"#)));
                    let members = members.join(",");
                    self.link.answer(id, &format!("{{{members}}}"));
                    return self.announce(&params.session_id);
                }
                Err(refusal) => Err(refusal),
            },
            _ => self.small(method, text, &params),
        };
        match done {
            Ok(result) => self.link.answer(id, &result),
            Err(refusal) => self.link.refuse(id, &refusal),
        }
    }

    /// Shows what the user has said in the middle of a turn.
    fn echo_steering(&self, params: &Params) {
        let prompt = params.prompt.as_ref().map_or("[]", |prompt| prompt.get());
        for (block, _) in blocks(prompt) {
            let update = chunk("user_message_chunk", Some("m-steered"), block);
            self.link.update(&params.session_id, &update);
        }
    }

    /// Requests that are answered at once and are no more than that.
    fn small(&self, method: &str, text: &str, params: &Params) -> Result<String, Refusal> {
        let id = &params.session_id;
        match method {
            "initialize" => {
                let asked = version_2::is_asked_for(text);
                if asked && self.options.refuse_version_2 {
                    return Err(Refusal::new(-32602, "version 1 is the only one"));
                }
                let is_native = asked && self.options.version_2;
                self.is_native.store(is_native, Ordering::Relaxed);
                self.record
                    .note("speaks", if is_native { "2" } else { "1" });
                return Ok(if is_native {
                    version_2::initialize(&self.options)
                } else {
                    describe::initialize(&self.options, asked)
                });
            }
            "authenticate" | "logout" if !self.is_native() => {
                self.live().signed_in = method == "authenticate";
            }
            "auth/login" | "auth/logout" if self.is_native() => {
                self.live().signed_in = method == "auth/login";
            }
            "session/list" => return Ok(self.list(params)),
            "session/close" => {
                let mut live = self.live();
                live.open.remove(id);
                live.cancel(id);
            }
            "session/delete" => {
                self.live().open.remove(id);
                let mut memory = self.memory();
                memory.sessions.remove(id);
                memory.save();
            }
            "session/fork" => return self.fork(id, params),
            "session/set_mode" if !self.is_native() => {
                if !["ask", "code"].contains(&&*params.mode_id) {
                    return Err(Refusal::new(-32602, "there is no such mode"));
                }
                let mode = self.set(id, |_| {})?.mode;
                if self.options.doubtful_mode && mode.as_ref() == Some(&params.mode_id) {
                    let refusal = format!("Already in {} mode", params.mode_id);
                    return Err(Refusal::new(-32603, &refusal));
                }
                self.set(id, |session| session.mode = Some(params.mode_id.clone()))?;
            }
            "session/set_config_option" => {
                let value = params.value.as_str().unwrap_or_default().to_owned();
                let name = params.config_id.clone();
                let session = self.set(id, |session| drop(session.config.insert(name, value)))?;
                let options = self.config(&session);
                return Ok(format!(r#"{{"configOptions":{options}}}"#));
            }
            "session/options" => {
                let known = self.memory().sessions.get(id).cloned();
                let session = match known {
                    Some(session) => session,
                    None if id.is_empty() => Session::new(&params.cwd),
                    None => return Err(Refusal::new(-32002, "Resource not found")),
                };
                return Ok(format!(r#"{{"configOptions":{}}}"#, self.config(&session)));
            }
            "_echo" => return Ok(text.to_owned()),
            "_fail" => {
                return Err(Refusal {
                    data: Some(text.to_owned()),
                    ..Refusal::new(-32042, "it was asked to fail")
                });
            }
            "_exit" => std::process::exit(5),
            _ => return Err(Refusal::new(-32601, "Method not found")),
        }
        Ok("{}".to_owned())
    }

    fn fork(&self, id: &str, params: &Params) -> Result<String, Refusal> {
        let options = &self.options;
        if options.fork_exits {
            std::process::exit(6);
        }
        let closed = options.fork_open_only && !self.live().open.contains(id);
        if options.fork_fails || closed {
            return Err(Refusal::new(-32603, "it cannot be forked"));
        }
        if options.fork_same_id {
            return Ok(format!(r#"{{"sessionId":"{id}"}}"#));
        }
        let session = self.memory().sessions.get(id).cloned();
        let mut session = session.ok_or_else(|| self.unknown(id))?;
        if let Some(cursor) = &params.cursor_id {
            let kept = cursor
                .strip_prefix("keep-")
                .and_then(|kept| kept.parse().ok());
            let kept = kept.ok_or_else(|| Refusal::new(-32602, "no such cursor"))?;
            session.prompts = kept;
        }
        session.cwd.clone_from(&params.cwd);
        let fork = self.memory().add(session);
        self.open(&fork);
        let mut members = self.opened(&fork);
        members.insert(0, format!(r#""sessionId":"{fork}""#));
        Ok(format!("{{{}}}", members.join(",")))
    }

    fn load(&self, id: &str, params: &Params) {
        let session = &params.session_id;
        if let Err(refusal) = self.restore(params, self.options.load_lies, "session/load") {
            return self.link.refuse(id, &refusal);
        }
        let answer = format!("{{{}}}", self.opened(session).join(","));
        if self.options.load_after {
            self.link.answer(id, &answer);
        }
        let updates = match self.memory().sessions.get(session) {
            Some(kept) if !self.options.load_empty => kept.updates.clone(),
            _ => Vec::new(),
        };
        for update in updates {
            self.link.update(session, &update);
        }
        if !self.options.load_after {
            self.link.answer(id, &answer);
        }
        self.announce(session);
    }

    /// Resumes a session in version 2, with a replay if the client wants one.
    fn resume_from(&self, id: &str, params: &Params) {
        let session = &params.session_id;
        if let Err(refusal) = self.restore(params, self.options.resume_lies, "session/resume") {
            return self.link.refuse(id, &refusal);
        }
        let kept = self.memory().sessions.get(session).cloned();
        let replays = params.replay_from.is_some() && !self.options.load_empty;
        for update in kept
            .into_iter()
            .filter(|_| replays)
            .flat_map(|kept| kept.updates)
        {
            self.link.update(session, &version_2::of_any(&update));
        }
        if params.replay_from.is_some() {
            self.link
                .update(session, r#"{"sessionUpdate":"replay_complete"}"#);
        }
        self.link.update(session, &version_2::state("idle", ""));
        let members = self.opened(session).join(",");
        self.link.answer(id, &format!("{{{members}}}"));
        self.announce(session);
    }

    /// Resumes a session, or one in its place, whose id is returned.
    fn resume(&self, params: &Params) -> Result<Option<String>, Refusal> {
        let options = &self.options;
        let known = self.memory().sessions.contains_key(&params.session_id);
        let blind = options.resume_blind || options.resume_other;
        if known || !blind {
            return self
                .restore(params, options.resume_lies, "session/resume")
                .map(|()| None);
        }
        let session = Session::new(&params.cwd);
        if options.resume_other {
            let other = self.memory().add(session);
            self.open(&other);
            return Ok(Some(other));
        }
        let refuses = Session {
            refuses: true,
            ..session
        };
        let id = params.session_id.clone();
        self.memory().sessions.insert(id.clone(), refuses);
        self.open(&id);
        Ok(None)
    }

    /// Opens a session that was there before.
    fn restore(&self, params: &Params, lies: bool, method: &str) -> Result<(), Refusal> {
        let declared = match method {
            "session/load" => self.options.load,
            _ => self.options.resume || self.is_native(),
        };
        if lies || !declared {
            return Err(Refusal::new(-32601, "Method not found"));
        }
        let id = &params.session_id;
        let kept = self.memory().sessions.get(id).cloned();
        let known = kept.is_some_and(|session| !session.refuses);
        if !known {
            let (any, refuses) = (self.options.load_empty, self.options.load_blind);
            if !((any || refuses) && method == "session/load") {
                return Err(self.unknown(id));
            }
            let session = Session {
                refuses,
                ..Session::new(&params.cwd)
            };
            self.memory().sessions.insert(id.clone(), session);
        }
        if !self.options.keep_settings && !self.live().open.contains(id) {
            self.set(id, |session| {
                session.mode = None;
                session.config.clear();
            })?;
        }
        self.open(id);
        Ok(())
    }

    fn list(&self, params: &Params) -> String {
        let memory = self.memory();
        let sessions = memory.sessions.iter();
        let sessions = sessions.filter(|(_, s)| params.cwd.is_empty() || s.cwd == params.cwd);
        // An empty string is a cursor like any other: the one of the second page.
        let from = match params.cursor.as_deref() {
            None => 0,
            Some("") => self.options.page,
            Some(at) => at.parse().unwrap_or_default(),
        };
        let to = from + self.options.page;
        let more = memory.sessions.len() > to;
        let page: Vec<_> = sessions
            .skip(from)
            .take(self.options.page)
            .map(|(id, session)| {
                let title = session.title.as_deref().map(quoted);
                let title = title.map(|title| format!(r#","title":{title}"#));
                format!(
                    r#"{{"sessionId":"{id}","cwd":{},"updatedAt":"{}"{}}}"#,
                    quoted(&session.cwd),
                    session.updated_at,
                    title.unwrap_or_default()
                )
            })
            .collect();
        let next = if more {
            let next = if from == 0 {
                String::new()
            } else {
                to.to_string()
            };
            format!(r#","nextCursor":"{next}""#)
        } else {
            String::new()
        };
        format!(r#"{{"sessions":[{}]{next}}}"#, page.join(","))
    }

    fn prompt(self: &Arc<Self>, id: &str, params: &Params) {
        let session = params.session_id.clone();
        let mut live = self.live();
        if !live.open.contains(&session) {
            drop(live);
            return self.link.refuse(id, &self.unknown(&session));
        }
        let refuses = |session: &Session| session.refuses;
        if self.memory().sessions.get(&session).is_some_and(refuses) {
            drop(live);
            let reason = if self.options.refuses_silently {
                r#""stopReason":"end_turn""#
            } else {
                r#""stopReason":"refusal""#
            };
            if self.is_native() {
                self.link.answer(id, r#"{"messageId":"m-refused"}"#);
                let refusal = version_2::state("idle", reason);
                return self.link.update(&session, &refusal);
            }
            return self.link.answer(id, &format!("{{{reason}}}"));
        }
        let second = self.options.second_prompt;
        let runs = live.runs(&session);
        if runs && second == SecondPrompt::Refuse {
            drop(live);
            let refusal = Refusal {
                data: Some(r#"{"busy":true}"#.to_owned()),
                ..Refusal::new(-32011, "one thing at a time")
            };
            return self.link.refuse(id, &refusal);
        }
        let cancel = Arc::<Cancel>::default();
        live.prompts
            .push((id.to_owned(), session.clone(), cancel.clone()));
        drop(live);
        let prompt = params.prompt.as_ref().map_or("[]", |prompt| prompt.get());
        let (agent, id, prompt) = (self.clone(), id.to_owned(), prompt.to_owned());
        std::thread::spawn(move || {
            if second == SecondPrompt::Queue {
                agent.wait_for_turn(&session, &id);
            }
            Turn::new(&agent, &session, &cancel).run(&id, &prompt);
            agent.live().prompts.retain(|(prompt, ..)| *prompt != id);
            agent.ended.notify_all();
        });
    }

    /// Waits until no prompt of the session is in front of this one.
    fn wait_for_turn(&self, session: &str, id: &str) {
        let live = self.live();
        let first = |live: &mut Live| {
            let mut prompts = live.prompts.iter();
            let first = prompts.find(|(_, of, _)| of == session);
            first.is_some_and(|(first, ..)| first != id)
        };
        let live = self.ended.wait_while(live, first);
        drop(live.expect("no thread panics with it"));
    }

    fn open(&self, session: &str) {
        let mut live = self.live();
        live.open.insert(session.to_owned());
    }

    /// Modes and configuration of a session, as members.
    fn opened(&self, session: &str) -> Vec<String> {
        let mut members = match self.memory().sessions.get(session) {
            Some(session) if self.is_native() => version_2::settings(&self.options, session),
            Some(session) => describe::settings(&self.options, session),
            None => Vec::new(),
        };
        let more = self.options.opened_members.as_ref();
        members.extend(more.map(|more| more.replace("$S", session)));
        members
    }

    fn announce(&self, session: &str) {
        if self.options.announce {
            self.link.update(session, &self.commands());
        }
    }

    /// The commands, as an `update` object.
    pub(crate) fn commands(&self) -> String {
        if self.is_native() {
            version_2::commands()
        } else {
            describe::commands()
        }
    }

    /// All configuration options of a session with their values.
    pub(crate) fn config(&self, session: &Session) -> serde_json::Value {
        if self.is_native() {
            version_2::config(&self.options, session)
        } else {
            describe::config(session)
        }
    }

    /// Changes a session and writes it down.
    pub(crate) fn set(
        &self,
        id: &str,
        change: impl FnOnce(&mut Session),
    ) -> Result<Session, Refusal> {
        let mut memory = self.memory();
        let session = memory.sessions.get_mut(id);
        let session = session.ok_or_else(|| self.unknown(id))?;
        change(session);
        let session = session.clone();
        memory.save();
        Ok(session)
    }

    fn unknown(&self, id: &str) -> Refusal {
        Refusal {
            data: Some(format!(r#"{{"uri":{}}}"#, quoted(id))),
            ..Refusal::new(self.options.unknown_code, "Resource not found")
        }
    }
}
