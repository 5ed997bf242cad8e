//! Serves the connections of other processes, which come through this process's socket.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::time::Duration;

use crate::protocol::error::{INTERNAL_ERROR, error_json};
use crate::protocol::method::INITIALIZE;
use crate::session::link::{self, ATTACH};
use crate::sys::output::LineOutput;
use crate::sys::socket::{Listener, Stream};
use crate::transport::Received;
use crate::transport::message::response_line;

use super::connection::{Guest, serve_guest};
use super::control::{self, CONNECT, Connect, Connected};
use super::process::Process;

/// How long to wait before another attempt to make the socket.
const AGAIN: Duration = Duration::from_secs(5);

/// Makes the socket as soon as this process has a session, and serves it. Never ends.
pub(super) async fn listen(process: &Process) -> Infallible {
    let Some(store) = process.store() else {
        return std::future::pending().await;
    };
    process.owners().first().await;
    let mut listener = loop {
        match store.listen() {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::debug!(%error, "other processes cannot reach this one");
                if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) {
                    return std::future::pending().await;
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    };
    accept(process, &mut listener).await
}

/// Serves a socket. Never ends.
pub(super) async fn accept(process: &Process, listener: &mut Listener) -> Infallible {
    let refusal = refusal("it has no descriptors left: too many clients or sessions");
    loop {
        let stream = listener.accept(refusal.as_bytes()).await;
        tokio::spawn(serve_stream(process.clone(), stream));
    }
}

/// The answer to a connection that cannot be served.
fn refusal(why: &str) -> String {
    let message = format!(
        "process {} cannot serve another client: {why}",
        std::process::id()
    );
    response_line("null", &Err(error_json(INTERNAL_ERROR, &message)))
}

/// Serves one connection. Its first message says what it is for.
async fn serve_stream(process: Process, stream: Stream) {
    let output = LineOutput {
        waiting: stream.output,
        at_once: stream.at_once,
    };
    let (wire, mut incoming) = match process.connect(stream.input, output) {
        Ok(connected) => connected,
        Err(error) => return tracing::warn!(%error, "cannot serve another process"),
    };
    let Some(Received::Request(request)) = incoming.next().await else {
        return;
    };
    let (present, mut observes) = (process.client_comes(), false);
    let first = match request.method.as_str() {
        ATTACH if present.is_some() => {
            return link::serve(process.owners(), wire, incoming, request, stream.closer).await;
        }
        INITIALIZE if present.is_some() => Some(Received::Request(request)),
        CONNECT if present.is_some() => {
            let connect: Connect = serde_json::from_str(&request.params).unwrap_or_default();
            let connected = Connected {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            request
                .responder
                .answer(Ok(link::message::text(&connected)));
            observes = connect.observe;
            None
        }
        // A process that is about to end does not answer, so that the client finds the next one.
        ATTACH | INITIALIZE | CONNECT => return wire.requests.close(),
        _ => {
            drop(present);
            return control::serve(&process, &wire, request, incoming).await;
        }
    };
    let guest = Guest {
        wire,
        first,
        incoming,
        closer: Some(stream.closer),
        observes,
    };
    serve_guest(&process, guest).await;
}
