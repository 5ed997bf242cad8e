//! Streamable HTTP: each message is a request of its own, answered with JSON, or, for clients with a
//! header `X-Events`, with a stream of events that ends at once and is continued by another one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::serve::Server;

/// Serves until the process is ended; its address is written to a file.
pub(crate) fn serve(mut server: Server, file: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    std::fs::write(file, format!("http://{address}/mcp")).expect("the address can be written");
    let mut events = Vec::new();
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        // A client that goes away has its reasons.
        one(&mut server, &mut events, &stream).ok();
    }
}

/// A request, as far as it is read.
#[derive(Default)]
struct Request {
    line: String,
    key: String,
    has_events: bool,
    session: String,
    last_event: String,
    body: String,
}

impl Request {
    fn read(stream: &TcpStream) -> std::io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut request = Self::default();
        reader.read_line(&mut request.line)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or_default(),
                "x-key" => value.clone_into(&mut request.key),
                "x-events" => request.has_events = true,
                "mcp-session-id" => value.clone_into(&mut request.session),
                "last-event-id" => value.clone_into(&mut request.last_event),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Ok(request)
    }

    /// Whether the message of a client expects a response.
    fn is_request(&self) -> bool {
        let message: Value = serde_json::from_str(&self.body).unwrap_or_default();
        !message["method"].is_null() && !message["id"].is_null()
    }
}

/// Answers one request, and closes the connection. `events` are those that the client has not seen.
fn one(server: &mut Server, events: &mut Vec<Value>, stream: &TcpStream) -> std::io::Result<()> {
    const JSON: &str = "application/json";
    const EVENTS: &str = "text/event-stream\r\nMcp-Session-Id: one";
    let request = Request::read(stream)?;
    let method = request.line.split(' ').next().unwrap_or_default();
    let is_known = request.session == "one" || request.body.contains("\"initialize\"");
    let (status, kind, answer) = match method {
        _ if request.key.is_empty() => ("401 Unauthorized", JSON, String::new()),
        _ if request.has_events && !is_known => ("404 Not Found", JSON, String::new()),
        "POST" if request.has_events => {
            events.extend(server.take(&request.body));
            if request.is_request() {
                ("200 OK", EVENTS, "id: 1\nretry: 1\ndata:\n\n".to_owned())
            } else {
                ("202 Accepted", JSON, String::new())
            }
        }
        "GET" if request.last_event == "1" => {
            let events = events.drain(..);
            let events = events.map(|event| format!("event: message\r\ndata: {event}\r\n\r\n"));
            ("200 OK", EVENTS, events.collect())
        }
        "POST" => match server.take(&request.body).pop() {
            Some(answer) => ("200 OK", JSON, answer.to_string()),
            None => ("202 Accepted", JSON, String::new()),
        },
        "DELETE" if request.has_events => ("200 OK", JSON, String::new()),
        // As a server answers that knows nothing of other streams.
        "GET" if request.has_events => ("404 Not Found", JSON, String::new()),
        _ => ("405 Method Not Allowed", JSON, String::new()),
    };
    let challenge = if request.key.is_empty() {
        "WWW-Authenticate: Bearer\r\n"
    } else {
        ""
    };
    write!(
        &mut &*stream,
        "HTTP/1.1 {status}\r\n{challenge}Content-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )
}
