//! The least of streamable HTTP: each message is a request of its own, answered with JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::serve::Server;

/// Serves until the process is ended; its address is written to a file.
pub(crate) fn serve(mut server: Server, file: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    std::fs::write(file, format!("http://{address}/mcp")).expect("the address can be written");
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        // A client that goes away has its reasons.
        one(&mut server, &stream).ok();
    }
}

/// Answers one request, and closes the connection.
fn one(server: &mut Server, stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or_default(),
            "x-key" => value.clone_into(&mut key),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = if key.is_empty() {
        ("401 Unauthorized", String::new())
    } else if line.starts_with("POST ") {
        match server.take(&String::from_utf8_lossy(&body)).pop() {
            Some(answer) => ("200 OK", Value::to_string(&answer)),
            None => ("202 Accepted", String::new()),
        }
    } else {
        ("405 Method Not Allowed", String::new())
    };
    let challenge = if key.is_empty() {
        "WWW-Authenticate: Bearer\r\n"
    } else {
        ""
    };
    write!(
        &mut &*stream,
        "HTTP/1.1 {status}\r\n{challenge}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )
}
