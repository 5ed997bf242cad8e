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
use crate::engine::upstream::Patience;
use crate::engine::{
    AttachOutcome, AttachReason, BoxFuture, Called, Cancel, CloseReason, Conversation, Engine,
    EngineError, Opening, Prompt, PromptEnd, SessionConfig, StopReason,
};
use crate::json;
use crate::protocol::Role;
use crate::record::CurrentSettings;
use crate::record::header::Implementation;
use crate::sys::lock;

use agent_client_protocol_schema::v1::ContentBlock;
use tokio::task::JoinSet;

use command::{DemoCommand, Parsed};
use mcp::McpServers;
use session::{SessionState, attached_elsewhere};
use settings::{DemoSettings, NAME};
use turn::{DemoTurn, Done, EarlyStop, Sent};

/// The built-in engine.
#[derive(Clone, Debug, Default)]
pub struct LocalEngine {
    launch: Launch,
    /// The MCP servers of all open sessions, and of some that were closed.
    servers: Arc<Mutex<Vec<Weak<McpServers>>>>,
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

    fn recorded_options(&self, settings: &CurrentSettings) -> String {
        DemoSettings::restored(settings).answer()
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

    fn attach(&self, how: AttachReason) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        let mut opening = lock(&self.opening);
        let (history, config) = (opening.history.clone(), opening.config.clone());
        if how != AttachReason::Elsewhere {
            opening.config.remove_given_options();
        }
        drop(opening);
        let session = self.session.clone();
        Box::pin(async move {
            if how == AttachReason::Elsewhere {
                return Ok(attached_elsewhere(&*history));
            }
            session.start_servers(&config).await;
            let mut attached = session.attached(&*history, config.given_options().as_deref());
            let answers = [attached.answer.take(), session.servers.report()];
            attached.answer = json::joined(answers.iter().flatten());
            Ok(attached)
        })
    }

    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<PromptEnd, EngineError>> {
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
            let turn = DemoTurn {
                prompt: &prompt,
                opening: &opening,
                session: &session,
                cancel: &cancel,
            };
            match answer(&turn).await {
                Ok(reason) => Ok(PromptEnd::Because(reason)),
                Err(EarlyStop::Cancelled) => Ok(PromptEnd::Because(StopReason::Cancelled)),
                Err(EarlyStop::Failed(error)) => Err(error),
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
async fn report_failures(turn: &DemoTurn<'_>) -> Sent {
    match turn.session.servers.failures() {
        Some(text) => {
            let message = turn.begin(Role::Agent);
            turn.chunk(&message, &ContentBlock::from(text)).await
        }
        None => Ok(()),
    }
}

/// Answers one prompt.
async fn answer(turn: &DemoTurn<'_>) -> Done {
    let text = turn.prompt.text();
    let parsed = command::parse(&text);
    // `/tools` lists the failed servers itself.
    if !matches!(
        &parsed,
        Parsed::Command {
            command: DemoCommand::Tools,
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
async fn run(turn: &DemoTurn<'_>, command: DemoCommand, rest: &str) -> Done {
    match command {
        DemoCommand::Help => turn.say_all(&command::help()).await,
        DemoCommand::History => history::list(turn).await,
        DemoCommand::Recall => history::recall(turn, rest).await,
        DemoCommand::Echo => history::echo(turn).await,
        DemoCommand::Read => tools::read(turn, rest).await,
        DemoCommand::Write => tools::write(turn, rest).await,
        DemoCommand::Run => tools::run(turn, rest).await,
        DemoCommand::Think => showcase::think(turn, rest).await,
        DemoCommand::Plan => showcase::plan(turn, rest).await,
        DemoCommand::Tool => simulated_tool::run(turn, rest).await,
        DemoCommand::Image => showcase::image(turn).await,
        DemoCommand::Resource => showcase::resource(turn).await,
        DemoCommand::Tools => mcp::list_tools(turn).await,
        DemoCommand::Call => mcp::call_tool(turn, rest).await,
        DemoCommand::Demo => showcase::demo(turn, rest).await,
        DemoCommand::Slow => stress::slow(turn, rest).await,
        DemoCommand::Flood => stress::flood(turn, rest).await,
        DemoCommand::Fail => stress::fail(turn, rest).await,
    }
}
