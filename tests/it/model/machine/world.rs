//! A log, a client, an engine and a replay as plain values, and the actor that performs a
//! machine's effects on them. Every rule of a session is checked where it could be broken.

use rejoin::engine::{StopReason, TurnError};
use rejoin::record::header::Place;
use rejoin::record::{Kind, OpenCalls};
use rejoin::session::effect::{Batch, Effect};
use rejoin::session::machine::Machine;
use rejoin::session::{Done, Refusal, Request};

/// A request, less what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    New,
    Load,
    Resume,
    Prompt,
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
    fails_in: Option<usize>,
}

/// A replay under way.
#[derive(Clone, Copy, Debug)]
struct Replaying {
    /// How far it has to come.
    end: usize,
    /// Whether it is to open the session, too.
    opens: bool,
}

impl World {
    /// A session that is being made.
    pub(super) fn new() -> Self {
        let mut world = Self::default();
        world.ask(Ask::New);
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
            Ask::New => Request::New(number, place()),
            Ask::Load => Request::Load(number, place()),
            Ask::Resume => Request::Resume(number, place()),
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
        if self.turn.is_none() {
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
        let batch = self.machine.update(update);
        self.perform(batch);
    }

    pub(super) fn ends(&mut self, well: bool) {
        let Some((_, stopped)) = self.turn.take() else {
            return;
        };
        let failed = TurnError {
            code: -32603,
            message: "told to".to_owned(),
        };
        let result = match (well, stopped) {
            (false, _) => Err(failed),
            (true, true) => Ok(StopReason::Cancelled),
            (true, false) => Ok(StopReason::EndTurn),
        };
        let batch = self.machine.finished(result);
        self.perform(batch);
    }

    pub(super) fn replayed(&mut self, well: bool) {
        let Some(replaying) = &mut self.replay else {
            return;
        };
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
        while self.turn.is_some() || self.replay.is_some() {
            self.replayed(true);
            self.says(Say::Text);
            self.ends(true);
        }
        assert!(!self.machine.waits());
        for (number, (ask, answers)) in self.asked.iter().enumerate() {
            assert_eq!(*answers, 1, "answers to {ask:?}, number {number}");
        }
        assert_eq!(self.machine.is_over(), !self.seat);
        if !self.exists {
            return;
        }
        // The session goes on, and the client comes to know all of it.
        for ask in [Ask::Resume, Ask::Prompt] {
            self.ask(ask);
        }
        self.says(Say::Text);
        self.ends(true);
        assert_eq!(self.shown, self.log.len());
        self.ask(Ask::Load);
        self.replayed(true);
        assert!(self.asked.iter().all(|(_, answers)| *answers == 1));
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
            self.machine = Machine::default();
        }
    }

    fn effect(&mut self, effect: Effect<usize>) -> Result<(), Refusal> {
        match effect {
            Effect::Create(_) => {
                assert!(!self.exists);
                self.may_fail()?;
                self.log.push((Kind::Session, "{}".to_owned()));
                (self.exists, self.seat, self.shown) = (true, true, 1);
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
            }
            Effect::Append { kind, payload, .. } => {
                assert!(self.seat && !self.broken, "appends to what is not open");
                self.may_write()?;
                if self.replay.is_none() {
                    assert_eq!(
                        self.shown,
                        self.log.len(),
                        "the client has missed something"
                    );
                    self.shown += 1;
                }
                self.log.push((kind, payload));
            }
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
                });
            }
            Effect::OpenAndReplay(_) => {
                assert!(!self.seat && self.replay.is_none());
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: true,
                });
            }
            Effect::CatchUp => {
                self.replay = None;
                self.may_fail()?;
                (self.replayed, self.shown) = (self.log.len(), self.log.len());
            }
            Effect::SendHeld => {
                self.replay = None;
                // It is sent once more when the log is claimed.
                self.shown = self.log.len();
            }
            Effect::Announce => assert!(self.seat),
            Effect::Answer(number, result) => self.answer(number, &result),
            Effect::Release => {
                assert!(
                    self.turn.is_none() && self.replay.is_none(),
                    "released in use"
                );
                (self.seat, self.broken) = (false, false);
            }
            Effect::Trash => {
                assert!(
                    self.turn.is_none() && self.replay.is_none(),
                    "deleted in use"
                );
                self.may_fail()?;
                (self.exists, self.seat, self.broken) = (false, false, false);
            }
        }
        Ok(())
    }

    fn answer(&mut self, number: usize, result: &Result<Done, Refusal>) {
        let waiting = |(ask, answers): &(Ask, usize)| *ask != Ask::Prompt && *answers == 0;
        let before = self.asked[..number].iter().position(waiting);
        assert_eq!(before, None, "{number} is answered before it");
        let (ask, answers) = &mut self.asked[number];
        *answers += 1;
        assert_eq!(*answers, 1, "answered again: {ask:?}, number {number}");
        let own = self.turn.is_some_and(|(turn, _)| turn == number);
        assert!(!own, "answered before its turn has ended");
        match (ask, result) {
            (Ask::Load, Ok(_)) => assert_eq!(self.replayed, self.log.len(), "cut"),
            (Ask::Prompt, Ok(_)) => {
                assert_eq!(self.log.last().map(|(kind, _)| *kind), Some(Kind::End));
                assert_eq!(self.shown, self.log.len(), "answered before all was sent");
            }
            (Ask::Close | Ask::Delete, Ok(_)) => assert!(!self.seat),
            (Ask::New | Ask::Resume, Ok(_)) => assert!(self.seat),
            (_, Err(_)) => {}
        }
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

fn place() -> Place {
    Place {
        cwd: "/w".to_owned(),
        additional_directories: Vec::new(),
        mcp_servers: Vec::new(),
    }
}
