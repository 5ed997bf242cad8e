//! The messages to the task of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::transport::FlowPermit;

use super::link::feed::LinkCommand;
use super::outcome::Refusal;
use super::reply::Reply;
use super::request::{Leaving, Request};
use crate::store::LogReader;

/// The size of a command in a mailbox, roughly, in bytes: it counts in the flow of a connection.
pub(super) const COMMAND: usize = 512;

/// A message to the task of a session.
#[derive(Debug)]
pub(super) enum Command {
    /// A request of the client. Its size counts in the connection's flow until it is read.
    Request(Request<Reply>, FlowPermit),
    /// A request to fork another session, with the log of that one.
    Fork(Request<Reply>, ForkSource, FlowPermit),
    /// Another session is forked from this one.
    ReadForFork(ForkReader, FlowPermit),
    /// A message of the front in another task whose link has this number.
    Link(u64, LinkCommand, FlowPermit),
    /// The client has gone, and the process goes on.
    Detach,
    /// Close the session for all its clients.
    Stop(Reply),
    /// Notify when everything that was sent before has begun.
    Barrier(oneshot::Sender<()>),
    /// Notify when everything that was sent before has been taken, begun or not.
    Taken(oneshot::Sender<()>),
}

/// Where the log of a session goes that another one is forked from.
pub(super) type ForkReader = oneshot::Sender<Result<LogReader, Refusal>>;

/// The log of a session that is to be forked, as soon as its task has opened it.
pub(super) type ForkSource = oneshot::Receiver<Result<LogReader, Refusal>>;

/// The messages to one task, in order.
pub(super) type Mailbox = mpsc::UnboundedReceiver<Command>;

/// How many messages that end the running turns a task has not read yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct UnreadEnds(Arc<AtomicUsize>);

impl UnreadEnds {
    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// A message was sent.
    pub(super) fn sent(&self, command: &Command) {
        if command.ends_turns() {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The task has read a message.
    pub(super) fn read(&self, command: &Command) {
        if command.ends_turns() {
            // A link's is not counted when it is sent.
            let fewer = |unread: usize| unread.checked_sub(1);
            self.0
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
                .ok();
        }
    }
}

impl Command {
    /// Whether it cancels the turns that run, and those that wait for them.
    fn ends_turns(&self) -> bool {
        match self {
            Self::Request(Request::Cancel { .. } | Request::Leave(Leaving::Client { .. }), _)
            | Self::Stop(_) => true,
            Self::Request(request, _) => request.cancels_turns(),
            _ => false,
        }
    }

    /// Whether nobody wants to wait long for what the session does at the moment.
    pub(super) fn hurries(&self) -> bool {
        let leaves_or_withdraws = matches!(
            self,
            Self::Request(Request::Leave(_) | Request::WithdrawPrompt(_), _) | Self::Detach
        );
        leaves_or_withdraws || self.ends_turns()
    }
}
