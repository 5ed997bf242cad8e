//! A log, a client, an engine and a replay as plain values, with the rules that every session
//! keeps, each checked where it could be broken.

use std::collections::{BTreeMap, VecDeque};

use rejoin::engine::{AttachReason, Block};
use rejoin::record::{Kind, OpenCalls};
use rejoin::session::machine::Machine;
use rejoin::session::phase::Phase;
use rejoin::session::request::ClientRequest;
use rejoin::session::{AnswerDue, Done, Refusal};

/// A request, less what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    New,
    Fork,
    /// Whether with a replay.
    Import(bool),
    Load,
    /// From a message on.
    LoadFrom,
    Resume,
    Prompt(AnswerDue),
    Call,
    Close,
    Archive,
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that a test looks at"
)]
pub(super) struct World {
    /// Whether the engine takes prompts while it answers others.
    pub(super) overlaps: bool,
    pub(super) machine: Machine<usize>,
    /// What the client knows the session to be doing; nothing if it is idle.
    pub(super) phase: Option<Phase>,
    /// What was asked, by number, and how often it was answered.
    pub(super) asked: Vec<(Ask, usize)>,
    /// Without a header there is no such session.
    pub(super) log: Vec<(Kind, String)>,
    /// Whether log and engine are open.
    pub(super) is_open: bool,
    /// Whether the session is being created.
    pub(super) unborn: bool,
    /// Something could not be written.
    pub(super) broken: bool,
    /// How far the client knows the log.
    pub(super) shown: usize,
    /// The prompts being answered, and whether the engine was asked to stop.
    pub(super) turns: Vec<(usize, bool)>,
    pub(super) replay: Option<Replaying>,
    /// How many records the client got from the replay under way.
    pub(super) replayed: usize,
    pub(super) said: usize,
    pub(super) calls: usize,
    /// The engine that makes ready, and whether it was asked to stop.
    pub(super) attach: Option<(AttachReason, bool)>,
    /// How often one was ready. What it came back with is known by this number.
    pub(super) readied: usize,
    /// Of these, the last whose snapshots the client got.
    pub(super) snapshots: usize,
    /// How the engine knows the session, if that is not in the log.
    pub(super) inner: Option<String>,
    /// Requests of the engine that the client was sent.
    pub(super) questions: VecDeque<ClientRequest>,
    /// How many requests the engine has sent.
    pub(super) requests: usize,
    /// Those for which it waits, by id, and whether they are logged.
    pub(super) engine_waits: BTreeMap<String, bool>,
    /// The result of the end of a replay, until the machine knows it.
    pub(super) caught_up: Option<Result<(), Refusal>>,
    /// Answers that the front keeps until the end of a load.
    pub(super) held: Vec<(usize, Result<Done, Refusal>)>,
    /// Requests that the engine serves.
    pub(super) serving: VecDeque<usize>,
    pub(super) fails_in: Option<usize>,
}

/// A replay under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaying {
    /// How far it has to come.
    pub(super) end: usize,
    /// Whether it is to open the session, too.
    pub(super) opens: bool,
    /// Whether it came there.
    pub(super) done: bool,
}

impl World {
    /// Whether the client loads the session, so that its front keeps what is for it.
    pub(super) fn is_loading(&self) -> bool {
        self.machine.load_under_way().is_some()
    }

    /// Answers, or keeps the answer until the end of a load.
    pub(super) fn give(&mut self, number: usize, result: Result<Done, Refusal>) {
        if self.is_loading() {
            self.held.push((number, result));
        } else {
            self.answer(number, &result);
        }
    }

    /// Gives the client what was kept for it.
    pub(super) fn flush(&mut self) {
        if !self.is_loading() {
            for (number, result) in std::mem::take(&mut self.held) {
                self.answer(number, &result);
            }
        }
    }

