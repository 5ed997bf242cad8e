//! What can happen to a session: what its client asks, and what its engine does.

use rejoin::engine::{
    AttachOutcome, AttachReason, Block, Called, EngineError, PromptEnd, Secret, SessionConfig,
    StopReason,
};
use rejoin::record::Kind;
use rejoin::record::header::Workspace;
use rejoin::record::metadata::MetadataChange;
use rejoin::session::machine::Machine;
use rejoin::session::request::ClientRequest;
use rejoin::session::{AnswerDue, Refusal, Request};

use super::world::{Ask, Say, World};

impl World {
    /// A session that is being made or, if none is, one of a former process, which is there and
    /// not open. Its engine takes one prompt at a time, or overlapping ones.
    pub(super) fn new(overlaps: bool, made: Option<Ask>) -> Self {
        let mut world = Self {
            overlaps,
            machine: Machine::new(overlaps),
            ..Self::default()
        };
        if let Some(ask) = made {
            world.ask(ask);
        } else {
            world.log = vec![(Kind::Session, "{}".to_owned())];
            world.shown = 1;
        }
        world
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        let number = self.asked.len();
        self.asked.push((ask, 0));
        let request = match ask {
            Ask::New => Request::New(number, config()),
            Ask::Fork => Request::Fork {
                reply: number,
                config: config(),
                at: None,
            },
            Ask::Load => Request::Load(number, config()),
            Ask::LoadFrom => Request::LoadFrom {
                reply: number,
                config: config(),
                message: "x".to_owned(),
            },
            Ask::Resume => Request::Resume(number, config()),
            Ask::Import(replay) => Request::Import {
                reply: number,
                config: config(),
                replay,
            },
            Ask::Call => Request::Call {
                reply: number,
                method: number.to_string(),
                params: "{}".to_owned(),
            },
            Ask::Close => Request::Close(number),
            Ask::Archive => Request::MetadataChange(number, MetadataChange::Archived(true)),
            Ask::Delete => Request::Delete(number),
            Ask::Prompt(due) => Request::Prompt {
                reply: number,
                due,
                message_id: number.to_string(),
                params: number.to_string(),
            },
        };
        let batch = self.machine.request(request);
        self.perform(batch);
    }

    pub(super) fn lend(&mut self) {
        let batch = self.machine.request(Request::ReadForFork);
        self.perform(batch);
    }

    pub(super) fn cancel(&mut self, withdraw: bool) {
        let batch = self.machine.request(Request::Cancel { withdraw });
        self.perform(batch);
    }

    /// The client takes its last prompt back.
    pub(super) fn takes_back(&mut self) {
        let prompt = |(ask, _): &(Ask, usize)| matches!(ask, Ask::Prompt(_));
        if let Some(number) = self.asked.iter().rposition(prompt) {
            let batch = self
                .machine
                .request(Request::WithdrawPrompt(number.to_string()));
            self.perform(batch);
        }
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
        let batch = self.machine.update(block);
        self.perform(batch);
    }

    /// The engine asks the client for something.
    pub(super) fn inquires(&mut self, logged: bool) {
        if !self.is_heard() {
            return;
        }
        self.requests += 1;
        let id = self.requests.to_string();
        self.engine_waits.insert(id.clone(), logged);
        let request = ClientRequest {
            of_subagent: false,
            id,
            method: "m".to_owned(),
            params: "{}".to_owned(),
            logged,
            is_native: false,
        };
        let batch = self.machine.ask(request);
        self.perform(batch);
    }

    /// The client answers the oldest request.
    pub(super) fn responds(&mut self, well: bool) {
        let Some(request) = self.questions.pop_front() else {
            return;
        };
        let json = "{}".to_owned();
        let outcome = if well { Ok(json) } else { Err(json) };
        let batch = self.machine.answered(request.response(outcome));
        self.perform(batch);
    }

