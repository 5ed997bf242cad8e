//! A log, a client, an engine and a replay as plain values, with the rules that every session
//! keeps, each checked where it could be broken.

use std::collections::VecDeque;

use rejoin::engine::outlet::Canceller;
use rejoin::engine::{Attach, Block};
use rejoin::record::{Kind, OpenCalls};
use rejoin::session::machine::Machine;
use rejoin::session::phase::Phase;
use rejoin::session::request::Asking;
use rejoin::session::{Dialect, Done, Refusal};
use rejoin::wire::Outcome;
use tokio::sync::oneshot;

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
    pub(super) dialect: Dialect,
    pub(super) machine: Machine<usize>,
    /// What the client knows the session to be doing; nothing if it is idle.
    pub(super) phase: Option<Phase>,
    /// What was asked, by number, and how often it was answered.
    pub(super) asked: Vec<(Ask, usize)>,
    /// Without a header there is no such session.
    pub(super) log: Vec<(Kind, String)>,
    /// Whether log and engine are open.
    pub(super) seat: bool,
    /// Whether the session is still to be made.
    pub(super) unborn: bool,
    /// Something could not be written.
    pub(super) broken: bool,
    /// How far the client knows the log.
    pub(super) shown: usize,
    /// The prompt being answered, and whether the engine was told to stop.
    pub(super) turn: Option<(usize, bool)>,
    pub(super) replay: Option<Replaying>,
    /// How many records the client got from the replay under way.
    pub(super) replayed: usize,
    pub(super) said: usize,
    pub(super) calls: usize,
    /// The engine that makes ready, and whether it was told to stop.
    pub(super) attach: Option<(Attach, bool)>,
    /// How often one was ready. What it came back with is told by this number.
    pub(super) readied: usize,
    /// Of these, the last whose snapshots the client got.
    pub(super) snapshots: usize,
    /// How the engine knows the session, if that is not in the log.
    pub(super) inner: Option<String>,
    /// Questions of the engine that the client was asked.
    pub(super) questions: VecDeque<Asking>,
    /// Their other ends, and those of all that never came that far.
    pub(super) waiting: Vec<(oneshot::Receiver<Outcome>, Canceller)>,
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
    pub(super) fn answer(&mut self, number: usize, result: &Result<Done, Refusal>) {
        let waiting = |(ask, answers): &(Ask, usize)| {
            !matches!(ask, Ask::Prompt | Ask::Call) && *answers == 0
        };
        let before = self.asked[..number].iter().position(waiting);
        if *result != Err(Refusal::Cancelled) || self.asked[number].0 != Ask::Prompt {
            assert_eq!(before, None, "{number} is answered before it");
        }
        let (ask, answers) = &mut self.asked[number];
        *answers += 1;
        assert_eq!(*answers, 1, "answered again: {ask:?}, number {number}");
        let own = self.turn.is_some_and(|(turn, _)| turn == number);
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
            assert!(self.seat && self.exists());
            // Those of a new session follow, since the client does not know its id before.
            let got = self.readied - usize::from(matches!(ask, Ask::New | Ask::Fork));
            assert_eq!(self.snapshots, got, "does not show how things are");
            self.unborn = false;
        }
        match (ask, result) {
            (Ask::Load | Ask::LoadFrom | Ask::Import(true), Ok(_)) => {
                assert_eq!(self.replayed, self.log.len(), "cut");
            }
            (Ask::Prompt, Ok(Done::Taken(id))) => {
                assert_eq!(self.dialect, Dialect::Told);
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, id.clone())));
                assert_eq!(*id, number.to_string());
            }
            (Ask::Prompt, Ok(_)) => {
                assert_eq!(self.dialect, Dialect::Answered);
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
            (Ask::New | Ask::Fork | Ask::Resume | Ask::Import(false), Ok(_)) | (_, Err(_)) => {}
        }
    }

    pub(super) fn exists(&self) -> bool {
        !self.log.is_empty()
    }

    /// The client gets what an engine that was ready came back with.
    pub(super) fn got(&mut self, snapshots: &[String]) {
        assert_eq!(snapshots, [self.readied.to_string()]);
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
        self.turn.is_some() || replaying || self.attach.is_some()
    }

    pub(super) fn leave(&mut self) {
        (self.seat, self.unborn, self.broken) = (false, false, false);
        (self.replay, self.inner) = (None, None);
    }

    /// Whether a prompt has begun and its turn has not ended.
    pub(super) fn is_in_turn(&self) -> bool {
        let mut kinds = self.log.iter().rev().map(|(kind, _)| *kind);
        let last = kinds.find(|kind| matches!(kind, Kind::Prompt | Kind::End));
        last == Some(Kind::Prompt)
    }

    /// The client is told what the session is doing.
    pub(super) fn told(&mut self, phase: Phase) {
        assert_eq!(self.dialect, Dialect::Told);
        assert!(self.seat && self.replay.is_none(), "told in a replay");
        match &phase {
            Phase::Running | Phase::RequiresAction => assert!(self.is_in_turn()),
            Phase::Idle(end) => {
                assert_eq!(self.turn, None, "it goes on");
                let mut ends = self.log.iter().rev();
                let last = ends.find(|(kind, _)| *kind == Kind::End);
                if let (Some(end), Some((_, last))) = (end, last)
                    && !end.contains("no space")
                    && !end.contains("broken")
                {
                    assert_eq!(end, last, "told and not logged");
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
    pub(super) fn recover(&mut self) {
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

    pub(super) fn may_append(&mut self) -> Result<(), Refusal> {
        assert!(self.seat, "appends to what is not open");
        if self.broken {
            assert_eq!(self.turn, None, "the log is known to be broken");
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
