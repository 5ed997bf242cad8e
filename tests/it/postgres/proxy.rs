//! A connection to the database that breaks in the middle of a message, stops, is slow, or leads to
//! another server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Server,
    Client,
}

/// How many bytes may wait in the system at this end.
const BUFFER: usize = 32 * 1024;

/// How long the bytes of one buffer are on their way, if the connection is slow.
const SLOW: Duration = Duration::from_millis(50);

/// Passes bytes on, until it is to cut.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    server: u16,
    /// The connection is cut after so many more bytes in this direction.
    cut: Option<(To, usize)>,
    /// Whether nothing is passed on.
    held: bool,
    slow: bool,
    /// How many bytes the server was sent.
    sent: usize,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
}

impl Proxy {
    /// One in front of this port. It runs as long as the tests.
    pub(super) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // What waits here looks to the client as if it were sent.
        let socket = socket2::SockRef::from(&listener);
        socket.set_recv_buffer_size(BUFFER).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        shared.state.lock().unwrap().server = server;
        let proxy = Self {
            port,
            shared: shared.clone(),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = shared.state.lock().unwrap().server;
                let Ok(server) = TcpStream::connect(("localhost", server)) else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    let stream = stream.try_clone().unwrap();
                    shared.state.lock().unwrap().open.push(stream);
                }
                shared.pass(&client, &server, To::Server);
                shared.pass(&server, &client, To::Client);
            }
        });
        proxy
    }

    /// Cuts the connection once, after so many more bytes in this direction.
    pub(super) fn cut_after(&self, to: To, bytes: usize) {
        self.shared.state.lock().unwrap().cut = Some((to, bytes));
    }

    /// Whether it has cut since; from now on it does not.
    pub(super) fn has_cut(&self) -> bool {
        self.shared.state.lock().unwrap().cut.take().is_none()
    }

    /// Passes nothing on from now on, and accepts connections all the same; or goes on.
    pub(super) fn hold(&self, held: bool) {
        self.shared.state.lock().unwrap().held = held;
        self.shared.changed.notify_all();
    }

    /// Passes everything on slowly.
    pub(super) fn be_slow(&self) {
        self.shared.state.lock().unwrap().slow = true;
    }

    /// How many bytes the server was sent.
    pub(super) fn sent(&self) -> usize {
        self.shared.state.lock().unwrap().sent
    }

    /// Leads to another server from now on. All connections end.
    pub(super) fn lead_to(&self, server: u16) {
        let mut state = self.shared.state.lock().unwrap();
        state.server = server;
        for stream in state.open.drain(..) {
            // Either end may have closed it.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Shared {
    /// Passes on what comes from one end, on a thread.
    fn pass(self: &Arc<Self>, from: &TcpStream, into: &TcpStream, to: To) {
        let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
        let shared = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                let passed = shared.allowed(to, len);
                if into.write_all(&buffer[..passed]).is_err() || passed < len {
                    break;
                }
            }
            // Either end may have closed it.
            from.shutdown(Shutdown::Both).ok();
            into.shutdown(Shutdown::Both).ok();
        });
    }

    /// Waits until bytes may be passed on, and returns how many. A cut right behind the last one comes
    /// with the next.
    fn allowed(&self, to: To, len: usize) -> usize {
        if self.state.lock().unwrap().slow {
            thread::sleep(SLOW);
        }
        let state = self.state.lock().unwrap();
        let mut state = self.changed.wait_while(state, |state| state.held).unwrap();
        let passed = match &mut state.cut {
            Some((direction, left)) if *direction == to => {
                if *left < len {
                    let passed = *left;
                    state.cut = None;
                    passed
                } else {
                    *left -= len;
                    len
                }
            }
            _ => len,
        };
        if to == To::Server {
            state.sent += passed;
        }
        passed
    }
}