    /// The engine has served a request.
    pub(super) fn serves(&mut self, well: bool, info: bool) {
        let Some(number) = self.serving.pop_front() else {
            return;
        };
        let called = Called {
            result: number.to_string(),
            info: Block::of_all(Kind::Info, info.then(|| number.to_string())),
            ..Called::default()
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
            // It may have been ready before it was asked to stop.
            (true, _) => {
                self.readied += 1;
                let number = self.readied.to_string();
                let block = Block::of(Kind::Update, r#"{"sessionUpdate":"z"}"#.to_owned());
                Ok(AttachOutcome {
                    answer: Some(number.clone()),
                    agent_session_id: Some(number.clone()),
                    way: None,
                    snapshots: Block::of(Kind::Info, number),
                    info: Block::default(),
                    gone: Vec::new(),
                    imported: match how {
                        AttachReason::Import => vec![block.clone(), block],
                        AttachReason::New
                        | AttachReason::Fork
                        | AttachReason::Again
                        | AttachReason::Elsewhere => Vec::new(),
                    },
                    listed: None,
                    agent_error: None,
                })
            }
            (false, false) => Err(Refusal::Engine(told_to())),
            (false, true) => Err(Refusal::Cancelled),
        };
        let batch = self.machine.attached(result);
        self.perform(batch);
    }

    /// Whether what the engine says is taken.
    fn is_heard(&self) -> bool {
        assert_eq!(
            self.machine.is_being_created(),
            self.unborn && self.attach.is_some()
        );
        self.is_open && !self.machine.is_being_created()
    }

    /// The oldest turn ends, or the one that began last.
    pub(super) fn ends(&mut self, well: bool, oldest: bool) {
        if self.turns.is_empty() {
            return;
        }
        let place = if oldest { 0 } else { self.turns.len() - 1 };
        let (number, stopped) = self.turns.remove(place);
        let result = match (well, stopped) {
            (false, _) => Err(told_to()),
            (true, true) => Ok(PromptEnd::Because(StopReason::Cancelled)),
            (true, false) => Ok(PromptEnd::With(r#"{"stopReason":"end_turn"}"#.to_owned())),
        };
        let batch = self.machine.finished(&number.to_string(), result);
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
                (self.is_open, self.shown) = (true, self.log.len());
            }
        }
        let result = match result {
            Ok(()) if !well => Err(Refusal::Cancelled),
            result => result,
        };
        if result.is_ok() {
            self.replayed = end;
        }
        let batch = self.machine.replayed(result, self.is_open);
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
            self.ends(true, true);
        }
        assert!(!self.machine.has_waiting_requests());
        assert!(self.engine_waits.is_empty(), "the engine waits for ever");
        for (number, (ask, answers)) in self.asked.iter().enumerate() {
            assert_eq!(*answers, 1, "answers to {ask:?}, number {number}");
        }
        assert_eq!(self.machine.is_over(), !self.is_open);
        assert_eq!(self.phase, None, "the client waits for ever");
        if !self.exists() {
            return;
        }
        // The session goes on, and the client comes to know all of it.
        self.ask(Ask::Resume);
        self.attaches(true);
        let inner = (Kind::AgentSessionId, self.readied.to_string());
        self.ask(Ask::Prompt(AnswerDue::TurnEnds));
        self.says(Say::Text);
        self.ends(true, true);
        let mut inners = self.log.iter().rev();
        let last = inners.find(|(kind, _)| *kind == Kind::AgentSessionId);
        assert_eq!(last, Some(&inner));
        assert_eq!(self.shown, self.log.len());
        assert_eq!(self.phase, None);
        self.ask(Ask::Load);
        self.replayed(true);
        self.attaches(true);
        assert!(self.asked.iter().all(|(_, answers)| *answers == 1));
    }

    fn is_busy(&self) -> bool {
        !self.turns.is_empty()
            || self.replay.is_some()
            || self.attach.is_some()
            || !self.questions.is_empty()
            || !self.serving.is_empty()
    }
}

fn call(name: &str, number: usize, status: &str) -> String {
    format!(r#"{{"sessionUpdate":"{name}","toolCallId":"c{number}","status":"{status}"}}"#)
}

fn told_to() -> EngineError {
    EngineError::internal("on request")
}

fn config() -> SessionConfig {
    SessionConfig {
        name: "sess".to_owned(),
        workspace: Workspace::at("/w"),
        params: Secret::new("{}"),
    }
}
