//! Where the agent's messages about one of its sessions go.

mod imported;
mod native;
mod replayed_words;
pub(super) mod settings;
mod subagents;
mod terminals;
pub(super) mod hidden_briefing;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::conversation::prompt_blocks;
use crate::engine::{Block, EngineEvent, Outlet};
use crate::json::string_member;
use crate::protocol::UpdateKind;
use crate::record::{Kind, OpenSubagents};
use crate::sys::{SessionId, lock};

pub(super) use imported::ImportedHistory;
pub(super) use replayed_words::{ReplayedWords, letters};
pub(super) use work::{SentTurn, StateReport};

use super::ids::IdNormalizer;
use super::parse::Payload;
use hidden_briefing::{AgentTitles, Briefed};
use settings::AgentSettings;
use terminals::AgentTerminals;
use work::AgentWork;

/// How long an agent is silent before its replay counts as complete.
const QUIET: Duration = Duration::from_millis(250);

/// How long an agent may take to begin its replay after it has responded to a load. One that takes
/// longer counts as having lost the session.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(3);

/// The time for the beginning of a replay, like [`REPLAY_TIMEOUT`], of an agent that is known to
/// replay before it responds.
const SHORT_REPLAY_TIMEOUT: Duration = Duration::from_secs(1);

/// The text of a subagent's tool call that was running when the agent ended.
const AGENT_ENDED: &str = "Interrupted: the agent ended before this tool call did.";

/// Takes one session's messages from the agent's pipe to the session's task.
#[derive(Debug)]
pub(super) struct SessionRoute {
    pub(super) out: Outlet,
    /// Our session; `None` if what the agent says of its own is not ours to show.
    pub(super) session: Option<SessionId>,
    /// The session's id for the client.
    name: String,
    /// Its working directory.
    folder: String,
    /// The agent's id of the session; empty until it is known.
    pub(super) agent_id: Mutex<String>,
    /// Whether the agent speaks version 2, so that its updates are recorded as they are.
    pub(super) is_native: bool,
    state: Mutex<RouteState>,
    /// The latest mode, model and options.
    settings: Arc<Mutex<AgentSettings>>,
    /// Counts updates while a replay is awaited.
    activity: watch::Sender<u64>,
}

#[derive(Debug)]
struct RouteState {
    mode: RouteMode,
    normalizer: IdNormalizer,
    terminals: AgentTerminals,
    /// The last snapshot of each kind, by its name.
    snapshots: HashMap<String, String>,
    titles: AgentTitles,
    /// Whether there was a turn since the agent opened the session.
    prompted: bool,
    /// Whether an update has come since the last turn began.
    updated: bool,
    /// The running turns, by the ids of their messages.
    turns: Vec<String>,
    /// The subagents that have not ended.
    subagents: OpenSubagents,
    /// The work that an agent of version 2 reports.
    work: AgentWork,
    /// The subagents that the agent has announced since it has replayed the session: they go on.
    continuing: HashSet<String>,
    /// The titles of the sessions that the agent had when it was about to clear its context, by their
    /// ids.
    before_clearing: Option<BTreeMap<String, String>>,
}

/// The treatment of updates.
#[derive(Debug)]
enum RouteMode {
    /// Updates are logged and sent.
    Live,
    /// The session was replayed. Until the next turn begins, only snapshots are new.
    AfterReplay,
    /// Updates are a replay of what is in the log.
    Discard(Discarded),
    /// Updates are the history of a session that is being imported.
    Import(Box<ImportedHistory>),
}

impl RouteMode {
    /// Whether the agent has replayed the session and is not in its middle.
    fn is_after_replay(&self) -> bool {
        match self {
            Self::AfterReplay => true,
            Self::Discard(discarded) => discarded.is_answered,
            Self::Live | Self::Import(_) => false,
        }
    }
}

