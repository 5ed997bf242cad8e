//! A connection to the database that breaks in the middle of a message.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Server,
    Client,
}

/// Passes bytes on, until it is to cut.
pub(super) struct Proxy {
    pub(super) port: u16,
    cut: Arc<Mutex<Option<(To, usize)>>>,
}

impl Proxy {
    /// One in front of this port. It runs as long as the tests.
    pub(super) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Mutex::new(None));
        let state = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("localhost", server)) else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                pass(&client, &server, To::Server, &state);
                pass(&server, &client, To::Client, &state);
            }
        });
        Self { port, cut }
    }

    /// Cuts the connection once, after so many more bytes in this direction.
    pub(super) fn cut_after(&self, to: To, bytes: usize) {
        *self.cut.lock().unwrap() = Some((to, bytes));
    }

    /// Whether it has cut since; from now on it does not.
    pub(super) fn has_cut(&self) -> bool {
        self.cut.lock().unwrap().take().is_none()
    }
}

/// Passes on what comes from one end, on a thread.
fn pass(from: &TcpStream, into: &TcpStream, to: To, cut: &Arc<Mutex<Option<(To, usize)>>>) {
    let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
    let cut = cut.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let passed = allowed(&mut cut.lock().unwrap(), to, len);
            if into.write_all(&buffer[..passed]).is_err() || passed < len {
                break;
            }
        }
        // Either end may have closed it.
        from.shutdown(Shutdown::Both).ok();
        into.shutdown(Shutdown::Both).ok();
    });
}

/// How many of so many bytes are passed on. A cut right behind the last one comes with the next.
fn allowed(cut: &mut Option<(To, usize)>, to: To, len: usize) -> usize {
    match cut {
        Some((direction, left)) if *direction == to => {
            if *left < len {
                let passed = *left;
                *cut = None;
                return passed;
            }
            *left -= len;
            len
        }
        _ => len,
    }
}
