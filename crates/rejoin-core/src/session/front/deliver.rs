//! Shows the client of a session what is appended, and gives it answers and questions: after what comes
//! before them in the log.

use crate::engine::{Block, Prompt};
use crate::record::Kind;
use crate::session::effect::Notification;
use crate::session::link::to_owner::OwnerLink;
use crate::session::outcome::{Done, Refusal};
use crate::session::owner::Owner;
use crate::session::owner::open_session::{LogAccess, OpenSession};
use crate::session::owner::trace::Traced;
use crate::session::phase::Phase;
use crate::session::reply::{AnswerNote, Reply};
use crate::session::request::{AnswerDue, Updates};
use crate::store::{Sync, TURN_INTERRUPTED};

use super::follow::Followed;
use super::{Front, Outgoing, ShownPrompt};

/// How long the lines of one or two session cursors are, in bytes.
const CURSOR_LINES: usize = 512;

/// A front at work, with what it has to know of the session.
pub(in crate::session) struct Delivery<'a> {
    pub(in crate::session) front: &'a mut Front,
    pub(in crate::session) owner: &'a mut Owner,
    /// The link to the owner in another task, if one has the session open.
    pub(in crate::session) link: Option<&'a OwnerLink>,
}

impl Delivery<'_> {
    /// The log was opened or made: the client counts as having been shown it.
    pub(in crate::session) fn log_opened(&mut self) {
        self.owner.take_log_changes();
        let session = self.owner.session.as_ref();
        let end = session.map_or(0, |session| session.summary.scanned);
        self.front.begin_at(end);
    }

    /// The front learns what has become of the log.
    pub(in crate::session) fn note_log(&mut self) {
        let changes = self.owner.take_log_changes();
        self.front.log_changed(changes, self.owner.log_end());
    }

    /// Makes sure that this process may append to the log. The client is sent what it missed, and that a
    /// turn which ran in another process has ended.
    pub(in crate::session) async fn claim(&mut self) -> Result<(), Refusal> {
        let session = self.owner.session.as_mut();
        let claimed = session.map_or(Ok(false), OpenSession::claim);
        self.note_log();
        let was_running = claimed?;
        // What is replayed has the states in their places.
        let is_replayed = self.front.screen.is_of_others;
        let shows_end = is_replayed && self.front.has_missed(self.shown_end());
        self.front.screen.sees_turn = was_running;
        self.send_missed().await?;
        if was_running && !shows_end {
            let is_interrupted = self.owner.was_interrupted();
            let end = is_interrupted.then(|| TURN_INTERRUPTED.to_owned());
            self.show_state(Phase::Idle(end)).await;
        }
        Ok(())
    }

    /// Recovers the log after a failed write, if the disk allows it now.
    pub(in crate::session) async fn retry_recovery(&mut self) {
        if self.owner.may_recover()
            && let Err(error) = self.claim().await
        {
            tracing::warn!(session = %self.owner.id, %error, "the log cannot be recovered yet");
        }
    }

    /// Appends a block. Its records are shown afterwards, but for the title of a session.
    pub(in crate::session) async fn append(
        &mut self,
        block: &Updates,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let title = self.owner.append_block(block, sync)?;
        self.note_log();
        // A replay on its way reaches it, and so does what sends all that was missed.
        let is_level = self.front.load.is_none() && !self.front.holds();
        if let Some(title) = title
            && is_level
            && !self.front.has_missed(self.shown_end())
        {
            let start = self.owner.last_appended().start;
            let screen = &mut self.front.screen;
            screen.show(Kind::Info, &title, Some(start)).await;
        }
        if block.iter().any(|entry| entry.kind == Kind::End) {
            self.send_cursors().await;
        }
        Ok(())
    }

    /// Sends the client the session cursors that are new, unless it reads the log.
    async fn send_cursors(&mut self) {
        self.send_cursors_before(u64::MAX).await;
    }

    /// Sends those of places before this one in the log, in bytes.
    async fn send_cursors_before(&mut self, until: u64) {
        let is_level = self.front.load.is_none() && !self.front.holds();
        let session = self.owner.session.as_mut();
        let cursors = session.and_then(|session| session.cursors.as_mut());
        let Some(cursors) = cursors.filter(|cursors| cursors.is_due(until)) else {
            return;
        };
        if is_level && !self.front.held.is_answering {
            let screen = &mut self.front.screen;
            let mut lines = Vec::with_capacity(CURSOR_LINES);
            cursors.lines(&screen.client_id, screen.cursors_sent..until, &mut lines);
            screen.put(&lines, None).await;
        }
    }

    /// Begins to replay what was logged since the replay began, and then snapshots.
    pub(in crate::session) fn catch_up(&mut self, snapshots: Block, gone: Vec<&'static str>) {
        let session = self.owner.session.as_ref();
        let session = session.filter(|_| self.owner.turns.is_empty());
        let title = session.and_then(|session| session.title_of_interrupted(&snapshots));
        let end = self.owner.log_end();
        self.front.catch_up(end, title, snapshots, gone);
    }

    /// Where the log ends that the client is to be shown; `None` if a replay is about to show it.
    fn shown_end(&self) -> Option<u64> {
        if self.front.is_replay_due() || self.front.held.is_answering {
            None
        } else {
            self.owner.log_end()
        }
    }

    /// Sends the client the records that it was not sent.
    pub(in crate::session) async fn send_missed(&mut self) -> Result<(), Refusal> {
        let end = self.shown_end();
        self.front.send_missed(end).await
    }

    /// Shows a block that was just appended, or all that the client has missed.
    pub(in crate::session) async fn show(&mut self, block: &Block) {
        let end = self.shown_end();
        let at = self.owner.last_appended();
        // The place before the prompt has waited for what the agent says first, which may be its own
        // cursor there.
        self.send_cursors_before(at.start).await;
        if !self.front.holds() {
            self.announce_aliases().await;
        }
        self.front.show(block, at, end).await;
        if !self.front.holds()
            && let Some(session) = &mut self.owner.session
        {
            session.note_reported_aliases();
            self.announce_aliases().await;
        }
        self.send_cursors().await;
    }

    /// Notifies the client of a new id that the agent has for the session.
    async fn announce_aliases(&mut self) {
        let session = self.owner.session.as_mut();
        let screen = &mut self.front.screen;
        if let Some(aliases) = session.and_then(|it| it.take_new_aliases(&screen.client_id)) {
            screen.show(Kind::Info, &aliases, None).await;
        }
    }

    /// The client gets an update that is not in the log.
    pub(in crate::session) async fn notify(&mut self, notification: Notification) {
        let has_state = self.front.screen.view.has_state();
        let outgoing = match notification {
            Notification::Snapshots(snapshots) => Outgoing::Snapshots(snapshots),
            Notification::Commands => Outgoing::Commands,
            // Version 1 has no such updates; the prompt of another client is shown when it begins.
            Notification::UserMessage(_) | Notification::State(_) if !has_state => return,
            Notification::UserMessage(prompt) => Outgoing::Prompt(self.shown_prompt(&prompt)),
            Notification::State(phase) => Outgoing::State(phase),
        };
        self.give(outgoing).await;
    }

    fn shown_prompt(&self, prompt: &Prompt) -> ShownPrompt {
        let is_of_other = self.owner.fronts.prompted_elsewhere(&prompt.message_id);
        let by = is_of_other.and_then(|_| self.owner.fronts.sender_of(&prompt.message_id));
        let session = self.owner.session.as_ref();
        ShownPrompt {
            prompt: prompt.clone(),
            by,
            turn: session.map_or(0, |session| session.summary.prompts),
            start: session.map_or(0, |session| session.prompt_at),
        }
    }

    /// Shows the client a prompt that another client has sent, as its turn begins.
    pub(in crate::session) async fn show_prompt_of_other(&mut self, prompt: &Prompt) {
        let due = self.owner.fronts.prompted_elsewhere(&prompt.message_id);
        let is_shown = self.front.screen.view.has_state() && due == Some(AnswerDue::Logged);
        if due.is_some() && !is_shown {
            let prompt = self.shown_prompt(prompt);
            self.give(Outgoing::Prompt(prompt)).await;
        }
    }

    /// Gives the client something, or keeps it until it was shown what comes before that.
    pub(in crate::session) async fn give(&mut self, outgoing: Outgoing) {
        if self.front.holds() {
            let end = self.owner.log_end().unwrap_or_default();
            self.front.hold(outgoing, end);
        } else {
            self.deliver(outgoing, self.shown_end()).await;
        }
    }

    /// Gives the client what was kept for it, as far as it was shown what comes before that.
    pub(in crate::session) async fn flush(&mut self) {
        while let Some((end, outgoing)) = self.front.next_held() {
            self.deliver(outgoing, Some(end)).await;
        }
    }

    /// Gives the client something, after what is before `end` in the log.
    async fn deliver(&mut self, outgoing: Outgoing, end: Option<u64>) {
        match outgoing {
            Outgoing::Answer(reply, result, note) => {
                self.deliver_answer(reply, result, note, end).await;
            }
            Outgoing::Ask(question) => {
                self.show_before_question().await;
                self.front.ask(question).await;
            }
            Outgoing::State(phase) => {
                let phase = self.front.held.state_after_load(phase);
                if let Err(refusal) = self.front.send_missed(end).await {
                    tracing::warn!(session = %self.owner.id, error = %refusal, "updates cannot be sent yet");
                }
                self.show_state(phase).await;
            }
            Outgoing::Commands => {
                let commands = self.commands();
                self.front.show_commands(commands).await;
            }
            Outgoing::Snapshots(snapshots) => {
                for snapshot in snapshots.iter() {
                    let screen = &mut self.front.screen;
                    screen.show(snapshot.kind, snapshot.payload, None).await;
                }
            }
            Outgoing::Prompt(prompt) => self.front.show_prompt(prompt).await,
            Outgoing::Line(line) => self.front.screen.put(line.as_bytes(), None).await,
        }
    }

    /// Answers a request of the client, after what is before `end` in the log.
    async fn deliver_answer(
        &mut self,
        reply: Reply,
        mut result: Result<Done, Refusal>,
        note: AnswerNote,
        end: Option<u64>,
    ) {
        if let Err(refusal) = self.front.send_missed(end).await {
            tracing::warn!(session = %self.owner.id, error = %refusal, "updates cannot be sent yet");
            // A client that gets the end of a turn has been sent all of the turn.
            if let Ok(Done::Stopped(ended)) = result {
                result = refusal.of_turn(ended.is_cancelled()).map(Done::Stopped);
            }
        }
        self.trace(&result);
        let result = result.map(|done| self.complete(done));
        let result = result.map_err(|refusal| self.for_client(refusal));
        let is_load = matches!(result, Ok(Done::Loaded(_)));
        self.front.answer(reply, result, note);
        self.announce_aliases().await;
        if is_load && std::mem::take(&mut self.front.held.is_answering) {
            // What was logged after the end of the load follows its answer.
            self.send_missed().await.ok();
            self.send_cursors().await;
        }
    }

    /// Before a question about what only the log shows the client: it is shown that, and that it has to
    /// act.
    async fn show_before_question(&mut self) {
        let is_linked = self.link.is_some();
        if is_linked {
            self.follow(true).await;
        }
        if is_linked || self.front.screen.is_behind {
            self.show_state(Phase::RequiresAction).await;
        }
    }

    /// Shows what the session is doing, as far as this process can know: that it does nothing here does
    /// not say that no turn runs in another process.
    async fn show_state(&mut self, phase: Phase) {
        if !self.front.screen.view.has_state() {
            return;
        }
        let phase = self.owner.known_phase(phase);
        let is_interrupted = self.owner.was_interrupted();
        self.front.screen.show_state(&phase, is_interrupted).await;
    }

    /// The array of the available commands.
    fn commands(&self) -> Option<String> {
        match self.link {
            Some(link) => link.commands.clone(),
            None => self.owner.session.as_ref()?.conversation.commands(),
        }
    }

    /// Answers a request, and waits until the answer precedes all later updates: those of a prompt
    /// that was sent without waiting follow it.
    pub(in crate::session) async fn answer(
        &mut self,
        reply: Reply,
        mut result: Result<Done, Refusal>,
    ) {
        // A client that has cancelled a request gets that as its answer.
        if reply.cancellation().is_cancelled() && matches!(result, Err(Refusal::Unreachable(_))) {
            result = Err(Refusal::Cancelled);
        }
        if let Err(Refusal::PromptInProgress { client: None }) = result {
            let prompt = self.owner.running_message();
            let client = prompt.and_then(|prompt| self.owner.fronts.sender_of(prompt));
            result = Err(Refusal::PromptInProgress { client });
        }
        let session = self.owner.session.as_mut();
        let mut note = session.map_or_else(AnswerNote::default, |session| session.note(&result));
        if let Some(elsewhere) = &mut note.elsewhere {
            elsewhere.attached = self.link.is_some();
        }
        if reply.is_of_link() {
            self.trace(&result);
            let result = result.map_err(|refusal| self.for_client(refusal));
            self.front.answer(reply, result, note);
        } else {
            self.give(Outgoing::Answer(reply, result, note)).await;
        }
    }

    /// Writes a line about an answer to the program's own log.
    fn trace(&mut self, result: &Result<Done, Refusal>) {
        let (deps, session) = (&self.front.deps, self.owner.session.as_ref());
        let (library, id) = (&deps.library, &self.owner.id);
        let traced = Traced {
            id,
            now: library.sys.clock.now(),
            prompts: session.map_or(0, |session| session.summary.prompts),
            agent: deps.engine.identity().name,
            elsewhere: session.and_then(OpenSession::elsewhere),
            has_expired: matches!(result, Err(Refusal::NotFound)) && library.has_expired(id),
        };
        self.owner.trace.answer(result, &traced);
    }

    /// A refusal in the client's terms: it may know the session by another id, and can open only a
    /// session that has a log.
    fn for_client(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::NotOpen if self.front.deps.library.store.is_none() => Refusal::Forgotten,
            Refusal::InUse { message, holder } => {
                let (id, name) = (&self.owner.id, &self.owner.fronts.client_id);
                let message = message.replace(id.as_str(), name);
                Refusal::InUse { message, holder }
            }
            refusal => refusal,
        }
    }

    /// Gives an answer the form in which the client sees it.
    fn complete(&mut self, done: Done) -> Done {
        use Done::{Created, Forked, Loaded, Resumed, Status};
        let commands = matches!(done, Created(_) | Forked(_) | Loaded(_) | Resumed(_))
            .then(|| self.commands())
            .flatten();
        let mut opening = |own| {
            let view = &mut self.front.screen.view;
            view.opening_answer(own, commands.as_deref())
        };
        match done {
            Created(own) => Created(opening(own)),
            Forked(own) => Forked(opening(own)),
            Loaded(own) => Loaded(opening(own)),
            Resumed(own) => Resumed(opening(own)),
            Status { open, phase } => Status {
                open,
                phase: self.owner.known_phase(phase),
            },
            done => done,
        }
    }

    /// The client has answered a request of the engine. What it knows from the log alone does not say so.
    pub(in crate::session) async fn question_answered(&mut self) {
        let is_running = self.front.screen.is_behind && !self.owner.turns.is_empty();
        if self.front.relays.answered() && (is_running || self.owner.runs_elsewhere()) {
            self.show_state(Phase::Running).await;
        }
    }

    /// Shows what another process has appended, and what it is doing. If the log has not `grown`, that
    /// process may be gone. A load that is under way sends it itself.
    pub(in crate::session) async fn follow(&mut self, grown: bool) {
        let following = self.front.following.as_ref();
        let Some(what) = following.map(|following| following.what) else {
            return;
        };
        if !self.front.may_follow() || self.owner.session.is_none() {
            return;
        }
        match what {
            Followed::Own => {
                self.owner.check_claim();
                self.note_log();
                self.front.update_following(self.owner.session.as_ref());
            }
            Followed::Behind => self.front.read_on(),
            Followed::Elsewhere => self.follow_elsewhere(grown).await,
        }
    }

    async fn follow_elsewhere(&mut self, grown: bool) {
        let Some(is_in_turn) = self.front.follow().await else {
            return;
        };
        // A process that was killed has appended no end.
        let is_open = || self.front.deps.library.is_open(&self.owner.id);
        let running = is_in_turn && (grown || is_open());
        let session = self.owner.session.as_mut();
        let Some(LogAccess::Shared(elsewhere)) = session.map(|session| &mut session.log) else {
            return;
        };
        let was_running = std::mem::replace(&mut elsewhere.running, running);
        // What the log says of its turns was shown with them.
        if was_running && is_in_turn && !running {
            self.show_state(Phase::Idle(None)).await;
        }
    }
}
