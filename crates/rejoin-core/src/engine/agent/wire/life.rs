//! Whether an agent runs, and how it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::engine::EngineError;
use crate::engine::upstream::Patience;

use crate::engine::agent::process::transport::AgentTransport;

/// The life of an agent that was started.
#[derive(Debug)]
pub(in crate::engine::agent) struct AgentLife {
    transport: Arc<AgentTransport>,
    dead: watch::Sender<bool>,
    /// How many of our requests were pending when the agent ended.
    lost_requests: AtomicUsize,
    leaving: AtomicBool,
    /// Whether the agent is ended because it no longer took its input.
    is_deaf: AtomicBool,
}

impl AgentLife {
    /// The life of the agent with this transport.
    pub(super) fn new(transport: Arc<AgentTransport>) -> Self {
        Self {
            transport,
            dead: watch::Sender::new(false),
            lost_requests: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
        }
    }

    /// Whether the agent is being ended.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether the agent has ended.
    pub(in crate::engine::agent) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// Whether the agent is being ended, or has ended.
    pub(super) fn is_ending(&self) -> bool {
        self.is_leaving() || self.is_dead()
    }

    /// Resolves when the agent has ended.
    pub(in crate::engine::agent) async fn died(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let mut dead = self.dead.subscribe();
        dead.wait_for(|dead| *dead).await.ok();
    }

    /// Ends an agent that no longer takes its input, since it would answer nothing.
    pub(in crate::engine::agent) async fn end_when_deaf(&self) {
        tokio::select! {
            () = self.died() => {}
            () = self.transport.is_deaf() => {
                self.is_deaf.store(true, Ordering::Release);
                if !self.is_leaving() {
                    self.transport.end(Patience::EndOfInput).await;
                }
            }
        }
    }

    /// Ends the process of an agent whose output has ended, unless it is being ended already, with
    /// another time limit.
    pub(super) fn end_process(&self, runtime: &Handle) {
        if !self.is_leaving() {
            runtime.block_on(self.transport.end(Patience::EndOfInput));
            self.transport.kill();
        }
    }

    /// The agent has ended while so many of our requests were pending.
    pub(super) fn died_with(&self, lost_requests: usize) {
        self.lost_requests.store(lost_requests, Ordering::Release);
        self.dead.send_replace(true);
    }

    /// Ends the agent.
    pub(in crate::engine::agent) async fn end(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.end(patience).await;
    }

    /// Ends the agent because our own process is about to exit.
    pub(in crate::engine::agent) async fn leave(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.leave(patience).await;
    }

    /// Why the agent has ended, in one line.
    fn exit_reason(&self) -> String {
        let is_deaf = self.is_deaf.load(Ordering::Acquire);
        self.transport.exit_reason(is_deaf)
    }

    /// Why the agent has ended, if it is a process that was not ended by us.
    pub(super) fn unexpected_end(&self) -> Option<String> {
        let is_unexpected = self.transport.is_process() && !self.is_leaving();
        is_unexpected.then(|| self.exit_reason())
    }

    /// How an agent has ended that did not answer `initialize`, in one line.
    pub(in crate::engine::agent) fn startup_failure(&self) -> String {
        self.transport.startup_failure()
    }

    /// The error for requests that were pending when the agent ended.
    pub(in crate::engine::agent) fn ended_error(&self) -> EngineError {
        let message = if self.is_leaving() {
            "the agent was ended with the process that had started it".to_owned()
        } else {
            format!("the agent ended unexpectedly: {}", self.exit_reason())
        };
        let lines = self.transport.stderr_tail();
        let lines = (!lines.is_empty()).then(|| ("stderr".to_owned(), lines.join("\n").into()));
        EngineError::with(EngineError::INTERNAL, "agent_ended", message, lines)
    }

    /// Whether at most one request was pending when the agent ended.
    pub(in crate::engine::agent) fn ended_alone(&self) -> bool {
        self.lost_requests.load(Ordering::Acquire) <= 1
    }
}
