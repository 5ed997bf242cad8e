//! Where the agent's messages about one of its sessions go.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::engine::{Block, Outlet};
use crate::protocol::UpdateKind;
use crate::record::Kind;
use crate::sys::lock;

use super::import::Import;
use super::settings::Settings;
use super::shape::{IdNormalizer, Payload, Terminals};
use super::titles::Titles;

/// How long an agent says nothing before it counts as having replayed all it had.
const QUIET: Duration = Duration::from_millis(250);

/// How long an agent that has answered a load may take to begin its replay. One that takes longer
/// counts as having forgotten the session.
const BEGINS: Duration = Duration::from_secs(3);

/// The same for an agent that is known to replay before it answers.
const BEGINS_SOON: Duration = Duration::from_secs(1);

/// One session's way from the agent's pipe to the session's actor.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) out: Outlet,
    state: Mutex<State>,
    /// How mode, model and options were set last.
    settings: Arc<Mutex<Settings>>,
    /// Counts what came.
    activity: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    marks: IdNormalizer,
    terminals: Terminals,
    /// Terminals whose command has ended, so that what they show is known for good.
    ended: HashSet<String>,
    /// The last of each update that says how things are now, by its name.
    infos: HashMap<String, String>,
    titles: Titles,
    /// Whether there was a turn since the agent has had the session open.
    prompted: bool,
    /// Whether an update has come since the turn began.
    heard: bool,
    /// The turns that run, by the ids of their messages.
    turns: Vec<String>,
}

/// What is done with updates.
#[derive(Debug)]
enum Mode {
    /// They are the conversation.
    Live,
    /// Until the next turn begins, they tell how things are or repeat what is in the log.
    Late,
    /// They repeat what is in the log.
    Swallow(Swallowed),
    /// They are the history of a session that was made without us.
    Import(Box<Import>),
}

/// What came while updates were swallowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Swallowed {
    /// How much of it was history.
    pub(super) history: u64,
    /// The last of each update that says how things are now, by its name.
    snapshots: Vec<(String, String)>,
}

impl Swallowed {
    fn keep(&mut self, name: String, payload: String) {
        self.snapshots.retain(|(known, _)| *known != name);
        self.snapshots.push((name, payload));
    }

    /// The updates that say how things are now.
    pub(super) fn snapshots(&self) -> Vec<String> {
        let payloads = self.snapshots.iter().map(|(_, payload)| payload.clone());
        payloads.collect()
    }
}

