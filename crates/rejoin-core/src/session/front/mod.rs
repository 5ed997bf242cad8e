//! The front of a session: one client, and one number, how far in the log it has been shown.
//!
//! A client that has been shown everything is *level*: it is shown each block when that was appended.
//! Any other reads the log, from where it is: while it loads the session, while it does not read what
//! it is sent, and while another process has the session. Whatever else it is to get then, answers and
//! questions, waits until it has been shown what comes before that.

pub(super) mod deliver;
pub(super) mod follow;
pub(super) mod growth;
pub(super) mod load;
pub(super) mod playback;
pub(super) mod screen;

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::engine::{Block, Prompt};
use crate::protocol::UpdateKind;
use crate::protocol::method::REQUEST_PERMISSION;
use crate::protocol::v1;
use crate::record::{Kind, Record};
use crate::replay::{Options, Replay};
use crate::store::Store;
use crate::sys::{SessionId, blocking};
use crate::transport::OutgoingRequest;

use super::cursors::Cursors;
use super::link::feed::{ClientQuestion, FromOwner, FrontEvents, OWN_FRONT};
use super::outcome::{Done, Refusal};
use super::owner::fronts::sent_by;
use super::owner::open_session::{LogChanges, LogReread};
use super::phase::Phase;
use super::reply::{AnswerNote, Busy, BusyGuard, Reply};
use super::{Client, Deps};
use follow::{Following, show_rest};
use load::{ClientLoad, on_thread};
use playback::{Pace, Playback};
use screen::ClientScreen;

/// The client of a session.
pub(super) struct Front {
    id: SessionId,
    deps: Arc<Deps>,
    pub(super) client: Arc<Client>,
    pub(super) screen: ClientScreen,
    pub(super) load: ClientLoad,
    /// If the client reads the log as it grows.
    following: Option<Following>,
    pub(super) held: Held,
    /// The prompts that the client has sent, as long as it may be shown them again.
    own_prompts: HashSet<String>,
    relays: Relays,
    guards: Guards,
}

/// What waits until the client has been shown what comes before it.
#[derive(Default)]
pub(super) struct Held {
    /// With how far the client must have been shown the log.
    queue: VecDeque<(u64, Outgoing)>,
    /// Whether the client loads the session.
    pub(super) is_loading: bool,
    /// Whether the engine attaches, or the owner in another task is looked for before that.
    pub(super) is_attaching: bool,
    /// Whether a load has come to its end and is not answered: nothing may come between.
    pub(super) is_answering: bool,
    /// How the session is since its last turn has ended, if that was during a load.
    ended: Option<Phase>,
}

/// What a client gets besides the records of the log.
pub(super) enum Outgoing {
    /// The answer to a request.
    Answer(Reply, Result<Done, Refusal>, AnswerNote),
    /// A request of the engine.
    Ask(ClientQuestion),
    /// What the session is doing.
    State(Phase),
    /// The available commands.
    Commands,
    /// Settings as they are now.
    Snapshots(Block),
    /// A prompt that was appended.
    Prompt(ShownPrompt),
    /// A whole line.
    Line(String),
}

/// A prompt as a client is shown it when it was appended.
pub(super) struct ShownPrompt {
    pub(super) prompt: Prompt,
    /// The name of the client that has sent it, if that is another one and has a name.
    pub(super) by: Option<String>,
    /// The number of its turn.
    pub(super) turn: u64,
    /// Where its record begins in the log, in bytes.
    pub(super) start: u64,
}

/// The engine's requests that the client was sent and has not answered.
struct Relays {
    open: usize,
    /// Withdraws them.
    withdrawal: CancellationToken,
    /// Where the front is notified that one was answered.
    events: FrontEvents,
}

/// Counts what is not over for the client as under way.
#[derive(Default)]
struct Guards {
    replays: Busy,
    /// The requests that were answered by the batch that is being performed.
    answered: Vec<BusyGuard>,
    /// The prompt of the running turn, if it was answered before the turn ends.
    accepted: Option<BusyGuard>,
}

impl Held {
    /// The state to show in the place of this one, if a turn has ended during a load.
    fn state_after_load(&mut self, phase: Phase) -> Phase {
        match self.ended.take() {
            Some(ended) if phase.is_idle() => ended,
            _ => phase,
        }
    }
}

