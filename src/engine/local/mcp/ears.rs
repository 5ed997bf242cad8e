//! Our side of a connection with an MCP server, as the server sees it: it can tell how far it is,
//! and is granted nothing.

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::broadcast;

/// How many reports of progress may wait; older ones are of no use.
const WAITING: usize = 16;

/// What listens to a server. Requests for a model's answer are refused and questions to the user
/// are declined, which is what the library does with them by itself.
#[derive(Clone, Debug)]
pub(super) struct Ears(broadcast::Sender<ProgressNotificationParam>);

impl Ears {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }

    /// What the server tells from now on of how far its calls are.
    pub(super) fn listen(&self) -> broadcast::Receiver<ProgressNotificationParam> {
        self.0.subscribe()
    }
}

impl ClientHandler for Ears {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Nobody may be listening.
        self.0.send(params).ok();
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
        // Later versions know no handshake; nearly every server still does.
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
