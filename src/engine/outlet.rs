//! The channel an engine speaks through, with its counterpart that tells it to stop.

use tokio::sync::{mpsc, watch};

/// How many updates may wait to be logged. Small: an engine that is faster than log and client
/// shall wait, not fill memory.
const WAITING: usize = 16;

/// Where an engine puts updates.
#[derive(Clone, Debug)]
pub struct Outlet(mpsc::Sender<String>);

/// The session takes no more updates: the turn is over or its log cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session takes no more updates")]
pub struct Closed;

impl Outlet {
    /// An outlet and the end that receives what is put into it.
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Sends one update: the JSON text of the `update` object, which must be one line.
    pub async fn update(&self, update: String) -> Result<(), Closed> {
        self.0.send(update).await.map_err(|_| Closed)
    }
}

/// Told to an engine when the client no longer wants the answer.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<bool>);

/// The other end of a [`Cancel`]. Dropping it does not cancel.
#[derive(Debug)]
pub struct Canceller(watch::Sender<bool>);

impl Cancel {
    /// A pair that is not cancelled yet.
    pub fn new() -> (Canceller, Self) {
        let (sender, receiver) = watch::channel(false);
        (Canceller(sender), Self(receiver))
    }

    /// Whether the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the turn is cancelled; for ever if it never is.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Canceller {
    /// Cancels the turn.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
