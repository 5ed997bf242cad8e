//! The built-in engine: deterministic answers without a model or a network.
//!
//! Plain text is answered from the conversation itself, so that a person sees at once whether an
//! earlier context is back. Slash commands show every kind of update, for people who build or
//! test clients. `docs/local-engine.md` is the reference.

mod always;
mod args;
mod chosen;
mod command;
mod demo;
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
    Attach, Attached, Called, Cancel, Conversation, Doing, Ended, Engine, EngineError, Opening,
    Parting, Prompt, StopReason, Wanted,
};
use crate::record::header::Party;
use crate::record::json;
use crate::sys::lock;

use tokio::task::JoinSet;

use command::{Action, Parsed};
use kept::Kept;
use mcp::Servers;
use settings::NAME;
use turn::{Done, Stop, Turn};

/// The engine that is built in.
#[derive(Clone, Debug, Default)]
pub struct LocalEngine {
    guard: Option<PathBuf>,
    /// The MCP servers of all sessions that are open, and of some that are not any more.
    servers: Arc<Mutex<Vec<Weak<Servers>>>>,
}

impl LocalEngine {
    /// The engine; it keeps nothing of a session that is closed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same. `guard` is the program that [guards](crate::engine::process::guard) the processes
    /// that it starts.
    pub fn guarded_by(guard: Option<PathBuf>) -> Self {
        Self {
            guard,
            servers: Arc::default(),
        }
    }
}

impl Engine for LocalEngine {
    fn identity(&self) -> Party {
        Party {
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

    fn leave(&self, patience: Patience) -> Doing<'static, ()> {
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

/// One session. All it knows is what it was opened with, and what was chosen since: the history is
/// the only memory.
#[derive(Debug)]
struct LocalConversation {
    opening: Mutex<Opening>,
    kept: Arc<Kept>,
}

impl Conversation for LocalConversation {
    fn commands(&self) -> Option<String> {
        Some(command::announcement())
    }

    fn moved(&self, wanted: Wanted) {
        let mut opening = lock(&self.opening);
        opening.wanted = wanted;
    }

    fn attach(&self, _: Attach) -> Doing<'static, Result<Attached, EngineError>> {
        let opening = lock(&self.opening);
        let (history, wanted) = (opening.history.clone(), opening.wanted.clone());
        drop(opening);
        let kept = self.kept.clone();
        Box::pin(async move {
            kept.servers.want(&wanted);
            kept.servers.settle().await;
            let mut attached = kept.chosen.attached(&*history);
            let answers = [attached.answer.take(), kept.servers.report()];
            attached.answer = json::joined(answers.iter().flatten());
            Ok(attached)
        })
    }

    fn prompt(&self, prompt: Prompt, cancel: Cancel) -> Doing<'static, Result<Ended, EngineError>> {
        let opening = lock(&self.opening);
        let opening = opening.clone();
        let kept = self.kept.clone();
        Box::pin(async move {
            let turn = Turn::new(&opening, &kept, &prompt, &cancel);
            match answer(&turn).await {
                Ok(reason) => Ok(Ended::Because(reason)),
                Err(Stop::Cancelled) => Ok(Ended::Because(StopReason::Cancelled)),
                Err(Stop::Failed(error)) => Err(error),
            }
        })
    }

    fn part(&self, _: Parting) {
        let servers = self.kept.servers.clone();
        // The engine waits for that when it is left.
        tokio::spawn(async move { servers.end(Patience::EndOfInput).await });
    }

    fn call(
        &self,
        method: &str,
        params: String,
        _: Doing<'static, ()>,
    ) -> Doing<'static, Result<Called, EngineError>> {
        let history = lock(&self.opening).history.clone();
        // Done here and not in a task: what is asked for first comes first.
        let called = self.kept.chosen.serve(&*history, method, &params);
        Box::pin(async move { called })
    }
}

/// Answers one prompt by what its text asks for.
async fn answer(turn: &Turn<'_>) -> Done {
    let text = turn.prompt.text();
    match command::parse(&text) {
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
            Action::Demo => demo::run(turn, rest).await,
            Action::Slow => slow::run(turn, rest).await,
            Action::Flood => flood::run(turn, rest).await,
            Action::Fail => fail::run(turn, rest).await,
        },
    }
}