impl Relays {
    /// A request was answered. Returns whether no other one is open.
    pub(super) fn answered(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        self.open == 0
    }
}

impl Front {
    pub(super) fn new(
        id: SessionId,
        deps: Arc<Deps>,
        client: Arc<Client>,
        replays: Busy,
        events: FrontEvents,
    ) -> Self {
        let screen = ClientScreen::new(deps.client.clone(), id.to_string(), &client);
        Self {
            id,
            deps,
            client,
            screen,
            load: ClientLoad::None,
            following: None,
            held: Held::default(),
            own_prompts: HashSet::new(),
            relays: Relays {
                open: 0,
                withdrawal: CancellationToken::new(),
                events,
            },
            guards: Guards {
                replays,
                ..Guards::default()
            },
        }
    }

    /// Whether what is for the client has to wait, since it is not shown what is appended.
    fn holds(&self) -> bool {
        self.held.is_loading || self.screen.is_behind
    }

    /// Whether a replay begins when the engine has attached: until then nothing is sent.
    fn is_replay_due(&self) -> bool {
        self.held.is_loading && self.held.is_attaching && self.load.is_none()
    }

    /// Whether a session that is followed may be read: no load is under way.
    fn may_follow(&self) -> bool {
        self.load.is_none() && !self.held.is_attaching
    }

    /// Whether something waits for the client to be shown what comes before it.
    pub(super) fn is_busy(&self) -> bool {
        !self.held.queue.is_empty()
    }

    /// Keeps something until the client has been shown the log to its end, `end`.
    fn hold(&mut self, outgoing: Outgoing, end: u64) {
        let end = match outgoing {
            // A client that reads the log finds what the session is doing in it.
            Outgoing::State(_) if self.screen.is_behind => return,
            Outgoing::State(ref phase) if self.held.is_loading => {
                self.held.ended = Some(phase.clone()).filter(Phase::is_end);
                return;
            }
            // A client that reads the log finds the prompt in it, unless it reads to an end before that.
            Outgoing::Prompt(ref prompt) if matches!(self.load, ClientLoad::CatchingUp(_)) => {
                prompt.start
            }
            Outgoing::Prompt(_) => return,
            Outgoing::Answer(_, Ok(Done::Accepted(_)), _) if self.screen.is_behind => 0,
            _ => end,
        };
        self.held.queue.push_back((end, outgoing));
    }

    /// What the client gets next of what was held, with how far it must have been shown the log.
    fn next_held(&mut self) -> Option<(u64, Outgoing)> {
        let (end, _) = self.held.queue.front()?;
        let waits = self.held.is_loading || (self.screen.is_behind && *end > self.screen.position);
        if waits {
            None
        } else {
            self.held.queue.pop_front()
        }
    }

    /// What became of the log: a part that needs not be shown was appended, or it was read again.
    fn log_changed(&mut self, changes: LogChanges, end: Option<u64>) {
        let screen = &mut self.screen;
        if let (Some(reading), Some(end)) = (changes.read_again, end) {
            screen.is_of_others |= reading == LogReread::TakenOver && screen.position < end;
            // Another program may have put a shorter log in its place, whose offsets mean nothing here.
            screen.position = if reading == LogReread::Replaced {
                end
            } else {
                screen.position.min(end)
            };
        }
        if let Some(appended) = changes.appended {
            if appended.start == screen.position && self.load.is_none() && !screen.is_behind {
                screen.position = appended.end;
            }
            self.grown();
        }
    }

    /// The log was opened: the client counts as having been shown it to its end.
    fn begin_at(&mut self, end: u64) {
        self.screen.position = end;
        self.screen.is_of_others = false;
    }

    /// Shows a block that was just appended, at this place in the log, or all that the client has missed.
    async fn show(&mut self, block: &Block, at: Range<u64>, end: Option<u64>) {
        if self.holds() || !self.load.is_none() {
            // The log has it.
            return;
        }
        if self.has_missed(end) {
            // What is still unsent afterwards is sent before the turn is answered.
            self.send_missed(end).await.ok();
            return;
        }
        self.screen.show_block(block, at.start).await;
    }