    pub(super) fn answer(&mut self, number: usize, result: &Result<Done, Refusal>) {
        let waiting = |(ask, answers): &(Ask, usize)| {
            !matches!(ask, Ask::Prompt(_) | Ask::Call) && *answers == 0
        };
        let before = self.asked[..number].iter().position(waiting);
        if *result != Err(Refusal::Cancelled) || !matches!(self.asked[number].0, Ask::Prompt(_)) {
            assert_eq!(before, None, "{number} is answered before it");
        }
        let (ask, answers) = &mut self.asked[number];
        *answers += 1;
        assert_eq!(*answers, 1, "answered again: {ask:?}, number {number}");
        let own = self.turns.iter().any(|(turn, _)| *turn == number);
        assert!(!own, "answered before its turn has ended");
        let ask = *ask;
        if let Ok(
            Done::Created(answer)
            | Done::Forked(answer)
            | Done::Loaded(answer)
            | Done::Resumed(answer),
        ) = result
        {
            assert_eq!(*answer, Some(self.readied.to_string()), "somebody else's");
            assert!(self.is_open && self.exists());
            // Those of a new session follow, since the client does not know its id before.
            let got = self.readied - usize::from(matches!(ask, Ask::New | Ask::Fork));
            assert_eq!(self.snapshots, got, "does not show how things are");
            self.unborn = false;
        }
        match (ask, result) {
            (Ask::Load | Ask::LoadFrom | Ask::Import(true), Ok(_)) => {
                assert_eq!(self.replayed, self.log.len(), "cut");
            }
            (Ask::Prompt(due), Ok(Done::Accepted(id))) => {
                assert_eq!(due, AnswerDue::Logged);
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, id.clone())));
                assert_eq!(*id, number.to_string());
            }
            (Ask::Prompt(due), Ok(_)) => {
                assert_eq!(due, AnswerDue::TurnEnds);
                let behind = self.log.iter();
                let mut behind =
                    behind.skip_while(|record| **record != (Kind::Prompt, number.to_string()));
                assert!(behind.any(|(kind, _)| *kind == Kind::End));
                assert_eq!(self.shown, self.log.len(), "answered before all was sent");
            }
            (Ask::Close | Ask::Archive | Ask::Delete, Ok(_)) => assert!(!self.is_open),
            (Ask::Call, Ok(done)) => {
                assert_eq!(*done, Done::Served(number.to_string()));
            }
            (Ask::New | Ask::Fork | Ask::Resume | Ask::Import(false), Ok(_)) | (_, Err(_)) => {}
        }
    }

    pub(super) fn exists(&self) -> bool {
        !self.log.is_empty()
    }

    /// The client gets what an engine that was ready came back with.
    pub(super) fn got(&mut self, snapshots: &Block) {
        assert_eq!(*snapshots, Block::of(Kind::Info, self.readied.to_string()));
        self.snapshots = self.readied;
    }

    pub(super) fn append(&mut self, records: Vec<(Kind, String)>) {
        if self.replay.is_none() {
            let missed = self.log.len() - self.shown;
            assert_eq!(missed, 0, "the client has missed something");
            self.shown += records.len();
        }
        self.log.extend(records);
    }

    /// Whether something is under way that letting go would leave behind.
    pub(super) fn is_in_use(&self) -> bool {
        let replaying = self.replay.is_some_and(|replaying| !replaying.done);
        !self.turns.is_empty() || replaying || self.attach.is_some()
    }

    pub(super) fn leave(&mut self) {
        (self.is_open, self.unborn, self.broken) = (false, false, false);
        (self.replay, self.inner) = (None, None);
    }

    /// Whether a prompt has begun and its turn has not ended.
    pub(super) fn is_in_turn(&self) -> bool {
        self.open() > 0
    }

    /// How many turns of the log have no end.
    fn open(&self) -> usize {
        let count = |what| self.log.iter().filter(|(kind, _)| *kind == what).count();
        count(Kind::Prompt) - count(Kind::End)
    }

    /// The engine's request is answered, or dropped.
    pub(super) fn respond(&mut self, id: &str) {
        assert!(self.engine_waits.remove(id).is_some(), "answered twice");
    }

    /// The client is notified of what the session is doing.
    pub(super) fn notified_state(&mut self, phase: Phase) {
        assert!(self.is_open && self.replay.is_none(), "sent into a replay");
        match &phase {
            Phase::Running | Phase::RequiresAction => assert!(self.is_in_turn()),
            Phase::Reported(params) => panic!("this engine does not report {params}"),
            Phase::Idle(end) => {
                assert!(self.turns.is_empty(), "it goes on");
                let mut ends = self.log.iter().rev();
                let last = ends.find(|(kind, _)| *kind == Kind::End);
                if let (Some(end), Some((_, last))) = (end, last)
                    && !end.contains("no space")
                    && !end.contains("broken")
                {
                    assert_eq!(end, last, "sent and not logged");
                }
            }
        }
        self.phase = Some(phase).filter(|phase| !matches!(phase, Phase::Idle(_)));
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.exists() {
            Ok(())
        } else {
            Err(Refusal::NotFound)
        }
    }

    pub(super) fn claim(&mut self) -> Result<(), Refusal> {
        assert!(self.is_open);
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

    /// Closes the open turns, as the store does.
    pub(super) fn recover(&mut self) {
        assert!(self.turns.is_empty(), "a turn is closed that runs");
        let open = self.open();
        let prompts = self.log.iter().enumerate();
        let mut prompts = prompts.filter(|(_, (kind, _))| *kind == Kind::Prompt);
        let Some((first, _)) = prompts.nth_back(open.wrapping_sub(1)) else {
            return;
        };
        let mut calls = OpenCalls::default();
        for (_, update) in &self.log[first..] {
            calls.update(update);
        }
        let closing = calls.close_all("interrupted");
        self.log
            .extend(closing.into_iter().map(|update| (Kind::Update, update)));
        for _ in 0..open {
            self.log.push((Kind::End, "interrupted".to_owned()));
        }
    }

    pub(super) fn may_append(&mut self) -> Result<(), Refusal> {
        assert!(self.is_open, "appends to what is not open");
        if self.broken {
            assert!(self.turns.is_empty(), "the log is known to be broken");
            return Err(Refusal::Storage("broken".to_owned()));
        }
        self.may_write()
    }

    pub(super) fn may_write(&mut self) -> Result<(), Refusal> {
        self.may_fail().inspect_err(|_| self.broken = true)
    }

    pub(super) fn may_fail(&mut self) -> Result<(), Refusal> {
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

pub(super) fn records(block: &Block) -> Vec<(Kind, String)> {
    let entries = block.iter();
    entries
        .map(|entry| (entry.kind, entry.payload.to_owned()))
        .collect()
}
