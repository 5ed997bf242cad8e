//! Our side of a connection with an MCP server: it receives progress and grants nothing.

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::broadcast;

/// How many progress notifications may wait; older ones are dropped.
const WAITING: usize = 16;

/// Handles a server's notifications. The library by itself rejects sampling requests and declines
/// elicitation.
#[derive(Clone, Debug)]
pub(super) struct ProgressHandler(broadcast::Sender<ProgressNotificationParam>);

impl ProgressHandler {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }

    /// Subscribes to the progress of calls.
    pub(super) fn listen(&self) -> broadcast::Receiver<ProgressNotificationParam> {
        self.0.subscribe()
    }
}

impl ClientHandler for ProgressHandler {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // It fails if there are no subscribers.
        self.0.send(params).ok();
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
        // Later versions have no handshake; nearly every server still requires it.
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
