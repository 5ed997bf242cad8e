//! An engine that does what a test asks for, and reports to the test what it is asked for.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use rejoin::engine::{
    AttachOutcome, AttachReason, BoxFuture, Called, Caller, Cancel, CloseReason, Conversation,
    Engine, EngineError, InitializeOutcome, Introduction, Opening, Outlet, Prompt, PromptEnd,
    SessionConfig, Upstream,
};
use rejoin::record::header::Implementation;
use rejoin::transport::ClientConnection;
use tokio::sync::oneshot;

/// Where the test puts what becomes of something.
pub(super) type Responder<T> = oneshot::Sender<Result<T, EngineError>>;

/// What the engine is asked for.
#[derive(Debug)]
pub(super) enum Event {
    Attach(AttachReason, Outlet, Responder<AttachOutcome>),
    Prompt(Responder<PromptEnd>),
    Call(String, Responder<Called>),
    Part(CloseReason),
}

/// The engine.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) tell: Arc<Mutex<Sender<Event>>>,
    /// Whether there is an agent behind it, which may know every session.
    pub(super) wraps: bool,
}

struct Session {
    out: Outlet,
    tell: Arc<Mutex<Sender<Event>>>,
}

impl Session {
    fn tell(&self, event: Event) {
        let tell = self.tell.lock().expect("no thread panics with it");
        tell.send(event).expect("the test listens");
    }

    fn ask<T: Send + 'static>(
        &self,
        event: impl FnOnce(Responder<T>) -> Event,
    ) -> BoxFuture<'static, Result<T, EngineError>> {
        let (responder, telling) = oneshot::channel();
        self.tell(event(responder));
        Box::pin(async { telling.await.expect("the test decides") })
    }
}

impl Engine for Scripted {
    fn identity(&self) -> Implementation {
        Implementation {
            name: "scripted".to_owned(),
            version: None,
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        Arc::new(Session {
            out: opening.out,
            tell: self.tell.clone(),
        })
    }

    fn upstream(&self) -> Option<&dyn Upstream> {
        self.wraps.then_some(self)
    }
}

impl Upstream for Scripted {
    fn connect(&self, _: Arc<ClientConnection>) {}

    fn initialize(&self, _: Introduction) -> BoxFuture<'static, InitializeOutcome> {
        Box::pin(async { InitializeOutcome::Answered(Ok("{}".to_owned())) })
    }

    fn call(
        &self,
        _: Caller,
        method: &str,
        _: &str,
        _: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let error = EngineError::unknown_method(method);
        Box::pin(async { Err(error) })
    }

    fn notify(&self, _: &str, _: &str) {}

    fn is_subagent(&self, _: &str) -> bool {
        false
    }

    fn cancel_subagent(&self, _: &str, _: &str) {}

    fn may_have_sessions(&self) -> bool {
        true
    }
}

impl Conversation for Session {
    fn commands(&self) -> Option<String> {
        None
    }

    fn reconfigure(&self, _: SessionConfig) {}

    fn attach(&self, how: AttachReason) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        if how == AttachReason::Elsewhere {
            // Nothing is asked of the engine then.
            return Box::pin(async { Ok(AttachOutcome::default()) });
        }
        let out = self.out.clone();
        self.ask(|responder| Event::Attach(how, out, responder))
    }

    fn prompt(&self, _: Prompt, _: Cancel) -> BoxFuture<'static, Result<PromptEnd, EngineError>> {
        self.ask(Event::Prompt)
    }

    fn call(
        &self,
        method: &str,
        _: String,
        _: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<Called, EngineError>> {
        let method = method.to_owned();
        self.ask(|responder| Event::Call(method, responder))
    }

    fn close(&self, how: CloseReason) {
        self.tell(Event::Part(how));
    }
}
