//! A log, a client, an engine and a replay as plain values, and the actor that performs a
//! machine's effects on them. Every rule of a session is checked where it could be broken.

use std::collections::VecDeque;

use rejoin::engine::outlet::{Cancel, Canceller};
use rejoin::engine::{
    Attach, Attached, Block, Called, Ended, EngineError, Parting, Secret, StopReason, Wanted,
};
use rejoin::record::header::Place;
use rejoin::record::{Kind, OpenCalls};
use rejoin::session::effect::{Batch, Effect};
use rejoin::session::machine::Machine;
use rejoin::session::request::{Answered, Asking};
use rejoin::session::{Done, Refusal, Request};
use rejoin::wire::Outcome;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// A request, less what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    New,
    /// Whether with a replay.
    Import(bool),
    Load,
    Resume,
    Prompt,
    Call,
    Close,
    Delete,
}

/// An update of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say {
    Text,
    /// A tool call begins.
    Begin,
    /// The last one ends.
    Done,
}

#[derive(Debug, Default)]
pub(super) struct World {
    machine: Machine<usize>,
    /// What was asked, by number, and how often it was answered.
    asked: Vec<(Ask, usize)>,
    log: Vec<(Kind, String)>,
    /// Whether there is such a session.
    exists: bool,
    /// Whether log and engine are open.
    seat: bool,
    /// Whether the session is still to be made.
    unborn: bool,
    /// Something could not be written.
    broken: bool,
    /// How far the client knows the log.
    shown: usize,
    /// The prompt being answered, and whether the engine was told to stop.
    turn: Option<(usize, bool)>,
    replay: Option<Replaying>,
    /// How many records the client got from the replay under way.
    replayed: usize,
    said: usize,
    calls: usize,
    /// The engine that makes ready, and whether it was told to stop.
    attach: Option<(Attach, bool)>,
    /// How often one was ready. What it came back with is told by this number.
    readied: usize,
    /// Of these, the last whose snapshots the client got.
    snapshots: usize,
    /// How the engine knows the session, if that is not in the log.
    inner: Option<String>,
    /// Questions of the engine that the client was asked.
    questions: VecDeque<Asking>,
    /// Their other ends, and those of all that never came that far.
    waiting: Vec<(oneshot::Receiver<Outcome>, Canceller)>,
    /// Requests that the engine serves.
    serving: VecDeque<usize>,
    fails_in: Option<usize>,
}

/// A replay under way.
#[derive(Clone, Copy, Debug)]
struct Replaying {
    /// How far it has to come.
    end: usize,
    /// Whether it is to open the session, too.
    opens: bool,
    /// Whether it came there.
    done: bool,
}

impl World {
    /// A session that is being made.
    pub(super) fn new(ask: Ask) -> Self {
        let mut world = Self::default();
        world.ask(ask);
        world
    }

    /// A session of a former process, which is there and not open.
    pub(super) fn with_a_log() -> Self {
        Self {
            exists: true,
            log: vec![(Kind::Session, "{}".to_owned())],
            shown: 1,
            ..Self::default()
        }
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        let number = self.asked.len();
        self.asked.push((ask, 0));
        let request = match ask {
            Ask::New => Request::New(number, wanted()),
            Ask::Load => Request::Load(number, wanted()),
            Ask::Resume => Request::Resume(number, wanted()),
            Ask::Import(replay) => Request::Import {
                reply: number,
                wanted: wanted(),
                replay,
            },
            Ask::Call => Request::Call {
                reply: number,
                method: number.to_string(),
                params: "{}".to_owned(),
            },
            Ask::Close => Request::Close(number),
            Ask::Delete => Request::Delete(number),
            Ask::Prompt => Request::Prompt {
                reply: number,
                message_id: number.to_string(),
                params: number.to_string(),
            },
        };
        let batch = self.machine.request(request);
        self.perform(batch);
    }

    pub(super) fn cancel(&mut self) {
        let batch = self.machine.request(Request::Cancel);
        self.perform(batch);
    }

