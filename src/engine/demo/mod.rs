//! The built-in engine: deterministic answers without a model or a network.
//!
//! Plain text is answered from the conversation itself, so that a user sees at once whether earlier
//! context was restored. Slash commands show every kind of update, for people who build or test
//! clients. `docs/local-engine.md` is the reference.

mod args;
mod command;
mod describe;
mod history;
mod mcp;
mod reply;
mod session;
mod settings;
mod showcase;
mod simulated_tool;
mod stress;
mod tool_call;
mod tools;
mod turn;

use std::sync::{Arc, Mutex, Weak};

use crate::engine::process::Launch;
use crate::engine::relay::Patience;
use crate::engine::{
    Attach, Attached, BoxFuture, Called, Cancel, CloseReason, Conversation, Ended, Engine,
    EngineError, Opening, Prompt, SessionConfig, StopReason,
};
use crate::json;
use crate::protocol::Role;
use crate::record::header::Implementation;
use crate::sys::lock;

use agent_client_protocol_schema::v1::ContentBlock;
use tokio::task::JoinSet;

use command::{Command, Parsed};
use mcp::Servers;
use session::{SessionState, attached_elsewhere};
use settings::NAME;
use turn::{Done, Sent, Stop, Turn};

/// The built-in engine.
#[derive(Clone, Debug, Default)]
pub struct LocalEngine {
    launch: Launch,
    /// The MCP servers of all open sessions, and of some that were closed.
    servers: Arc<Mutex<Vec<Weak<Servers>>>>,
}

impl LocalEngine {
    /// A new engine. It keeps no state of closed sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new engine that starts its processes like this.
    pub fn launching(launch: Launch) -> Self {
        Self {
            launch,
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
        let session = Arc::new(SessionState::new(self.launch.clone()));
        let mut all = lock(&self.servers);
        all.retain(|servers| servers.strong_count() > 0);
        all.push(Arc::downgrade(&session.servers));
        drop(all);
        let opening = Mutex::new(opening);
        Arc::new(LocalConversation { opening, session })
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

/// An open session.
#[derive(Debug)]
struct LocalConversation {
    opening: Mutex<Opening>,
    session: Arc<SessionState>,
}

impl Conversation for LocalConversation {
    fn commands(&self) -> Option<String> {
        Some(command::announcement())
    }

    fn reconfigure(&self, config: SessionConfig) {
        lock(&self.opening).config = config;
    }

    fn attach(&self, how: Attach) -> BoxFuture<'static, Result<Attached, EngineError>> {
        let opening = lock(&self.opening);
        let (history, config) = (opening.history.clone(), opening.config.clone());
        drop(opening);
        let session = self.session.clone();
        Box::pin(async move {
            if how == Attach::Elsewhere {
                return Ok(attached_elsewhere(&*history));
            }
            session.start_servers(&config).await;
            let mut attached = session.attached(&*history);
            let answers = [attached.answer.take(), session.servers.report()];
            attached.answer = json::joined(answers.iter().flatten());
            Ok(attached)
        })
    }

    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<Ended, EngineError>> {
        let opening = lock(&self.opening).clone();
        let session = self.session.clone();
        Box::pin(async move {
            if !session.are_servers_started() {
                // When the session was opened, another process had it open.
                tokio::select! {
                    () = session.start_servers(&opening.config) => {}
                    () = cancel.cancelled() => {}
                }
            }
            let turn = Turn {
                prompt: &prompt,
                opening: &opening,
                session: &session,
                cancel: &cancel,
            };
            match answer(&turn).await {
                Ok(reason) => Ok(Ended::Because(reason)),
                Err(Stop::Cancelled) => Ok(Ended::Because(StopReason::Cancelled)),
                Err(Stop::Failed(error)) => Err(error),
            }
        })
    }

    fn close(&self, _: CloseReason) {
        let servers = self.session.servers.clone();
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
        let called = self.session.serve(&*history, method, &params);
        Box::pin(async move { called })
    }
}

/// Reports the failed MCP servers that the user has not been notified of.
async fn report_failures(turn: &Turn<'_>) -> Sent {
    match turn.session.servers.failures() {
        Some(text) => {
            let message = turn.begin(Role::Agent);
            turn.chunk(&message, &ContentBlock::from(text)).await
        }
        None => Ok(()),
    }
}

/// Answers one prompt.
async fn answer(turn: &Turn<'_>) -> Done {
    let text = turn.prompt.text();
    let parsed = command::parse(&text);
    // `/tools` lists the failed servers itself.
    if !matches!(
        &parsed,
        Parsed::Command {
            command: Command::Tools,
            ..
        }
    ) {
        report_failures(turn).await?;
    }
    let done = match parsed {
        Parsed::Plain => reply::plain(turn).await,
        Parsed::Unknown { word, alone: false } => reply::plain_with_hint(turn, word).await,
        Parsed::Unknown { word, alone: true } => reply::unknown(turn, word).await,
        Parsed::Command { command, rest } => run(turn, command, rest).await,
    }?;
    // Reports the servers that failed meanwhile.
    report_failures(turn).await?;
    Ok(done)
}

/// Runs one command; `rest` is the text after its name.
async fn run(turn: &Turn<'_>, command: Command, rest: &str) -> Done {
    match command {
        Command::Help => turn.say_all(&command::help()).await,
        Command::History => history::list(turn).await,
        Command::Recall => history::recall(turn, rest).await,
        Command::Echo => history::echo(turn).await,
        Command::Read => tools::read(turn, rest).await,
        Command::Write => tools::write(turn, rest).await,
        Command::Run => tools::run(turn, rest).await,
        Command::Think => showcase::think(turn, rest).await,
        Command::Plan => showcase::plan(turn, rest).await,
        Command::Tool => simulated_tool::run(turn, rest).await,
        Command::Image => showcase::image(turn).await,
        Command::Resource => showcase::resource(turn).await,
        Command::Tools => mcp::list_tools(turn).await,
        Command::Call => mcp::call_tool(turn, rest).await,
        Command::Demo => showcase::demo(turn, rest).await,
        Command::Slow => stress::slow(turn, rest).await,
        Command::Flood => stress::flood(turn, rest).await,
        Command::Fail => stress::fail(turn, rest).await,
    }
}
