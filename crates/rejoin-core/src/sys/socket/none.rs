//! Systems without sockets.

use std::convert::Infallible;

use tokio::io::DuplexStream;

use super::Stream;

/// A connection, which does not exist.
pub type Local = DuplexStream;

/// A socket that was made, which none is.
#[derive(Debug)]
pub struct Listener(Infallible);

impl Listener {
    /// Waits for the next connection of a process of the same user.
    #[expect(clippy::unused_async, reason = "where there are sockets, it waits")]
    pub async fn accept(&mut self, _: &[u8]) -> Stream {
        match self.0 {}
    }

    /// Waits for it in a runtime.
    #[expect(clippy::unused_async, reason = "where there are sockets, it waits")]
    pub async fn accept_local(&mut self, _: &[u8]) -> Local {
        match self.0 {}
    }
}