    /// Whether the log, which ends at `end`, has records that the client was not shown, and that no
    /// replay will reach.
    fn has_missed(&self, end: Option<u64>) -> bool {
        self.load.is_none()
            && !self.screen.is_behind
            && end.is_some_and(|end| self.screen.position < end)
    }

    /// Shows the records up to `end` that the client was not shown, as they would have been shown when
    /// they were appended.
    async fn send_missed(&mut self, end: Option<u64>) -> Result<(), Refusal> {
        let (true, Some(end), Some(store)) =
            (self.has_missed(end), end, self.deps.library.store.clone())
        else {
            return Ok(());
        };
        if self.screen.is_of_others {
            return self.replay_missed(store, end).await;
        }
        let mut reader = blocking(|| store.read_all(&self.id))?;
        reader.seek(self.screen.position);
        reader.limit(end);
        while let Some(entry) = reader.next()? {
            let start = self.screen.position;
            self.screen
                .show(entry.record.kind, entry.record.payload, Some(start))
                .await;
            if self.screen.is_behind {
                return Ok(());
            }
            self.screen.position = entry.end;
        }
        Ok(())
    }

    /// Replays what another process has written since the client was last shown records: as a load
    /// would show it, with prompts.
    async fn replay_missed(&mut self, store: Store, end: u64) -> Result<(), Refusal> {
        let (id, shown) = (self.id.clone(), self.screen.position);
        let mut playback = self.rest();
        if std::mem::take(&mut self.screen.sees_turn) {
            playback.show_states();
        } else {
            playback.show_states_but_open_end();
        }
        playback.swap_view(&mut self.screen.view);
        let work = move || {
            let played = show_rest(&mut playback, &store, &id, shown, Some(end));
            (playback, played)
        };
        let reading = on_thread(self.deps.client.flow.replays(), work);
        let Ok((mut playback, played)) = reading.await else {
            return Err(load::failed());
        };
        self.screen.position = self.screen.position.max(playback.end);
        self.screen.cursors_sent = playback.end;
        self.screen.is_of_others = played.is_err();
        playback.swap_view(&mut self.screen.view);
        played
    }

    /// A replay for a client that has seen a part of the session. Nothing cancels it.
    fn rest(&self) -> Playback {
        let policy = self.deps.replay;
        Playback::new(
            &self.screen.client_id,
            policy.for_all(&self.deps, &self.client),
            Pace::new(policy.rate),
            &self.deps.client.writer,
            self.screen.view.fresh(),
            CancellationToken::new(),
        )
        .with_cursors(Cursors::of_log(&self.id, &self.deps, &self.client))
    }

    /// Announces the available commands to a client to which no answer says them.
    async fn show_commands(&mut self, commands: Option<String>) {
        if self.screen.view.announces_commands()
            && let Some(commands) = commands
        {
            let update = crate::json::Object::new()
                .string("sessionUpdate", UpdateKind::AvailableCommands.name())
                .raw("availableCommands", &commands)
                .end();
            self.screen.show(Kind::Info, &update, None).await;
        }
    }

    /// Shows a prompt: to a client of version 2 its own and those of others, to one of version 1 those
    /// of others.
    async fn show_prompt(&mut self, shown: ShownPrompt) {
        let ShownPrompt {
            prompt,
            by,
            turn,
            start,
        } = shown;
        let screen = &mut self.screen;
        if screen.view.has_state() {
            return screen
                .show_user_message(&prompt, by.as_deref(), start)
                .await;
        }
        let at = self.deps.library.sys.clock.now().to_string();
        let payload = by.map(|client| sent_by(&prompt.params, &client));
        let options = Options {
            earlier_turns: turn.saturating_sub(1),
            ..self.deps.replay.for_all(&self.deps, &self.client)
        };
        let mut replay = Replay::new(&screen.client_id, options);
        let mut lines = Vec::new();
        let record = Record {
            seq: 0,
            at: &at,
            kind: Kind::Prompt,
            id: Some(&prompt.message_id),
            payload: payload.as_deref().unwrap_or(&prompt.params),
            parts: None,
        };
        replay.record(&record, &mut lines);
        replay.finish(&mut lines);
        screen.show_lines(lines, start).await;
    }

