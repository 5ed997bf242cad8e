//! The built-in engine: deterministic answers without a model or a network.
//!
//! Plain text is answered from the conversation itself, so that a user sees at once whether earlier
//! context was restored. Slash commands show every kind of update, for people who build or test
//! clients. `docs/local-engine.md` is the reference.

mod always;
mod args;
mod chosen;
mod command;
mod showcase;
mod describe;
mod echo;
mod fail;
mod flood;
mod history;
mod image;
mod kept;
mod mcp;
mod pieces;
mod plan;
mod reply;
mod resource;
mod sample;
mod settings;
mod slow;
mod think;
mod tool;
mod tools;
mod turn;
mod update;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use crate::engine::relay::Patience;
use crate::engine::{
    Attach, Attached, BoxFuture, Called, Cancel, CloseReason, Conversation, Ended, Engine,
    EngineError, Opening, Prompt, SessionConfig, StopReason,
};
use crate::json;
use crate::record::header::Implementation;
use crate::sys::lock;

use tokio::task::JoinSet;

use chosen::Chosen;
use command::{Action, Parsed};
use kept::Kept;
use mcp::Servers;
use settings::NAME;
use turn::{Done, Sent, Stop, Turn, Voice};

/// The built-in engine.
#[derive(Clone, Debug, Default)]
pub struct LocalEngine {
    guard: Option<PathBuf>,
    /// The MCP servers of all open sessions, and of some that were closed.
    servers: Arc<Mutex<Vec<Weak<Servers>>>>,
}

impl LocalEngine {
    /// A new engine. It keeps no state of closed sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new engine whose processes are [guarded](crate::engine::process::guard) by the program
    /// `guard`.
    pub fn guarded_by(guard: Option<PathBuf>) -> Self {
        Self {
            guard,
            servers: Arc::default(),
        }
    }
}

impl Engine for LocalEngine {
    fn identity(&self) -> Implementation {
        Implementation {
            name: NAME.to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        let kept = Arc::new(Kept::new(self.guard.clone()));
        let mut all = lock(&self.servers);
        all.retain(|servers| servers.strong_count() > 0);
        all.push(Arc::downgrade(&kept.servers));
        drop(all);
        let opening = Mutex::new(opening);
        Arc::new(LocalConversation { opening, kept })
    }

    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        let all = std::mem::take(&mut *lock(&self.servers));
        let mut ending: JoinSet<()> = JoinSet::new();
        Box::pin(async move {
            for servers in all.iter().filter_map(Weak::upgrade) {
                ending.spawn(async move { servers.end(patience).await });
            }
            while ending.join_next().await.is_some() {}
        })
    }
}

/// One session. It keeps only what it was opened with and the settings changed since; the history
/// is its only memory.
#[derive(Debug)]
struct LocalConversation {
    opening: Mutex<Opening>,
    kept: Arc<Kept>,
}

impl Conversation for LocalConversation {
    fn commands(&self) -> Option<String> {
        Some(command::announcement())
    }

    fn moved(&self, config: SessionConfig) {
        let mut opening = lock(&self.opening);
        opening.config = config;
    }

    fn attach(&self, how: Attach) -> BoxFuture<'static, Result<Attached, EngineError>> {
        let opening = lock(&self.opening);
        let (history, config) = (opening.history.clone(), opening.config.clone());
        drop(opening);
        let kept = self.kept.clone();
        Box::pin(async move {
            if how == Attach::Elsewhere {
                return Ok(Chosen::elsewhere(&*history));
            }
            kept.start_servers(&config).await;
            let mut attached = kept.chosen.attached(&*history);
            let answers = [attached.answer.take(), kept.servers.report()];
            attached.answer = json::joined(answers.iter().flatten());
            Ok(attached)
        })
    }

    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<Ended, EngineError>> {
        let opening = lock(&self.opening);
        let opening = opening.clone();
        let kept = self.kept.clone();
        Box::pin(async move {
            if !kept.are_servers_started() {
                // Another process had the session open at that time.
                tokio::select! {
                    () = kept.start_servers(&opening.config) => {}
                    () = cancel.cancelled() => {}
                }
            }
            let turn = Turn::new(&opening, &kept, &prompt, &cancel);
            match answer(&turn).await {
                Ok(reason) => Ok(Ended::Because(reason)),
                Err(Stop::Cancelled) => Ok(Ended::Because(StopReason::Cancelled)),
                Err(Stop::Failed(error)) => Err(error),
            }
        })
    }

    fn part(&self, _: CloseReason) {
        let servers = self.kept.servers.clone();
        // The engine waits for this when it ends.
        tokio::spawn(async move { servers.end(Patience::EndOfInput).await });
    }

    fn call(
        &self,
        method: &str,
        params: String,
        _: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<Called, EngineError>> {
        let history = lock(&self.opening).history.clone();
        // Served here and not in a task, so that requests are served in their order.
        let called = self.kept.chosen.serve(&*history, method, &params);
        Box::pin(async move { called })
    }
}

/// Reports the failed MCP servers that the user has not been notified of.
async fn report_failures(turn: &Turn<'_>) -> Sent {
    match turn.servers().failures() {
        Some(text) => {
            let message = turn.begin(Voice::Answer);
            turn.chunk(&message, &update::Block::Text { text: &text })
                .await
        }
        None => Ok(()),
    }
}

/// Answers one prompt.
async fn answer(turn: &Turn<'_>) -> Done {
    let text = turn.prompt.text();
    let parsed = command::parse(&text);
    let lists = matches!(
        parsed,
        Parsed::Command {
            action: Action::Tools,
            ..
        }
    );
    if !lists {
        report_failures(turn).await?;
    }
    let done = answer_parsed(turn, parsed).await?;
    // Reports the servers that failed meanwhile.
    report_failures(turn).await?;
    Ok(done)
}

async fn answer_parsed(turn: &Turn<'_>, parsed: Parsed<'_>) -> Done {
    match parsed {
        Parsed::Plain => reply::plain(turn).await,
        Parsed::Unknown { word, alone: false } => reply::plain_with_hint(turn, word).await,
        Parsed::Unknown { word, alone: true } => reply::unknown(turn, word).await,
        Parsed::Command { action, rest } => match action {
            Action::Help => turn.say_all(&command::help()).await,
            Action::History => history::list(turn).await,
            Action::Recall => history::recall(turn, rest).await,
            Action::Echo => echo::run(turn).await,
            Action::Think => think::run(turn, rest).await,
            Action::Plan => plan::run(turn, rest).await,
            Action::Read => tools::read(turn, rest).await,
            Action::Write => tools::write(turn, rest).await,
            Action::Run => tools::run(turn, rest).await,
            Action::Tool => tool::run(turn, rest).await,
            Action::Image => image::run(turn).await,
            Action::Resource => resource::run(turn).await,
            Action::Tools => mcp::tools::run(turn, turn.servers()).await,
            Action::Call => mcp::call::run(turn, turn.servers(), rest).await,
            Action::Demo => showcase::run(turn, rest).await,
            Action::Slow => slow::run(turn, rest).await,
            Action::Flood => flood::run(turn, rest).await,
            Action::Fail => fail::run(turn, rest).await,
        },
    }
}
