//! Performs the effects of the machine in their order: those on log and engine by the owner, those on the
//! client by the front.

use crate::engine::{AttachReason, Block, CloseReason, Prompt, SessionConfig};
use crate::protocol::EngineCall;
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::session::effect::{Batch, Effect, Notification};
use crate::session::front::follow::Followed;
use crate::session::front::load::ReplayStart;
use crate::session::front::{Outgoing, ShownPrompt};
use crate::session::link::client::OwnerLink;
use crate::session::link::message::Route;
use crate::session::outcome::{Done, Refusal};
use crate::session::owner::lock::released;
use crate::session::owner::open_session::{LogAccess, OpenSession};
use crate::session::owner::trace::Traced;
use crate::session::phase::Phase;
use crate::session::reply::{AnswerNote, Reply};
use crate::session::request::{AnswerDue, Updates};
use crate::store::{Sync, TURN_INTERRUPTED};

use super::SessionTask;

impl SessionTask {
    /// Performs batches until the machine returns no more.
    pub(super) async fn perform(&mut self, mut batch: Batch<Reply>) {
        loop {
            self.front.held.is_loading = self.machine.load_under_way().is_some();
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                let performed = self.effect(effect).await;
                self.note_log();
                if let Err(reason) = performed {
                    refusal = Some(reason);
                    break;
                }
            }
            batch = match refusal {
                None => {
                    self.flush().await;
                    self.front.settle(!self.owner.turns.is_empty());
                    match self.machine.advance() {
                        Some(batch) => batch,
                        None => return,
                    }
                }
                Some(refusal) => {
                    // What ends the turns waits behind what has failed, and came before its answer.
                    let is_ended = !refusal.is_of_disk() && self.mail.ends.any();
                    if is_ended {
                        self.machine.end_meanwhile();
                    }
                    for effect in effects {
                        self.drop_effect(effect, &refusal, is_ended).await;
                    }
                    self.front.settle(!self.owner.turns.is_empty());
                    self.machine.failed(refusal)
                }
            };
        }
    }

    /// Answers what an effect that is not performed would have answered: with the failure, or as
    /// cancelled if `is_ended`, since the client has cancelled meanwhile.
    async fn drop_effect(&mut self, effect: Effect<Reply>, refusal: &Refusal, is_ended: bool) {
        let reason = if is_ended {
            &Refusal::Cancelled
        } else {
            refusal
        };
        match effect {
            Effect::Answer(reply, Ok(Done::Stopped(ended))) => {
                let result = refusal.of_turn(is_ended || ended.is_cancelled());
                self.answer(reply, result.map(Done::Stopped)).await;
            }
            Effect::Answer(reply, _)
            | Effect::Call { reply, .. }
            | Effect::Pass(Route::Pass(reply, _)) => {
                self.answer(reply, Err(reason.clone())).await;
            }
            Effect::Ask(request) => self.owner.questions.respond(&request.id, None),
            Effect::Respond(id, _) => self.owner.questions.respond(&id, None),
            _ => {}
        }
    }

    async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Create {
                agent_session_id,
                imported,
                listed,
            } => {
                let id = agent_session_id.as_deref();
                self.owner.create(id, &imported, listed)?;
                self.begin_in_log();
            }
            Effect::Fork(config, at) => return self.fork(config, at).await,
            Effect::MetadataChange(change) => return self.change_metadata(&change).await,
            Effect::Open(config) => return self.open(config).await,
            Effect::Check => return self.owner.check(),
            Effect::Claim => return self.claim().await,
            Effect::RecordWorkspaceChange => return self.owner.record_workspace_change(),
            Effect::Append(block, sync) => return self.append(&block, sync).await,
            Effect::Replay { open: None, from } => return self.start_replay(from),
            Effect::Replay {
                open: Some(config), ..
            } => return self.open_and_replay(config).await,
            Effect::AbandonReplay => {
                self.front.abandon_load();
                return self.send_missed().await;
            }
            Effect::Release(CloseReason::Deleted) => return self.delete().await,
            // The others cannot fail.
            effect => self.effect_on_client(effect).await,
        }
        Ok(())
    }

    async fn effect_on_client(&mut self, effect: Effect<Reply>) {
        match effect {
            Effect::Prepare(config) => {
                self.begin_opening("created", &config);
                self.owner.prepare(config);
            }
            Effect::ReadForFork => self.owner.read_for_fork(),
            Effect::RetryRecovery => self.retry_recovery().await,
            Effect::CatchUp(snapshots, gone) => self.catch_up(snapshots, gone),
            Effect::Send(block) => self.show(&block).await,
            Effect::Notify(notification) => self.notify(notification).await,
            Effect::Attach(how) => self.attach(how).await,
            Effect::KeepAgentSessionId(payload) => self.owner.keep_agent_session_id(payload),
            Effect::Begin(prompt) => {
                self.show_prompt_of_other(&prompt).await;
                self.owner.begin(prompt);
            }
            Effect::Skip(prompt) => {
                self.show_prompt_of_other(&prompt).await;
                self.owner.skip(&prompt);
            }
            Effect::Pass(route) => self.pass(route).await,
            Effect::Ask(request) => {
                if let Some(question) = self.owner.ask(request) {
                    self.give(Outgoing::Ask(question)).await;
                }
            }
            Effect::Answer(reply, result) => self.answer(reply, result).await,
            Effect::Release(reason) => self.release(reason),
            effect => self.effect_on_engine(effect),
        }
    }

    fn effect_on_engine(&mut self, effect: Effect<Reply>) {
        match effect {
            Effect::Cancel(work) => {
                self.other.cancel(&work);
                self.owner.cancel(&work);
            }
            Effect::Respond(id, outcome) => self.owner.questions.respond(&id, outcome),
            Effect::Call {
                reply,
                method,
                params,
            } => self.call(reply, method, params),
            Effect::Forward { method, params } => {
                if let Some(session) = &self.owner.session {
                    session.conversation.notify(&method, params);
                }
            }
            // The others are performed by `effect` and `effect_on_client`.
            _ => {}
        }
    }

    /// The session begins to be `created`, `forked` or `opened`.
    fn begin_opening(&mut self, what: &'static str, config: &SessionConfig) {
        self.owner
            .trace
            .opening(what, self.deps.library.sys.clock.now());
        self.owner.client_id.clone_from(&config.name);
        self.front.screen.client_id.clone_from(&config.name);
    }

    /// The log was opened or made: the client counts as having been shown it.
    pub(super) fn begin_in_log(&mut self) {
        let session = self.owner.session.as_ref();
        self.front
            .begin_at(session.map_or(0, |session| session.summary.scanned));
    }

    /// The front learns what has become of the log.
    pub(super) fn note_log(&mut self) {
        let changes = self.owner.take_log_changes();
        let is_grown = changes.appended.is_some();
        self.front.log_changed(changes, self.owner.log_end());
        if is_grown {
            self.front.grown();
        }
    }

    async fn fork(&mut self, config: SessionConfig, at: Option<String>) -> Result<(), Refusal> {
        self.begin_opening("forked", &config);
        let request = self.machine.attaching().map(Reply::cancellation);
        let forked = self.owner.fork(config, at, request).await;
        self.owner.take_log_changes();
        if let Some(end) = self.owner.log_end() {
            self.front.begin_at(end);
        }
        forked
    }

    async fn change_metadata(&mut self, change: &MetadataChange) -> Result<(), Refusal> {
        if self.owner.session.is_none() {
            return self.owner.change_metadata_of_closed(change);
        }
        self.claim().await?;
        self.owner.change_metadata(change)
    }

    /// Opens the session, or configures one that is open.
    async fn open(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.begin_opening("opened", &config);
        if let Some(session) = &mut self.owner.session {
            session.configure(config);
            self.link_again();
            self.retry_recovery().await;
            // What cannot be recovered can be read.
            return self.owner.try_lock().await;
        }
        self.owner.open(config).await?;
        self.begin_in_log();
        Ok(())
    }

    /// Makes sure that this process may append to the log. The client is sent what it missed, and that a
    /// turn which ran in another process has ended.
    pub(super) async fn claim(&mut self) -> Result<(), Refusal> {
        let claimed = self.owner.claim().await;
        self.note_log();
        let was_running = claimed?;
        self.send_missed().await?;
        if was_running {
            let end = self.was_interrupted().then(|| TURN_INTERRUPTED.to_owned());
            self.show_state(Phase::Idle(end)).await;
        }
        Ok(())
    }

    fn was_interrupted(&self) -> bool {
        let session = self.owner.session.as_ref();
        session.is_some_and(|session| session.history.was_interrupted())
    }

    /// Recovers the log after a failed write, if the disk allows it now.
    async fn retry_recovery(&mut self) {
        if self.owner.may_recover()
            && let Err(error) = self.claim().await
        {
            tracing::warn!(session = %self.owner.id, %error, "the log cannot be recovered yet");
        }
    }

    async fn append(&mut self, block: &Updates, sync: Sync) -> Result<(), Refusal> {
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
        Ok(())
    }

    /// Begins to replay an open session.
    fn start_replay(&mut self, message: Option<String>) -> Result<(), Refusal> {
        let (Some(session), Some(reply)) = (&self.owner.session, self.machine.load_under_way())
        else {
            return Err(Refusal::NotOpen);
        };
        self.front.start_replay(ReplayStart {
            prompts: session.summary.prompts,
            message,
            request: reply.cancellation(),
            end: session.log_end(),
        })
    }

    /// Begins to replay a session, which is opened on the way.
    async fn open_and_replay(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.begin_opening("opened", &config);
        if self.deps.replay.tail.is_some() {
            // The log must be read first to find where the last turns begin.
            self.owner.open(config).await?;
            self.begin_in_log();
            return self.start_replay(None);
        }
        let (Some(store), Some(reply)) = (&self.deps.library.store, self.machine.load_under_way())
        else {
            return Err(Refusal::NotFound);
        };
        let request = reply.cancellation();
        if self.deps.library.has_expired(&self.owner.id) {
            return Err(Refusal::NotFound);
        }
        released(store, &self.owner.id).await;
        self.front.open_and_replay(config, request)
    }

    fn catch_up(&mut self, snapshots: Block, gone: Vec<&'static str>) {
        let session = self.owner.session.as_ref();
        let session = session.filter(|_| self.owner.turns.is_empty());
        let title = session.and_then(|session| session.title_of_interrupted(&snapshots));
        let end = self.owner.log_end();
        self.front.catch_up(end, title, snapshots, gone);
    }

    async fn attach(&mut self, how: AttachReason) {
        // What another process has written precedes snapshots. What cannot be sent yet is
        // sent before the answer.
        self.send_missed().await.ok();
        if self.owner.elsewhere().is_some() || self.other.link().is_some() {
            self.search_to_attach(how);
        } else {
            self.attach_engine(how);
        }
    }

    /// Has the engine attach, or the owner in another task say how the session is.
    pub(super) fn attach_engine(&mut self, how: AttachReason) {
        let describe = self.other.link().map(OwnerLink::describe);
        let request = self.machine.attaching().map(Reply::cancellation);
        self.owner.attach(how, describe, request);
    }

    fn call(&self, reply: Reply, method: String, params: String) {
        let call = if reply.is_of_link() {
            EngineCall {
                method,
                params,
                mode: None,
            }
        } else {
            self.front.screen.view.call(method, params)
        };
        self.owner.call(reply, call);
    }

    /// Releases log and engine, and a replay that is not finished.
    pub(super) fn release(&mut self, reason: CloseReason) {
        self.front.release();
        self.owner.release(reason);
    }

    async fn delete(&mut self) -> Result<(), Refusal> {
        self.owner.delete().await?;
        self.front.release();
        Ok(())
    }

    /// Where the log ends that the client is to be shown; `None` if a replay is about to show it.
    fn shown_end(&self) -> Option<u64> {
        if self.machine.is_replay_due() || self.front.held.is_answering {
            None
        } else {
            self.owner.log_end()
        }
    }

    /// Sends the client the records that it was not sent.
    pub(super) async fn send_missed(&mut self) -> Result<(), Refusal> {
        let end = self.shown_end();
        self.front.send_missed(end).await
    }

    /// Shows a block that was just appended, or all that the client has missed.
    async fn show(&mut self, block: &Updates) {
        let end = self.shown_end();
        let at = self.owner.last_appended();
        if !self.front.holds() {
            self.announce_aliases().await;
        }
        self.front.show(block, at, end).await;
        if !self.front.holds()
            && let Some(aliases) = self.owner.take_reported_aliases()
        {
            let screen = &mut self.front.screen;
            screen.show(Kind::Info, &aliases, None).await;
        }
    }

    /// Notifies the client of a new id that the agent has for the session.
    async fn announce_aliases(&mut self) {
        if let Some(aliases) = self.owner.take_new_aliases() {
            let screen = &mut self.front.screen;
            screen.show(Kind::Info, &aliases, None).await;
        }
    }

    /// The client gets an update that is not in the log.
    async fn notify(&mut self, notification: Notification) {
        match notification {
            Notification::Snapshots(snapshots) => {
                self.give(Outgoing::Snapshots(snapshots)).await;
            }
            Notification::Commands => self.give(Outgoing::Commands).await,
            // Version 1 has no such update; the prompt of another client is shown when it begins.
            Notification::UserMessage(_) if !self.front.screen.view.has_state() => {}
            Notification::UserMessage(prompt) => {
                let prompt = self.shown_prompt(&prompt);
                self.give(Outgoing::Prompt(prompt)).await;
            }
            Notification::State(phase) => {
                if self.front.screen.view.has_state() {
                    self.give(Outgoing::State(phase)).await;
                }
            }
        }
    }

    fn shown_prompt(&self, prompt: &Prompt) -> ShownPrompt {
        let is_of_other = self.owner.fronts.prompted_elsewhere(&prompt.message_id);
        let by = is_of_other.and_then(|_| self.owner.sender_of(&prompt.message_id));
        let session = self.owner.session.as_ref();
        ShownPrompt {
            prompt: prompt.clone(),
            by,
            turn: session.map_or(0, |session| session.summary.prompts),
            start: self.owner.last_appended().start,
        }
    }

    /// Shows the client a prompt that another client has sent, as its turn begins.
    async fn show_prompt_of_other(&mut self, prompt: &Prompt) {
        let due = self.owner.fronts.prompted_elsewhere(&prompt.message_id);
        let is_shown = self.front.screen.view.has_state() && due == Some(AnswerDue::Logged);
        if due.is_some() && !is_shown {
            let prompt = self.shown_prompt(prompt);
            self.give(Outgoing::Prompt(prompt)).await;
        }
    }

    /// Gives the client something, or keeps it until it was shown what comes before that.
    pub(super) async fn give(&mut self, outgoing: Outgoing) {
        if self.front.holds() {
            let end = self.owner.log_end().unwrap_or_default();
            self.front.hold(outgoing, end);
        } else {
            self.deliver(outgoing, self.shown_end()).await;
        }
    }

    /// Gives the client what was kept for it, as far as it was shown what comes before that.
    async fn flush(&mut self) {
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
        self.trace_answer(&result);
        let result = result.map(|done| self.complete(done));
        let result = result.map_err(|refusal| self.for_client(refusal));
        let is_load = matches!(result, Ok(Done::Loaded(_)));
        self.front.answer(reply, result, note);
        self.announce_aliases().await;
        if is_load && std::mem::take(&mut self.front.held.is_answering) {
            // What was logged after the end of the load follows its answer.
            self.send_missed().await.ok();
        }
    }

    /// Before a question about what only the log shows the client: it is shown that, and that it has to
    /// act.
    async fn show_before_question(&mut self) {
        let is_linked = self.other.link().is_some();
        if is_linked {
            self.follow(true).await;
        }
        if is_linked || self.front.screen.is_behind {
            self.show_state(Phase::RequiresAction).await;
        }
    }

    /// Shows what the session is doing, as far as this process can know: that it does nothing here does
    /// not say that no turn runs in another process.
    pub(super) async fn show_state(&mut self, phase: Phase) {
        if !self.front.screen.view.has_state() {
            return;
        }
        let phase = self.known_phase(phase);
        let is_interrupted = self.was_interrupted();
        self.front.screen.show_state(&phase, is_interrupted).await;
    }

    fn known_phase(&self, phase: Phase) -> Phase {
        match (phase, self.owner.elsewhere()) {
            (Phase::Idle(_), Some(elsewhere)) if elsewhere.running => Phase::Running,
            (phase, _) => phase,
        }
    }

    /// The array of the available commands.
    fn commands(&self) -> Option<String> {
        match self.other.link() {
            Some(link) => link.commands.clone(),
            None => self.owner.session.as_ref()?.conversation.commands(),
        }
    }

    /// Answers a request, and waits until the answer precedes all later updates: those of a prompt
    /// that was sent without waiting follow it.
    pub(super) async fn answer(&mut self, reply: Reply, mut result: Result<Done, Refusal>) {
        // A client that has cancelled a request gets that as its answer.
        if reply.cancellation().is_cancelled() && matches!(result, Err(Refusal::Unreachable(_))) {
            result = Err(Refusal::Cancelled);
        }
        if let Err(Refusal::PromptInProgress { client: None }) = result {
            let client = self.owner.prompting_client();
            result = Err(Refusal::PromptInProgress { client });
        }
        let mut note = self.owner.note(&result);
        if let Some(elsewhere) = &mut note.elsewhere {
            elsewhere.attached = self.other.link().is_some();
        }
        if reply.is_of_link() {
            self.trace_answer(&result);
            let result = result.map_err(|refusal| self.for_client(refusal));
            self.front.answer(reply, result, note);
        } else {
            self.give(Outgoing::Answer(reply, result, note)).await;
        }
    }

    fn trace_answer(&mut self, result: &Result<Done, Refusal>) {
        let id = &self.owner.id;
        let session = self.owner.session.as_ref();
        let traced = Traced {
            id,
            now: self.deps.library.sys.clock.now(),
            prompts: session.map_or(0, |session| session.summary.prompts),
            agent: self.deps.engine.identity().name,
            elsewhere: session.and_then(OpenSession::elsewhere),
            has_expired: matches!(result, Err(Refusal::NotFound))
                && self.deps.library.has_expired(id),
        };
        self.owner.trace.answer(result, &traced);
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
                phase: self.known_phase(phase),
            },
            done => done,
        }
    }

    /// A refusal in the client's terms: it may know the session by another id, and can open only a
    /// session that has a log.
    fn for_client(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::NotOpen if self.deps.library.store.is_none() => Refusal::Forgotten,
            Refusal::InUse { message, holder } => Refusal::InUse {
                message: message.replace(self.owner.id.as_str(), &self.owner.client_id),
                holder,
            },
            refusal => refusal,
        }
    }

    /// Whether a session that is followed may be read: no load is under way.
    pub(super) fn may_follow(&self) -> bool {
        self.front.load.is_none()
            && !self.owner.is_attaching()
            && !self.other.is_attaching()
            && !self.machine.is_replay_due()
    }

    /// Whether a turn runs in another process.
    pub(super) fn runs_elsewhere(&self) -> bool {
        let elsewhere = self.owner.elsewhere();
        elsewhere.is_some_and(|elsewhere| elsewhere.running)
    }

    /// Shows what another process has appended, and what it is doing. If the log has not `grown`, that
    /// process may be gone. A load that is under way sends it itself.
    pub(super) async fn follow(&mut self, grown: bool) {
        let following = self.front.following.as_ref();
        let Some(what) = following.map(|following| following.what) else {
            return;
        };
        if !self.may_follow() || self.owner.session.is_none() {
            return;
        }
        match what {
            Followed::Own => {
                self.owner.check_claim();
                self.note_log();
                let log = self.owner.session.as_ref().map(|session| &session.log);
                self.front.update_following(log);
            }
            Followed::Behind => self.front.read_on(),
            Followed::Elsewhere => self.follow_elsewhere(grown).await,
        }
    }

    async fn follow_elsewhere(&mut self, grown: bool) {
        let Some(shown) = self.front.follow().await else {
            return;
        };
        // A process that was killed has appended no end.
        let running = shown.is_in_turn && (grown || self.is_open_elsewhere());
        let session = self.owner.session.as_mut();
        let Some(LogAccess::Shared(elsewhere)) = session.map(|session| &mut session.log) else {
            return;
        };
        let was_running = std::mem::replace(&mut elsewhere.running, running);
        if running != was_running || shown.last_end.is_some() {
            self.show_state(Phase::in_log(running, shown.last_end))
                .await;
        }
    }
}