impl Route {
    /// `infos` are the updates that say how things are and that the log has, the last of each name.
    pub(super) fn new(
        out: Outlet,
        marks: IdNormalizer,
        settings: Arc<Mutex<Settings>>,
        infos: HashMap<String, String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            out,
            state: Mutex::new(State {
                mode: Mode::Live,
                marks,
                terminals: Terminals::default(),
                ended: HashSet::new(),
                titles: Titles::new(infos.get(UpdateKind::SessionInfo.name())),
                infos,
                prompted: false,
                heard: false,
                turns: Vec::new(),
            }),
            settings,
            activity: watch::Sender::new(0),
        })
    }

    /// From now on, history that the agent shows is not heeded.
    pub(super) fn swallow(&self) {
        self.lock().mode = Mode::Swallow(Swallowed::default());
    }

    /// From now on, history that the agent shows is gathered.
    pub(super) fn import(&self, import: Import) {
        self.lock().mode = Mode::Import(Box::new(import));
    }

    /// From now on, all that the agent shows is the conversation; after a replay, which may come
    /// `late`, only from the next turn on. Answers with what was swallowed.
    pub(super) fn go_live(&self, late: bool) -> Swallowed {
        match self.change(late) {
            Mode::Swallow(swallowed) => swallowed,
            Mode::Live | Mode::Late | Mode::Import(_) => Swallowed::default(),
        }
    }

    /// The same, with what was gathered.
    pub(super) fn imported(&self, late: bool) -> Option<Import> {
        match self.change(late) {
            Mode::Import(import) => Some(*import),
            Mode::Live | Mode::Late | Mode::Swallow(_) => None,
        }
    }

    fn change(&self, late: bool) -> Mode {
        let mode = if late { Mode::Late } else { Mode::Live };
        std::mem::replace(&mut self.lock().mode, mode)
    }

    /// A turn begins: the message's id, and the parameters of `session/prompt`, sent with `context`
    /// in front.
    pub(super) fn turn_begins(&self, message_id: &str, prompt: &str, context: Option<&str>) {
        let mut state = self.lock();
        let overlaps = !state.turns.is_empty();
        state
            .marks
            .turn_begins(message_id, prompt, context, overlaps);
        state.turns.push(message_id.to_owned());
        state.titles.turn_begins(context.is_some());
        state.prompted = true;
        state.heard = false;
        if matches!(state.mode, Mode::Late) {
            state.mode = Mode::Live;
        }
    }

    /// The turn of this message ends. Answers with updates for what it left to be shown; with none
    /// if it has ended before.
    pub(super) fn turn_ends(&self, message_id: &str) -> Vec<String> {
        let mut state = self.lock();
        let mut turns = state.turns.iter();
        let Some(place) = turns.position(|turn| turn == message_id) else {
            return Vec::new();
        };
        state.turns.remove(place);
        state.marks.turn_ends(message_id);
        state.titles.turn_ends();
        let updates = state.terminals.flush();
        state.terminals.turn_ends();
        updates
    }

    /// Whether no update has come since the last turn began.
    pub(super) fn is_silent(&self) -> bool {
        !self.lock().heard
    }

    /// How much history was swallowed or gathered so far.
    pub(super) fn shown(&self) -> u64 {
        match &self.lock().mode {
            Mode::Live | Mode::Late => 0,
            Mode::Swallow(swallowed) => swallowed.history,
            Mode::Import(import) => import.updates(),
        }
    }

    /// Waits for the rest of the replay of an agent that has answered a load: some answer before
    /// it, and some in its midst. Waits until it has begun, and then until nothing more comes. One
    /// that is `known` to replay before it answers has nothing to begin with.
    pub(super) async fn late(&self, known: bool) {
        let mut activity = self.activity.subscribe();
        let begun = async { while self.shown() == 0 && activity.changed().await.is_ok() {} };
        let begins = if known { BEGINS_SOON } else { BEGINS };
        if timeout(begins, begun).await.is_ok() {
            while let Ok(Ok(())) = timeout(QUIET, activity.changed()).await {}
        }
    }

    /// Waits until the agent has shown nothing of the session for so long.
    pub(super) async fn silence(&self, limit: Duration) {
        let mut activity = self.activity.subscribe();
        while let Ok(Ok(())) = timeout(limit, activity.changed()).await {}
    }

    /// Takes an update; what is to be logged and sent goes into `block`.
    pub(super) fn update(&self, payload: Payload<'_>, block: &mut Block) {
        if !payload.has_shape() {
            // A record of it would count as damage, and clients could do nothing with it.
            tracing::debug!("ignoring an update of the agent that is not one of the protocol");
            return;
        }
        let mut state = self.lock();
        let State {
            mode,
            marks,
            terminals,
            infos,
            titles,
            prompted,
            heard,
            ..
        } = &mut *state;
        match mode {
            Mode::Live => {
                *heard = true;
                if marks.repeats_context(&payload) {
                    return;
                }
                let shaped = marks.shape(payload);
                if shaped.is_call {
                    terminals.update(&shaped);
                }
                if shaped.kind == Kind::Info {
                    if let Some(payload) = titles.shown(&shaped.payload) {
                        self.info(infos, *prompted, &payload, block);
                    }
                } else {
                    block.push(shaped.kind, &shaped.payload);
                }
                return;
            }
            Mode::Late => {
                let shaped = marks.shape(payload);
                match shaped.kind {
                    Kind::Info => {
                        if let Some(payload) = titles.shown(&shaped.payload) {
                            self.info(infos, *prompted, &payload, block);
                        }
                    }
                    Kind::Transient => block.push(shaped.kind, &shaped.payload),
                    _ => tracing::debug!("the agent repeats what is known"),
                }
                return;
            }
            Mode::Swallow(swallowed) => {
                let shaped = marks.shape(payload);
                match shaped.kind {
                    Kind::Info => {
                        if let Some(payload) = titles.shown(&shaped.payload) {
                            swallowed.keep(name_of(&payload), payload.into_owned());
                        }
                    }
                    Kind::Transient => {}
                    _ => swallowed.history += 1,
                }
            }
            Mode::Import(import) => {
                let shaped = marks.shape(payload);
                if shaped.kind != Kind::Info {
                    import.update(shaped.kind, &shaped.payload);
                } else if let Some(payload) = titles.shown(&shaped.payload) {
                    import.update(shaped.kind, &payload);
                }
            }
        }
        drop(state);
        self.activity.send_modify(|count| *count += 1);
    }

    /// Takes an update that says how things are now. An agent may say the same at every load, which
    /// is nothing new to the log, and a load alone shall change nothing.
    fn info(
        &self,
        infos: &mut HashMap<String, String>,
        prompted: bool,
        payload: &str,
        block: &mut Block,
    ) {
        let name = name_of(payload);
        if !prompted && infos.get(&name).is_some_and(|last| last == payload) {
            return block.push_known(Kind::Info, payload);
        }
        infos.insert(name, payload.to_owned());
        self.note(payload);
        block.push(Kind::Info, payload);
    }

    /// Takes note of a setting that the agent has changed.
    fn note(&self, payload: &str) {
        let mut settings = lock(&self.settings);
        settings.note(payload);
    }

    /// The ids of messages and tool calls.
    pub(super) fn with_marks<T>(&self, work: impl FnOnce(&mut IdNormalizer) -> T) -> T {
        work(&mut self.lock().marks)
    }

    /// The client's terminals that the agent has shown.
    pub(super) fn with_terminals<T>(&self, work: impl FnOnce(&mut Terminals) -> T) -> T {
        work(&mut self.lock().terminals)
    }

    /// Notes that a terminal's command has ended; false if that was known.
    pub(super) fn terminal_ends(&self, terminal: &str) -> bool {
        self.lock().ended.insert(terminal.to_owned())
    }

    /// Forgets a terminal that is released. Answers whether its command had ended before.
    pub(super) fn terminal_goes(&self, terminal: &str) -> bool {
        self.lock().ended.remove(terminal)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The name of an update, whatever form it is kept in.
pub(super) fn name_of(payload: &str) -> String {
    let payload = Payload::of_record(Kind::Update, payload)
        .filter(|payload| payload.name().is_some())
        .or_else(|| Payload::of_record(Kind::UpdateParams, payload));
    let name = payload.as_ref().and_then(Payload::name);
    name.unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::sys::ids::RandomIds;

    const SAID: &str = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"},"messageId":"m"}"#;
    const MODE: &str = r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#;

    fn route() -> Arc<Route> {
        let ids = Arc::new(RandomIds);
        Route::new(
            Outlet::new().0,
            IdNormalizer::new(ids),
            Arc::default(),
            HashMap::new(),
        )
    }

    /// What becomes of an update.
    fn take(route: &Route, update: &str) -> Vec<Kind> {
        let mut block = Block::default();
        route.update(
            Payload::of_record(Kind::Update, update).unwrap(),
            &mut block,
        );
        block.iter().map(|entry| entry.kind).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_that_begins_after_the_answer_is_waited_for() {
        let route = route();
        route.swallow();
        let agent = async {
            sleep(BEGINS / 2).await;
            // This is not the replay yet.
            take(&route, MODE);
            sleep(BEGINS / 3).await;
            for _ in 0..3 {
                take(&route, SAID);
                sleep(QUIET * 4 / 5).await;
            }
        };
        tokio::join!(route.late(false), agent);
        let swallowed = route.go_live(true);
        assert_eq!((swallowed.history, swallowed.snapshots().len()), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_has_forgotten_is_not_waited_for_long() {
        let route = route();
        route.swallow();
        for (known, waits) in [(false, BEGINS), (true, BEGINS_SOON)] {
            let start = Instant::now();
            route.late(known).await;
            assert_eq!(start.elapsed(), waits);
        }
        assert_eq!(route.go_live(true).history, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_still_replays_is_not_silent() {
        let route = route();
        route.swallow();
        let limit = Duration::from_mins(2);
        let start = Instant::now();
        let agent = async {
            for _ in 0..3 {
                sleep(limit / 2).await;
                take(&route, SAID);
            }
        };
        tokio::join!(route.silence(limit), agent);
        assert_eq!(start.elapsed(), limit / 2 * 3 + limit);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_answers_in_the_midst_of_its_replay_is_waited_for() {
        let route = route();
        route.swallow();
        take(&route, SAID);
        let start = Instant::now();
        let agent = async {
            sleep(QUIET / 2).await;
            take(&route, SAID);
        };
        tokio::join!(route.late(false), agent);
        assert_eq!(start.elapsed(), QUIET / 2 + QUIET);
        assert_eq!(route.go_live(true).history, 2);
    }

    #[test]
    fn what_comes_even_later_is_no_news_before_the_next_turn() {
        let route = route();
        route.swallow();
        route.go_live(true);
        assert_eq!(take(&route, SAID), []);
        assert_eq!(take(&route, MODE), [Kind::Info]);
        route.turn_begins("m", "{}", None);
        assert_eq!(take(&route, SAID), [Kind::Update]);
    }
}
