//! What other processes of the same user ask this one about itself: what it has, and to stop it.

use serde::{Deserialize, Serialize};

use crate::json;
use crate::protocol::error::{INVALID_PARAMS, METHOD_NOT_FOUND, error_json};
use crate::session::link::message::text;
use crate::sys::SessionId;
use crate::transport::{Incoming, Outcome, Received, Request};

use super::process::Process;

/// Asks what the process has: answered with [`Described`].
pub const PROCESSES: &str = "_rejoin/processes";
/// Asks it to close a session, or all that it has: [`Stop`], answered with [`Stopped`].
pub const STOP: &str = "_rejoin/stop";
/// Begins a connection of a client that comes through another process: [`Connect`], answered with
/// [`Connected`].
pub const CONNECT: &str = "_rejoin/connect";

/// Who comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// Its release.
    pub version: String,
    /// Whether its client only looks on.
    pub observe: bool,
}

/// Who serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connected {
    /// Its release.
    pub version: String,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Described {
    /// Its id.
    pub pid: u32,
    /// Its release.
    pub version: String,
    /// When it began.
    pub since: String,
    /// Whether it is a host.
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

/// What to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stop {
    /// The session; without one, all of them, and the process if it is a host.
    pub session_id: Option<String>,
}

/// What was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stopped {
    /// The sessions.
    pub sessions: Vec<String>,
    /// Whether the process ends, too.
    pub ends: bool,
}

/// Serves such requests until there are no more.
pub(super) async fn serve(process: &Process, first: Request, mut incoming: Incoming) {
    let mut next = Some(Received::Request(first));
    while let Some(received) = next {
        if let Received::Request(request) = received {
            let outcome = answer(process, &request.method, &request.params).await;
            request.responder.answer(&outcome);
        }
        next = incoming.next().await;
    }
}

async fn answer(process: &Process, method: &str, params: &str) -> Outcome {
    match method {
        PROCESSES => Ok(text(&process.describe())),
        STOP => {
            let stop: Stop = serde_json::from_str(params).unwrap_or_default();
            let id = stop.session_id.as_deref().map(SessionId::parse);
            match id {
                Some(None) => Err(error_json(INVALID_PARAMS, "there is no such session")),
                Some(Some(id)) => Ok(text(&process.stop_session(&id).await)),
                None => Ok(text(&process.stop_all().await)),
            }
        }
        _ => Err(error_json(
            METHOD_NOT_FOUND,
            &format!("unknown method {}", json::quoted(method)),
        )),
    }
}
