//! Serves the connections of other processes, which come through this process's socket.

use std::io;

use crate::protocol::method::INITIALIZE;
use crate::session::link::{self, ATTACH};
use crate::sys::socket::Stream;
use crate::transport::Received;

use super::connection::serve_guest;
use super::process::Process;

/// Makes the socket as soon as this process has a session, and serves it. Never ends.
pub(super) async fn listen(process: &Process) {
    if process.store().is_some() {
        process.owners().first().await;
        if let Err(error) = accept(process).await {
            tracing::debug!(%error, "other processes cannot reach this one");
        }
    }
    std::future::pending::<()>().await;
}

/// Makes the socket and serves it, until that fails.
pub(super) async fn accept(process: &Process) -> io::Result<()> {
    let Some(store) = process.store() else {
        return Ok(());
    };
    let mut listener = store.listen()?;
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(serve_stream(process.clone(), stream));
    }
}

/// Serves one connection. Its first message says what it is for.
async fn serve_stream(process: Process, stream: Stream) {
    let (wire, mut incoming) = match process.connect(stream.input, stream.output) {
        Ok(connected) => connected,
        Err(error) => return tracing::warn!(%error, "cannot serve another process"),
    };
    match incoming.next().await {
        Some(Received::Request(request)) if request.method == ATTACH => {
            link::serve(process.owners(), wire, incoming, request, stream.closer).await;
        }
        Some(first @ Received::Request(_)) if is_initialize(&first) => {
            serve_guest(&process, wire, Some(first), incoming).await;
            drop(stream.closer);
        }
        Some(_) => tracing::debug!("an unknown first message"),
        None => {}
    }
}

fn is_initialize(message: &Received) -> bool {
    matches!(message, Received::Request(request) if request.method == INITIALIZE)
}