    pub(super) fn says(&mut self, say: Say) {
        if !self.is_heard() {
            return;
        }
        self.said += 1;
        let update = match say {
            Say::Text => format!(r#"{{"sessionUpdate":"x","n":{}}}"#, self.said),
            Say::Begin => {
                self.calls += 1;
                call("tool_call", self.calls, "pending")
            }
            Say::Done => call("tool_call_update", self.calls, "completed"),
        };
        let mut block = Block::of(Kind::Update, update);
        if self.said.is_multiple_of(3) {
            block.push(Kind::Info, r#"{"sessionUpdate":"y"}"#);
        }
        let batch = self.machine.said(block);
        self.perform(batch);
    }

    /// The engine asks the client for something.
    pub(super) fn inquires(&mut self, logged: bool) {
        if !self.is_heard() {
            return;
        }
        let (reply, outcome) = oneshot::channel();
        let (canceller, cancel) = Cancel::new();
        let asking = Asking {
            id: self.waiting.len().to_string(),
            method: "m".to_owned(),
            params: "{}".to_owned(),
            logged,
            cancel,
            reply,
        };
        self.waiting.push((outcome, canceller));
        let batch = self.machine.ask(asking);
        self.perform(batch);
    }

    /// The engine no longer wants the answer that it waits for last.
    pub(super) fn thinks_better(&mut self) {
        if let Some((_, canceller)) = self.waiting.last() {
            canceller.cancel();
        }
    }

    /// The client answers the oldest question.
    pub(super) fn responds(&mut self, well: bool) {
        let Some(asking) = self.questions.pop_front() else {
            return;
        };
        let json = "{}".to_owned();
        let answered = Answered {
            id: asking.id,
            logged: asking.logged,
            reply: asking.reply,
            outcome: if well { Ok(json) } else { Err(json) },
        };
        let batch = self.machine.answered(answered);
        self.perform(batch);
    }

    /// The engine has served a request.
    pub(super) fn serves(&mut self, well: bool, info: bool) {
        let Some(number) = self.serving.pop_front() else {
            return;
        };
        let called = Called {
            result: number.to_string(),
            info: info.then(|| number.to_string()),
        };
        let result = if well { Ok(called) } else { Err(told_to()) };
        let batch = self.machine.called(number, result);
        self.perform(batch);
    }

    /// The engine is ready, or not.
    pub(super) fn attaches(&mut self, well: bool) {
        let Some((how, aborted)) = self.attach.take() else {
            return;
        };
        let result = match (well, aborted) {
            (true, false) => {
                self.readied += 1;
                let number = self.readied.to_string();
                let block = Block::of(Kind::Update, r#"{"sessionUpdate":"z"}"#.to_owned());
                Ok(Attached {
                    answer: Some(number.clone()),
                    inner: Some(number.clone()),
                    snapshots: vec![number],
                    imported: match how {
                        Attach::Import => vec![block.clone(), block],
                        Attach::New | Attach::Again => Vec::new(),
                    },
                })
            }
            (false, false) => Err(Refusal::Engine(told_to())),
            (_, true) => Err(Refusal::Cancelled),
        };
        let batch = self.machine.attached(result);
        self.perform(batch);
    }

    /// Whether what the engine says is taken.
    fn is_heard(&self) -> bool {
        assert_eq!(
            self.machine.is_unborn(),
            self.unborn && self.attach.is_some()
        );
        self.seat && !self.machine.is_unborn()
    }

    pub(super) fn ends(&mut self, well: bool) {
        let Some((_, stopped)) = self.turn.take() else {
            return;
        };
        let result = match (well, stopped) {
            (false, _) => Err(told_to()),
            (true, true) => Ok(Ended::Because(StopReason::Cancelled)),
            (true, false) => Ok(Ended::With(r#"{"stopReason":"end_turn"}"#.to_owned())),
        };
        let batch = self.machine.finished(result);
        self.perform(batch);
    }

    pub(super) fn replayed(&mut self, well: bool) {
        let Some(replaying) = self.replay.as_mut().filter(|replaying| !replaying.done) else {
            return;
        };
        replaying.done = true;
        let end = replaying.end;
        let mut result = Ok(());
        if std::mem::take(&mut replaying.opens) {
            result = self.check().and_then(|()| self.may_fail());
            if result.is_ok() {
                self.recover();
                (self.seat, self.shown) = (true, self.log.len());
            }
        }
        let result = match result {
            Ok(()) if !well => Err(Refusal::Cancelled),
            result => result,
        };
        if result.is_ok() {
            self.replayed = end;
        }
        let batch = self.machine.replayed(result, self.seat);
        self.perform(batch);
    }

    pub(super) fn fail_in(&mut self, effects: usize) {
        self.fails_in = Some(effects);
    }

    /// Lets all that is under way end, and checks that nothing is left.
    pub(super) fn come_to_rest(&mut self) {
        self.fails_in = None;
        while self.is_busy() {
            self.attaches(true);
            self.replayed(true);
            self.says(Say::Text);
            self.responds(true);
            self.serves(true, true);
            self.ends(true);
        }
        assert!(!self.machine.waits());
        for (outcome, _) in &mut self.waiting {
            let waits = outcome.try_recv() == Err(TryRecvError::Empty);
            assert!(!waits, "the engine waits for ever");
        }
        for (number, (ask, answers)) in self.asked.iter().enumerate() {
            assert_eq!(*answers, 1, "answers to {ask:?}, number {number}");
        }
        assert_eq!(self.machine.is_over(), !self.seat);
        if !self.exists {
            return;
        }
        // The session goes on, and the client comes to know all of it.
        self.ask(Ask::Resume);
        self.attaches(true);
        let inner = (Kind::Inner, self.readied.to_string());
        self.ask(Ask::Prompt);
        self.says(Say::Text);
        self.ends(true);
        let mut inners = self.log.iter().rev();
        let last = inners.find(|(kind, _)| *kind == Kind::Inner);
        assert_eq!(last, Some(&inner));
        assert_eq!(self.shown, self.log.len());
        self.ask(Ask::Load);
        self.replayed(true);
        self.attaches(true);
        assert!(self.asked.iter().all(|(_, answers)| *answers == 1));
    }

    fn is_busy(&self) -> bool {
        self.turn.is_some()
            || self.replay.is_some()
            || self.attach.is_some()
            || !self.questions.is_empty()
            || !self.serving.is_empty()
    }

    /// As the session's actor does it.
    fn perform(&mut self, mut batch: Batch<usize>) {
        loop {
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                if let Err(reason) = self.effect(effect) {
                    refusal = Some(reason);
                    break;
                }
            }
            batch = if let Some(refusal) = refusal {
                for effect in effects {
                    if let Effect::Answer(number, _) = effect {
                        self.answer(number, &Err(refusal.clone()));
                    }
                }
                self.machine.failed(refusal)
            } else if let Some(batch) = self.machine.advance() {
                batch
            } else {
                break;
            };
        }
        if self.machine.is_over() {
            // The actor goes; somebody else's may come.
            assert!(!self.seat, "left behind");
            assert!(self.serving.is_empty(), "nobody is there to answer");
            self.machine = Machine::default();
            // Nor is anybody there to take what the client answers.
            self.questions.clear();
        }
    }

    fn effect(&mut self, effect: Effect<usize>) -> Result<(), Refusal> {
        match effect {
            Effect::Prepare(_) => {
                assert!(!self.exists && !self.seat);
                (self.seat, self.unborn) = (true, true);
            }
            Effect::Create => {
                assert!(!self.exists && self.seat && self.unborn);
                self.may_fail()?;
                self.log.push((Kind::Session, "{}".to_owned()));
                (self.exists, self.shown) = (true, 1);
            }
            Effect::Open(_) => {
                if !self.seat {
                    self.check()?;
                    self.may_fail()?;
                    self.recover();
                    (self.seat, self.shown) = (true, self.log.len());
                }
            }
            Effect::Check => self.check()?,
            Effect::Claim => self.claim()?,
            Effect::Mend => {
                if self.broken && self.turn.is_none() {
                    self.claim().ok();
                }
            }
            Effect::Reopened => {
                assert!(self.seat && !self.broken);
                self.may_write()?;
                if let Some(inner) = self.inner.take() {
                    self.append(vec![(Kind::Inner, inner)]);
                }
            }
            Effect::Append { kind, payload, .. } => {
                self.may_append()?;
                self.append(vec![(kind, payload)]);
            }
            Effect::AppendBlock(block) => {
                self.may_append()?;
                self.append(records(&block));
            }
            Effect::SendBlock(block) => {
                assert!(self.log.ends_with(&records(&block)), "sent and not logged");
                assert!(self.replay.is_none(), "sent into a replay");
                assert!(!self.unborn, "sent before the session exists");
            }
            Effect::SendSnapshots(snapshots) => self.got(&snapshots),
            Effect::Attach(how) => {
                assert!(self.seat && self.attach.is_none());
                assert_eq!(how != Attach::Again, self.unborn);
                self.attach = Some((how, false));
            }
            Effect::AbortAttach => {
                let (_, aborted) = self.attach.as_mut().expect("something to stop");
                assert!(!*aborted, "told twice");
                *aborted = true;
            }
            Effect::KeepInner(inner) => {
                assert!(self.seat && !self.unborn);
                self.inner = Some(inner);
            }
            Effect::Ask(asking) => {
                assert!(self.seat && self.replay.is_none());
                if asking.logged {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Ask));
                }
                self.questions.push_back(asking);
            }
            Effect::Deliver(answered) => {
                if answered.logged && self.seat {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Answer));
                }
                answered.reply.send(answered.outcome).ok();
            }
            Effect::Call { reply, method, .. } => {
                assert!(self.seat && method == reply.to_string());
                self.serving.push_back(reply);
            }
            Effect::Notify { .. } => assert!(self.seat),
            Effect::Send(update) => {
                let last = self.log.last().expect("there is a header");
                assert_eq!(*last, (Kind::Update, update), "sent and not logged");
                assert!(self.replay.is_none(), "sent into a replay");
                assert!(self.is_answering(), "sent with no prompt to answer");
            }
            Effect::Begin { message_id, .. } => {
                let last = self.log.last().expect("there is a header");
                assert_eq!(*last, (Kind::Prompt, message_id.clone()));
                assert_eq!(self.turn, None, "two turns at once");
                let number = message_id.parse().expect("a number");
                self.turn = Some((number, false));
            }
            Effect::CancelTurn => {
                if let Some((_, stopped)) = &mut self.turn {
                    *stopped = true;
                }
            }
            Effect::Replay => {
                assert!(self.seat && self.replay.is_none());
                self.may_fail()?;
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: false,
                    done: false,
                });
                self.unborn = false;
            }
            Effect::OpenAndReplay(_) => {
                assert!(!self.seat && self.replay.is_none());
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: true,
                    done: false,
                });
            }
            Effect::CatchUp(snapshots) => {
                let replaying = self.replay.take();
                assert!(replaying.is_some_and(|replaying| replaying.done));
                self.may_fail()?;
                self.got(&snapshots);
                (self.replayed, self.shown) = (self.log.len(), self.log.len());
            }
            Effect::SendHeld => {
                self.replay = None;
                // It is sent once more when the log is claimed.
                self.shown = self.log.len();
            }
            Effect::Announce => assert!(self.seat),
            Effect::Answer(number, result) => self.answer(number, &result),
            Effect::Release(how) => {
                assert!(!self.is_in_use(), "released in use");
                let expected = if self.unborn {
                    Parting::Refused
                } else {
                    Parting::Closed
                };
                assert_eq!(how, expected);
                // What was not made whole is gone again.
                self.exists &= !self.unborn;
                self.leave();
            }
            Effect::Trash => {
                assert!(!self.is_in_use(), "deleted in use");
                self.may_fail()?;
                self.exists = false;
                self.leave();
            }
        }
        Ok(())
    }

    fn answer(&mut self, number: usize, result: &Result<Done, Refusal>) {
        let waiting = |(ask, answers): &(Ask, usize)| {
            !matches!(ask, Ask::Prompt | Ask::Call) && *answers == 0
        };
        let before = self.asked[..number].iter().position(waiting);
        assert_eq!(before, None, "{number} is answered before it");
        let (ask, answers) = &mut self.asked[number];
        *answers += 1;
        assert_eq!(*answers, 1, "answered again: {ask:?}, number {number}");
        let own = self.turn.is_some_and(|(turn, _)| turn == number);
        assert!(!own, "answered before its turn has ended");
        let ask = *ask;
        if let Ok(Done::Created(answer) | Done::Loaded(answer) | Done::Resumed(answer)) = result {
            assert_eq!(*answer, Some(self.readied.to_string()), "somebody else's");
            assert!(self.seat && self.exists);
            // Those of a new session follow, since the client does not know its id before.
            let got = self.readied - usize::from(ask == Ask::New);
            assert_eq!(self.snapshots, got, "does not show how things are");
            self.unborn = false;
        }
        match (ask, result) {
            (Ask::Load | Ask::Import(true), Ok(_)) => {
                assert_eq!(self.replayed, self.log.len(), "cut");
            }
            (Ask::Prompt, Ok(_)) => {
                // What the engine says between two turns may be behind it.
                let mut kinds = self.log.iter().rev().map(|(kind, _)| *kind);
                let last = kinds.find(|kind| matches!(kind, Kind::Prompt | Kind::End));
                assert_eq!(last, Some(Kind::End));
                assert_eq!(self.shown, self.log.len(), "answered before all was sent");
            }
            (Ask::Close | Ask::Delete, Ok(_)) => assert!(!self.seat),
            (Ask::Call, Ok(done)) => {
                assert_eq!(*done, Done::Served(number.to_string()));
            }
            (Ask::New | Ask::Resume | Ask::Import(false), Ok(_)) | (_, Err(_)) => {}
        }
    }

    /// The client gets what an engine that was ready came back with.
    fn got(&mut self, snapshots: &[String]) {
        assert_eq!(snapshots, [self.readied.to_string()]);
        self.snapshots = self.readied;
    }

    fn append(&mut self, records: Vec<(Kind, String)>) {
        if self.replay.is_none() {
            let missed = self.log.len() - self.shown;
            assert_eq!(missed, 0, "the client has missed something");
            self.shown += records.len();
        }
        self.log.extend(records);
    }

    /// Whether something is under way that letting go would leave behind.
    fn is_in_use(&self) -> bool {
        let replaying = self.replay.is_some_and(|replaying| !replaying.done);
        self.turn.is_some() || replaying || self.attach.is_some()
    }

    fn leave(&mut self) {
        (self.seat, self.unborn, self.broken) = (false, false, false);
        (self.replay, self.inner) = (None, None);
    }

    /// Whether a prompt has begun and is not answered.
    fn is_answering(&self) -> bool {
        let prompts = self.log.iter().rev();
        let mut prompts = prompts.filter(|(kind, _)| *kind == Kind::Prompt);
        let last = prompts.next().and_then(|(_, number)| number.parse().ok());
        last.is_some_and(|number: usize| self.asked[number].1 == 0)
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.exists {
            Ok(())
        } else {
            Err(Refusal::NotFound)
        }
    }

    fn claim(&mut self) -> Result<(), Refusal> {
        assert!(self.seat);
        if !self.broken {
            return Ok(());
        }
        self.may_fail()?;
        self.recover();
        self.broken = false;
        if self.replay.is_none() {
            self.shown = self.log.len();
        }
        Ok(())
    }

    /// Closes an open turn, as the store does.
    fn recover(&mut self) {
        let ended = |(kind, _): &(Kind, String)| matches!(kind, Kind::Prompt | Kind::End);
        let Some(last) = self.log.iter().rposition(ended) else {
            return;
        };
        if self.log[last].0 == Kind::End {
            return;
        }
        let mut calls = OpenCalls::default();
        for (_, update) in &self.log[last..] {
            calls.update(update);
        }
        let closing = calls.close_all("interrupted");
        self.log
            .extend(closing.into_iter().map(|update| (Kind::Update, update)));
        self.log.push((Kind::End, "interrupted".to_owned()));
    }

    fn may_append(&mut self) -> Result<(), Refusal> {
        assert!(self.seat, "appends to what is not open");
        if self.broken {
            assert_eq!(self.turn, None, "the log is known to be broken");
            return Err(Refusal::Storage("broken".to_owned()));
        }
        self.may_write()
    }

    fn may_write(&mut self) -> Result<(), Refusal> {
        self.may_fail().inspect_err(|_| self.broken = true)
    }

    fn may_fail(&mut self) -> Result<(), Refusal> {
        match self.fails_in {
            Some(0) => {
                self.fails_in = None;
                Err(Refusal::Storage("no space".to_owned()))
            }
            Some(effects) => {
                self.fails_in = Some(effects - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn call(name: &str, number: usize, status: &str) -> String {
    format!(r#"{{"sessionUpdate":"{name}","toolCallId":"c{number}","status":"{status}"}}"#)
}

fn records(block: &Block) -> Vec<(Kind, String)> {
    let entries = block.iter();
    entries
        .map(|entry| (entry.kind, entry.payload.to_owned()))
        .collect()
}

fn told_to() -> EngineError {
    EngineError::internal("told to")
}

fn wanted() -> Wanted {
    Wanted {
        name: "sess".to_owned(),
        place: Place {
            cwd: "/w".to_owned(),
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
        },
        params: Secret("{}".into()),
    }
}