/// The replay of an agent that was discarded.
#[derive(Clone, Debug, Default)]
pub(super) struct Discarded {
    /// How many updates of the history it had.
    pub(super) history: u64,
    /// Whether the agent has responded since: then subagents that it announces go on.
    is_answered: bool,
    /// The last snapshot of each kind, by its name.
    snapshots: Vec<(String, String)>,
    /// What the user says in it.
    words: ReplayedWords,
}

impl Discarded {
    fn keep(&mut self, name: String, payload: String) {
        self.snapshots.retain(|(known, _)| *known != name);
        self.snapshots.push((name, payload));
    }

    /// The last snapshot of each kind.
    pub(super) fn snapshots(&self) -> Vec<String> {
        let payloads = self.snapshots.iter().map(|(_, payload)| payload.clone());
        payloads.collect()
    }
}

impl SessionRoute {
    /// `session` is our session, `name` its id for the client and `folder` its working directory;
    /// `snapshots` are the last snapshots in the log, by their names.
    pub(super) fn new(
        out: Outlet,
        session: Option<SessionId>,
        (name, folder): (String, String),
        is_native: bool,
        normalizer: IdNormalizer,
        settings: Arc<Mutex<AgentSettings>>,
        snapshots: HashMap<String, String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            out,
            session,
            name,
            folder,
            agent_id: Mutex::default(),
            is_native,
            state: Mutex::new(RouteState {
                mode: RouteMode::Live,
                normalizer,
                terminals: AgentTerminals::default(),
                titles: AgentTitles::new(snapshots.get(UpdateKind::SessionInfo.name())),
                snapshots,
                prompted: false,
                updated: false,
                turns: Vec::new(),
                subagents: OpenSubagents::default(),
                work: AgentWork::default(),
                continuing: HashSet::new(),
                before_clearing: None,
            }),
            settings,
            activity: watch::Sender::new(0),
        })
    }

    /// Passes on records, unless there are none or the session was closed.
    pub(super) async fn send(&self, block: Block) {
        if !block.is_empty() {
            self.out.send(EngineEvent::Block(block)).await.ok();
        }
    }

    /// The session's id for the client.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The session's working directory.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The agent clears its context in this turn. It has these sessions, if they are known.
    pub(super) fn context_clears(&self, sessions: Option<BTreeMap<String, String>>) {
        self.lock().before_clearing = sessions;
    }

    /// Takes the list of sessions noted before the context was cleared; `None` if it was taken
    /// already, or none was noted.
    pub(super) fn sessions_before_clearing(&self) -> Option<BTreeMap<String, String>> {
        self.lock().before_clearing.take()
    }

    /// The titles of the session.
    pub(super) fn with_titles<T>(&self, work: impl FnOnce(&mut AgentTitles) -> T) -> T {
        work(&mut self.lock().titles)
    }

    /// The last prompt, if it was sent behind a briefing.
    pub(super) fn briefed(&self) -> Option<Briefed> {
        self.lock().titles.briefed.clone()
    }

    /// The agent knows the session by this id.
    pub(super) fn opened_as(&self, agent_id: &str) {
        agent_id.clone_into(&mut lock(&self.agent_id));
    }

    /// From now on, the agent replays what the log has.
    pub(super) fn discard_replay(&self) {
        let mut state = self.lock();
        state.mode = RouteMode::Discard(Discarded::default());
        state.continuing.clear();
    }

    /// The agent has responded to the request to open the session. If it has replayed before, it need
    /// not do so later.
    pub(super) fn opened(&self) {
        if let RouteMode::Discard(discarded) = &mut self.lock().mode {
            discarded.is_answered = discarded.history > 0;
        }
    }

    /// From now on, the agent replays a session that is to be imported.
    pub(super) fn import(&self, import: ImportedHistory) {
        self.lock().mode = RouteMode::Import(Box::new(import));
    }

    /// From now on, updates are logged and sent; after a replay, which may still go on, only from the
    /// next turn on. Returns what was discarded.
    pub(super) fn go_live(&self, replayed: bool) -> Discarded {
        match self.change(replayed) {
            RouteMode::Discard(discarded) => discarded,
            RouteMode::Live | RouteMode::AfterReplay | RouteMode::Import(_) => Discarded::default(),
        }
    }

    /// The same; returns what was imported.
    pub(super) fn imported(&self, replayed: bool) -> Option<ImportedHistory> {
        match self.change(replayed) {
            RouteMode::Import(import) => Some(*import),
            RouteMode::Live | RouteMode::AfterReplay | RouteMode::Discard(_) => None,
        }
    }

    fn change(&self, replayed: bool) -> RouteMode {
        let mode = if replayed {
            RouteMode::AfterReplay
        } else {
            RouteMode::Live
        };
        std::mem::replace(&mut self.lock().mode, mode)
    }

    /// A turn begins: the message's id, and the parameters of `session/prompt`, sent with `context`
    /// before them.
    pub(super) fn turn_begins(&self, message_id: &str, prompt: &str, context: Option<&str>) {
        let mut state = self.lock();
        let overlaps = !state.turns.is_empty();
        state
            .normalizer
            .turn_begins(message_id, prompt, context, overlaps);
        state.turns.push(message_id.to_owned());
        let briefed = context.map(|context| Briefed::new(context, &prompt_text(prompt)));
        state.titles.turn_begins(briefed);
        state.prompted = true;
        state.updated = false;
        if matches!(state.mode, RouteMode::AfterReplay) {
            state.mode = RouteMode::Live;
            state.continuing.clear();
        }
    }

    /// The turn of this message ends. Returns the output of terminals that is due, which only replays
    /// send; none if the turn has ended before.
    pub(super) fn turn_ends(&self, message_id: &str) -> Block {
        let mut state = self.lock();
        let mut turns = state.turns.iter();
        let Some(place) = turns.position(|turn| turn == message_id) else {
            return Block::default();
        };
        state.turns.remove(place);
        state.normalizer.turn_ends(message_id);
        state.titles.turn_ends();
        let updates = state.terminals.flush();
        state.terminals.turn_ends();
        Block::of_all(Kind::Output, updates)
    }

    /// Whether no update has come since the last turn began.
    pub(super) fn is_silent(&self) -> bool {
        !self.lock().updated
    }

    /// How many updates of the history were replayed so far.
    pub(super) fn replayed(&self) -> u64 {
        match &self.lock().mode {
            RouteMode::Live | RouteMode::AfterReplay => 0,
            RouteMode::Discard(discarded) => discarded.history,
            RouteMode::Import(import) => import.updates(),
        }
    }

    /// Waits for the rest of the replay of an agent that has responded to a load: some respond before
    /// it, and some in the middle of it. Waits until the replay has begun, and then until nothing more
    /// comes; not for long if the agent is `known` to replay before it responds.
    pub(super) async fn wait_for_replay(&self, known: bool) {
        let mut activity = self.activity.subscribe();
        let begun = async { while self.replayed() == 0 && activity.changed().await.is_ok() {} };
        let limit = if known {
            SHORT_REPLAY_TIMEOUT
        } else {
            REPLAY_TIMEOUT
        };
        if timeout(limit, begun).await.is_ok() {
            while let Ok(Ok(())) = timeout(QUIET, activity.changed()).await {}
        }
    }

    /// Waits until no update has come for this time.
    pub(super) async fn wait_for_silence(&self, limit: Duration) {
        let mut activity = self.activity.subscribe();
        while let Ok(Ok(())) = timeout(limit, activity.changed()).await {}
    }

    /// Handles an update; what is to be logged and sent goes into `block`.
    pub(super) fn update(&self, payload: Payload<'_>, block: &mut Block) {
        if !payload.has_shape() {
            // A record of it would count as damage.
            tracing::debug!("ignoring an update that the protocol does not define");
            return;
        }
        if payload.ends_replay() {
            return;
        }
        if self.is_native {
            return self.native_update(&payload, block);
        }
        let subagent = payload.subagent();
        let is_about_subagent = subagent.is_some();
        let mut state = self.lock();
        if let Some(subagent) = subagent
            && state.mode.is_after_replay()
        {
            let update = state.normalizer.normalize(payload);
            state.subagents.apply_payload(update.kind, &update.payload);
            block.push(update.kind, &update.payload);
            state.continuing.insert(subagent);
            return;
        }
        let RouteState {
            mode,
            normalizer,
            terminals,
            snapshots,
            titles,
            prompted,
            updated,
            subagents,
            ..
        } = &mut *state;
        match mode {
            RouteMode::Live => {
                *updated = true;
                if normalizer.repeats_context(&payload) {
                    return;
                }
                let update = normalizer.normalize(payload);
                if update.is_call {
                    terminals.update(&update);
                }
                if update.kind == Kind::Info {
                    if let Some(payload) = titles.shown(&update.payload) {
                        self.snapshot(snapshots, *prompted, (Kind::Info, &payload), block);
                    }
                } else {
                    if is_about_subagent {
                        subagents.apply_payload(update.kind, &update.payload);
                    }
                    if update.continues {
                        block.push_continuing(update.kind, &update.payload);
                    } else {
                        block.push(update.kind, &update.payload);
                    }
                }
                return;
            }
            RouteMode::AfterReplay => {
                let update = normalizer.normalize(payload);
                match update.kind {
                    Kind::Info => {
                        if let Some(payload) = titles.shown(&update.payload) {
                            self.snapshot(snapshots, *prompted, (Kind::Info, &payload), block);
                        }
                    }
                    Kind::Transient => block.push(update.kind, &update.payload),
                    _ => tracing::debug!("ignoring an update that was already recorded"),
                }
                return;
            }
            RouteMode::Discard(discarded) => {
                discarded.words.update(&payload);
                let update = normalizer.normalize(payload);
                match update.kind {
                    Kind::Info => {
                        if let Some(payload) = titles.shown(&update.payload) {
                            discarded.keep(name_of(&payload), payload.into_owned());
                        }
                    }
                    Kind::Transient => {}
                    _ => discarded.history += 1,
                }
            }
            RouteMode::Import(import) => {
                let update = normalizer.normalize(payload);
                if update.kind != Kind::Info {
                    import.update(update.kind, &update.payload);
                } else if let Some(payload) = titles.shown(&update.payload) {
                    import.update(update.kind, &payload);
                }
            }
        }
        drop(state);
        self.activity.send_modify(|count| *count += 1);
    }

    /// Handles a snapshot. An agent may send the same one at every load: it is logged once, so that
    /// loading a session does not change its log.
    fn snapshot(
        &self,
        snapshots: &mut HashMap<String, String>,
        prompted: bool,
        (kind, payload): (Kind, &str),
        block: &mut Block,
    ) {
        let name = name_of(payload);
        if !prompted && snapshots.get(&name).is_some_and(|last| last == payload) {
            return block.push_known(kind, payload);
        }
        snapshots.insert(name, payload.to_owned());
        lock(&self.settings).apply_update(payload);
        block.push(kind, payload);
    }

    /// The ids of messages and tool calls.
    pub(super) fn with_normalizer<T>(&self, work: impl FnOnce(&mut IdNormalizer) -> T) -> T {
        work(&mut self.lock().normalizer)
    }

    /// The client's terminals that the agent's tool calls show.
    pub(super) fn with_terminals<T>(&self, work: impl FnOnce(&mut AgentTerminals) -> T) -> T {
        work(&mut self.lock().terminals)
    }

    fn lock(&self) -> MutexGuard<'_, RouteState> {
        lock(&self.state)
    }
}

/// The texts of a prompt, given as the parameters of its request.
fn prompt_text(params: &str) -> String {
    let texts = prompt_blocks(params).filter_map(|block| string_member(block, "text"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The name of an update, in any form of its record.
pub(super) fn name_of(payload: &str) -> String {
    let payload = Payload::of_record(Kind::Update, payload)
        .filter(|payload| payload.name().is_some())
        .or_else(|| Payload::of_record(Kind::UpdateParams, payload));
    let name = payload.as_ref().and_then(Payload::name);
    name.unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests;
