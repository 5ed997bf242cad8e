//! Requests of other processes of the same user to this one: to describe itself, and to stop.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::json;
use crate::protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND, error_json};
use crate::session::link::message::text;
use crate::sys::SessionId;
use crate::transport::{ClientConnection, Incoming, IncomingRequest, Outcome, Received};

use super::process::Process;

/// Asks what the process has: answered with [`ProcessDescription`].
pub const PROCESSES: &str = "_rejoin/processes";
/// Asks it to close a session, or all that it has: [`StopRequest`], answered with [`Stopped`].
pub const STOP: &str = "_rejoin/stop";
/// Asks whether the process is alive, which it answers at once.
pub use crate::session::link::message::ALIVE;
/// How long a process that is alive takes at most to answer.
pub use crate::session::link::message::ANSWER;

/// Begins a connection of a client that comes through another process: [`Connect`], answered with
/// [`Connected`].
pub const CONNECT: &str = "_rejoin/connect";

/// How long one who asks may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process that connects, for a client of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// Its release.
    pub version: String,
    /// Whether the client only looks on.
    pub observe: bool,
}

/// The process that serves the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connected {
    /// Its release.
    pub version: String,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessDescription {
    /// Its id.
    pub pid: u32,
    /// Its release.
    pub version: String,
    /// When it began.
    pub since: String,
    /// Whether the process is a host.
    pub host: bool,
    /// Its clients.
    pub clients: Vec<DescribedClient>,
}

/// A client of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DescribedClient {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// When it came.
    pub since: String,
    /// The sessions that it has open.
    pub sessions: Vec<String>,
}

/// A request to stop sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StopRequest {
    /// The session; without one, all of them, and the process if it is a host.
    pub session_id: Option<String>,
}

/// The outcome of a request to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stopped {
    /// The sessions.
    pub sessions: Vec<String>,
    /// The sessions whose turns did not end in time.
    pub pending: Vec<String>,
    /// Whether the process ends, too.
    pub ends: bool,
}

/// Serves such requests until there are no more.
pub(super) async fn serve(
    process: &Process,
    wire: &ClientConnection,
    first: IncomingRequest,
    mut incoming: Incoming,
) {
    let mut next = Some(Received::Request(first));
    while let Some(received) = next {
        if let Received::Request(request) = received {
            let (outcome, ends) = match request.method.as_str() {
                ALIVE => (Ok("{}".to_owned()), false),
                PROCESSES => (Ok(text(&process.describe())), false),
                STOP => stop(process, &request.params).await,
                method => {
                    let message = format!("unknown method {}", json::quoted(method));
                    (Err(error_json(METHOD_NOT_FOUND, &message)), false)
                }
            };
            request.responder.answer(outcome);
            if ends {
                // The one who asks gets its answer first, if it reads.
                timeout(PATIENCE, wire.writer.written()).await.ok();
                process.ask_to_end();
            }
        }
        next = incoming.next().await;
    }
}

/// Stops a session, or all of them. Whether the process ends then.
async fn stop(process: &Process, params: &str) -> (Outcome, bool) {
    let stop: StopRequest = serde_json::from_str(params).unwrap_or_default();
    let stopped = match stop.session_id.as_deref().map(SessionId::parse) {
        Some(None) => {
            let error = error_json(INVALID_PARAMS, "there is no such session");
            return (Err(error), false);
        }
        Some(Some(id)) => process.stop_session(&id).await,
        None => process.stop_all().await,
    };
    (Ok(text(&stopped)), stopped.ends)
}
