//! Whether a session is open, and which request is opening it.

use std::mem;

use crate::engine::AttachOutcome;

/// Whether the session is open, or the request that creates, loads or resumes it. All other requests
/// wait for that one.
#[derive(Debug)]
pub(super) enum Lifecycle<R> {
    /// Not open.
    Closed,
    /// Open; requests are served.
    Open,
    /// The engine attaches.
    Attaching {
        reply: R,
        request: AttachRequest,
        /// Whether the engine was asked to stop, since the session is to be closed.
        aborted: bool,
    },
    /// A load replays the log.
    Replaying { reply: R, session: Opened },
    /// A load replays what was logged meanwhile. The engine has attached, with this part of the answer.
    CatchingUp {
        reply: R,
        answer: Option<String>,
        was_open: bool,
    },
}

/// The request that waits for the engine to attach.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttachRequest {
    /// A new session.
    New,
    /// A session made from another one.
    Fork,
    /// A session that only the engine's agent has, and whether to replay it.
    Import { replay: bool },
    /// A load whose replay follows, since the engine may want its user to sign in first.
    BeforeReplay,
    /// A load whose replay has reached the end that the log had when it began.
    AfterReplay { was_open: bool },
    /// A session that continues without a replay.
    Resume { was_open: bool },
}

/// When the session of a load was opened.
#[derive(Debug)]
pub(super) enum Opened {
    /// During the replay: the log is read once for both.
    NotYet,
    /// For this load, but before the replay; with the engine's answer if it has attached.
    ForLoad(Option<Box<AttachOutcome>>),
    /// Before the load.
    BeforeLoad,
}

impl<R> Lifecycle<R> {
    /// The engine begins to attach.
    pub(super) fn attaching(reply: R, request: AttachRequest) -> Self {
        Self::Attaching {
            reply,
            request,
            aborted: false,
        }
    }

    /// Whether log and engine are open.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Open | Self::Attaching { .. } | Self::CatchingUp { .. } => true,
            Self::Replaying { session, .. } => !matches!(session, Opened::NotYet),
        }
    }

    /// Whether a request creates, loads or resumes the session.
    pub(super) fn is_changing(&self) -> bool {
        !matches!(self, Self::Closed | Self::Open)
    }

    /// Whether a request loads a session that was open before.
    pub(super) fn is_load_of_open(&self) -> bool {
        self.is_changing() && self.was_open()
    }

    /// Whether a request creates or opens the session.
    pub(super) fn is_opening(&self) -> bool {
        self.is_changing() && !self.was_open()
    }

    /// Whether the session is being created, so that it has no log yet.
    pub(super) fn is_being_created(&self) -> bool {
        use AttachRequest::{Fork, Import, New};
        let Self::Attaching { request, .. } = self else {
            return false;
        };
        matches!(request, New | Fork | Import { .. })
    }

    /// The load under way. Nothing is sent live until it is answered.
    pub(super) fn load_under_way(&self) -> Option<&R> {
        use AttachRequest::{AfterReplay, BeforeReplay};
        match self {
            Self::Replaying { reply, .. }
            | Self::CatchingUp { reply, .. }
            | Self::Attaching {
                reply,
                request: BeforeReplay | AfterReplay { .. },
                ..
            } => Some(reply),
            _ => None,
        }
    }

    /// Marks the engine as asked to stop. False if it was already, or is not attaching.
    pub(super) fn abort(&mut self) -> bool {
        match self {
            Self::Attaching { aborted, .. } => !mem::replace(aborted, true),
            _ => false,
        }
    }

    /// Whether the session was open before the request under way.
    pub(super) fn was_open(&self) -> bool {
        use AttachRequest::{AfterReplay, Resume};
        match self {
            Self::Open => true,
            Self::Closed => false,
            Self::Replaying { session, .. } => matches!(session, Opened::BeforeLoad),
            Self::CatchingUp { was_open, .. } => *was_open,
            Self::Attaching { request, .. } => match request {
                AfterReplay { was_open } | Resume { was_open } => *was_open,
                _ => false,
            },
        }
    }

    /// Ends the request under way. Returns where its answer goes.
    pub(super) fn end(&mut self, now: Self) -> Option<R> {
        match mem::replace(self, now) {
            Self::Closed | Self::Open => None,
            Self::Replaying { reply, .. }
            | Self::Attaching { reply, .. }
            | Self::CatchingUp { reply, .. } => Some(reply),
        }
    }
}
