//! Serves the connections of other processes, which come through this process's socket.

use std::io;

use crate::protocol::method::INITIALIZE;
use crate::session::link::{self, ATTACH};
use crate::sys::output::Output;
use crate::sys::socket::{Listener, Stream};
use crate::transport::Received;

use super::connection::{Guest, serve_guest};
use super::control::{self, CONNECT, Connect, Connected};
use super::process::Process;

/// Makes the socket as soon as this process has a session, and serves it. Never ends.
pub(super) async fn listen(process: &Process) {
    if let Some(store) = process.store() {
        process.owners().first().await;
        let served = match store.listen() {
            Ok(mut listener) => accept(process, &mut listener).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::debug!(%error, "other processes cannot reach this one");
        }
    }
    std::future::pending::<()>().await;
}

/// Serves a socket, until that fails.
pub(super) async fn accept(process: &Process, listener: &mut Listener) -> io::Result<()> {
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(serve_stream(process.clone(), stream));
    }
}

/// Serves one connection. Its first message says what it is for.
async fn serve_stream(process: Process, stream: Stream) {
    let output = Output {
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
                .answer(&Ok(link::message::text(&connected)));
            observes = connect.observe;
            None
        }
        // One that is about to end does not answer, so that the client finds the next one.
        ATTACH | INITIALIZE | CONNECT => return,
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
