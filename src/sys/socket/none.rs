//! Systems without sockets.

use std::convert::Infallible;

use super::Stream;

/// A socket that was made, which none is.
#[derive(Debug)]
pub struct Listener(Infallible);

impl Listener {
    /// Waits for the next connection of a process of the same user.
    #[expect(clippy::unused_async, reason = "where there are sockets, it waits")]
    pub async fn accept(&mut self, _: &[u8]) -> Stream {
        match self.0 {}
    }
}
