//! Where the agent's messages about one of its sessions go.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{Block, Outlet};
use crate::record::Kind;
use crate::sys::lock;

use super::import::Import;
use super::settings::Settings;
use super::shape::{Marks, Payload, Terminals};

/// How long an agent says nothing before it counts as having replayed all it had.
const QUIET: Duration = Duration::from_millis(250);

/// How long an agent that has answered a load may take to begin its replay. One that takes longer
/// counts as having forgotten the session.
const BEGINS: Duration = Duration::from_secs(3);

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
    marks: Marks,
    terminals: Terminals,
    /// Terminals whose command has ended, so that what they show is known for good.
    ended: HashSet<String>,
    /// The last of each update that says how things are now, by its name.
    infos: HashMap<String, String>,
    /// Whether there was a turn since the agent has had the session open.
    prompted: bool,
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
        marks: Marks,
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
                infos,
                prompted: false,
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

    /// A turn begins, with these parameters of `session/prompt`.
    pub(super) fn turn_begins(&self, prompt: &str) {
        let mut state = self.lock();
        state.marks.turn_begins(prompt);
        state.prompted = true;
        if matches!(state.mode, Mode::Late) {
            state.mode = Mode::Live;
        }
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
    /// it, and some in its midst. Waits until it has begun, and then until nothing more comes.
    pub(super) async fn late(&self) {
        let mut activity = self.activity.subscribe();
        let begun = async { while self.shown() == 0 && activity.changed().await.is_ok() {} };
        if tokio::time::timeout(BEGINS, begun).await.is_ok() {
            while let Ok(Ok(())) = tokio::time::timeout(QUIET, activity.changed()).await {}
        }
    }

    /// Takes an update; what is to be logged and sent goes into `block`.
    pub(super) fn update(&self, payload: Payload<'_>, block: &mut Block) {
        let mut state = self.lock();
        let State {
            mode,
            marks,
            terminals,
            infos,
            prompted,
            ..
        } = &mut *state;
        match mode {
            Mode::Live => {
                let shaped = marks.shape(payload);
                if shaped.is_call {
                    terminals.update(&shaped);
                }
                if shaped.kind == Kind::Info {
                    self.info(infos, *prompted, &shaped.payload, block);
                } else {
                    block.push(shaped.kind, &shaped.payload);
                }
                return;
            }
            Mode::Late => {
                let shaped = marks.shape(payload);
                match shaped.kind {
                    Kind::Info => self.info(infos, *prompted, &shaped.payload, block),
                    Kind::Transient => block.push(shaped.kind, &shaped.payload),
                    _ => tracing::debug!("the agent repeats what is known"),
                }
                return;
            }
            Mode::Swallow(swallowed) => {
                let shaped = marks.shape(payload);
                match shaped.kind {
                    Kind::Info => {
                        let payload = shaped.payload.into_owned();
                        swallowed.keep(name_of(&payload), payload);
                    }
                    Kind::Transient => {}
                    _ => swallowed.history += 1,
                }
            }
            Mode::Import(import) => {
                let shaped = marks.shape(payload);
                import.update(shaped.kind, &shaped.payload);
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
    pub(super) fn with_marks<T>(&self, work: impl FnOnce(&mut Marks) -> T) -> T {
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
            Marks::new(ids),
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
        tokio::join!(route.late(), agent);
        let swallowed = route.go_live(true);
        assert_eq!((swallowed.history, swallowed.snapshots().len()), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_has_forgotten_is_not_waited_for_long() {
        let route = route();
        route.swallow();
        let start = Instant::now();
        route.late().await;
        assert_eq!(start.elapsed(), BEGINS);
        assert_eq!(route.go_live(true).history, 0);
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
        tokio::join!(route.late(), agent);
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
        route.turn_begins("{}");
        assert_eq!(take(&route, SAID), [Kind::Update]);
    }
}