    /// Answers a request of the client: what is sent from now on follows the answer.
    fn answer(&mut self, reply: Reply, result: Result<Done, Refusal>, note: AnswerNote) {
        let is_accepted = match &result {
            Ok(Done::Accepted(_)) => true,
            Ok(Done::Repeated { phase, .. }) => !phase.is_idle(),
            _ => false,
        };
        let busy = reply.send(result.map(|done| note.answer(done)));
        if is_accepted {
            self.guards.accepted = Some(busy);
        } else {
            self.guards.answered.push(busy);
        }
    }

    /// What the answered requests have caused was sent. Unless a turn runs, that is all.
    pub(super) fn settle(&mut self, is_in_turn: bool) {
        self.guards.answered.clear();
        if !is_in_turn {
            self.guards.accepted = None;
        }
    }

    /// Sends the client a request of an engine, in the form of the client's version. Does not wait for the
    /// response.
    async fn ask(&mut self, question: ClientQuestion) {
        if question.withdrawal.is_withdrawn() {
            return;
        }
        let ClientQuestion {
            method,
            params,
            is_native,
            ..
        } = &question;
        let params = match self.request(method, params, *is_native) {
            Ok(params) => params,
            Err(error) => {
                // The client's version does not have the method.
                question.answer.send(Err(error)).ok();
                return;
            }
        };
        let client = &self.deps.client;
        // The request is sent here, so that no later update overtakes it.
        let call = if self.screen.is_behind {
            Some(client.ask_at_once(method, &params))
        } else {
            client.ask(method, &params).await
        };
        // A client that is gone is not waited for.
        if let Some(call) = call {
            self.relay(question, call);
        }
    }

    /// Passes the response of the client on, in the form of the log, or withdraws the request.
    fn relay(&mut self, question: ClientQuestion, mut call: OutgoingRequest) {
        self.relays.open += 1;
        let view = (!question.is_native).then(|| self.screen.view.fresh());
        let events = self.relays.events.clone();
        let released = self.relays.withdrawal.clone();
        let (client, id) = (self.deps.client.clone(), call.id);
        // The withdrawal precedes what the engine does after it.
        let withdraw = move || client.withdraw_request(id);
        question.withdrawal.is_sent(withdraw);
        tokio::spawn(async move {
            let outcome = tokio::select! {
                biased;
                outcome = &mut call => outcome,
                () = question.withdrawal.withdrawn() => {
                    question.withdrawal.withdraw();
                    // The client answers in any case.
                    call.await
                }
                () = released.cancelled() => {
                    question.withdrawal.withdraw();
                    call.await
                }
            };
            // The client learns that the turn goes on before what the engine does next.
            events.send((OWN_FRONT, FromOwner::Relayed)).ok();
            if let Some(outcome) = outcome {
                let logged = |result| match &view {
                    Some(view) => view.result(&question.method, result),
                    None => result,
                };
                question.answer.send(outcome.map(logged)).ok();
            }
        });
    }

    /// The parameters of a request of an engine as the client gets them.
    fn request<'a>(
        &self,
        method: &str,
        params: &'a str,
        is_native: bool,
    ) -> Result<Cow<'a, str>, String> {
        let view = &self.screen.view;
        if !is_native {
            return view.request(method, params);
        }
        if !view.shows_version_2() && method == REQUEST_PERMISSION {
            // The outcome has the same form in both versions.
            return Ok(v1::permission(params).into());
        }
        Ok(params.into())
    }

    /// The session is closed for the client.
    pub(super) fn release(&mut self) {
        self.load = ClientLoad::None;
        self.held.ended = None;
        self.held.is_answering = false;
        std::mem::take(&mut self.relays.withdrawal).cancel();
    }

    /// Remembers that the client has sent a prompt, which it is not shown again. `is_first` says whether
    /// it has been shown all that there is.
    pub(super) fn own_prompt(&mut self, message_id: &str, is_first: bool) {
        if is_first {
            self.own_prompts.clear();
        }
        self.own_prompts.insert(message_id.to_owned());
    }
}
