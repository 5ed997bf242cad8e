//! A small conductor: a client, `rejoin proxy` and an agent, each with its own idea of ids.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::agent::{Agent, GUARD};
use super::process;
use super::systems::{ask_to_end, kill};

/// A component of a chain as a process.
struct Component {
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
}

/// The conductor, as its client sees it.
struct Conductor {
    proxy: Component,
    agent: Component,
    /// What the proxy says besides the protocol.
    log: tempfile::NamedTempFile,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Wrapped<'a> {
    method: String,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Taken<'a> {
    #[serde(borrow, rename = "requestId")]
    request: &'a RawValue,
}

/// Requests that were sent on under another id.
#[derive(Clone, Default)]
struct Ids(Arc<Mutex<HashMap<String, String>>>);

impl Ids {
    fn put(&self, theirs: String, ours: &str) {
        self.0
            .lock()
            .expect("no thread panics with it")
            .insert(theirs, ours.to_owned());
    }

    fn take(&self, theirs: &str) -> Option<String> {
        self.0
            .lock()
            .expect("no thread panics with it")
            .remove(theirs)
    }

    /// The id under which a request was sent on.
    fn of(&self, ours: &str) -> Option<String> {
        let ids = self.0.lock().expect("no thread panics with it");
        let found = ids.iter().find(|(_, known)| *known == ours);
        found.map(|(theirs, _)| theirs.clone())
    }
}

/// `rejoin proxy` on a store, alone; the caller is the conductor.
pub(crate) fn proxy(store: &Path, args: &[String], log: &tempfile::NamedTempFile) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.arg("proxy").arg("--store").arg(store).args(args);
    command.stderr(log.reopen().expect("it was just made"));
    spawn(&mut command)
}

fn spawn(command: &mut Command) -> Child {
    command
        .env_remove("REJOIN_STORE")
        .env_remove("REJOIN_SOURCES")
        .env_remove("REJOIN_LOG_FILE")
        .env_remove("REJOIN_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is there")
}

/// Starts a chain of `rejoin proxy` on a store and an agent, whose command stands behind `--`,
/// or `rejoin serve` if there is none.
pub(crate) fn start(store: &Path, args: &[String]) -> (Box<dyn Agent>, Box<dyn Read + Send>) {
    let Some(at) = args.iter().position(|argument| argument == "--") else {
        // There is no successor.
        return process::start(store, args);
    };
    let (options, command) = args.split_at(at);
    let mut options = options.to_vec();
    if !options.iter().any(|option| option == "--name") {
        // The name that `rejoin wrap` would know it by.
        let name = Path::new(&command[1]).file_stem().and_then(OsStr::to_str);
        options.extend(["--name".to_owned(), name.expect("it has one").to_owned()]);
    }
    let log = tempfile::NamedTempFile::new().expect("files can be made");
    let (proxy, from_proxy) = Component::new(proxy(store, &options, &log));
    let mut program = Command::new(&command[1]);
    program.args(&command[2..]).stderr(Stdio::null());
    let (agent, from_agent) = Component::new(spawn(&mut program));
    let (output, client) = io::pipe().expect("pipes can be made");
    let (to_agent, to_proxy) = (Ids::default(), Ids::default());
    let lines = Lines {
        proxy: proxy.input.clone(),
        agent: agent.input.clone(),
        to_agent: to_agent.clone(),
        to_proxy: to_proxy.clone(),
    };
    let other = lines.clone();
    thread::spawn(move || lines.of_proxy(from_proxy, client));
    thread::spawn(move || other.of_agent(from_agent));
    (Box::new(Conductor { proxy, agent, log }), Box::new(output))
}

/// What both directions share.
#[derive(Clone)]
struct Lines {
    proxy: Arc<Mutex<Option<ChildStdin>>>,
    agent: Arc<Mutex<Option<ChildStdin>>>,
    /// Requests of the proxy as the agent knows them, and the other way round.
    to_agent: Ids,
    to_proxy: Ids,
}

impl Lines {
    fn of_proxy(self, output: ChildStdout, mut client: PipeWriter) {
        let mut count = 0;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let message: Message<'_> = serde_json::from_str(&line).expect("a proxy sends JSON");
            match message.method.as_deref() {
                Some("proxy/successor") => {
                    let params = message.params.expect("a message is inside").get();
                    let inner: Wrapped<'_> = serde_json::from_str(params).expect("it is one");
                    let id = message.id.map(|id| {
                        count += 1;
                        self.to_agent.put(count.to_string(), id.get());
                        count.to_string()
                    });
                    put(&self.agent, &call(id, &inner.method, inner.params.get()));
                }
                Some("$/cancel_request") => {
                    let params = message.params.expect("it says which").get();
                    let taken: Taken<'_> = serde_json::from_str(params).expect("it says which");
                    match self.to_agent.of(taken.request.get()) {
                        Some(id) => put(&self.agent, &cancel(&id)),
                        None => writeln!(client, "{line}").unwrap_or_default(),
                    }
                }
                None => match message.id.and_then(|id| self.to_proxy.take(id.get())) {
                    Some(id) => put(&self.agent, &answer(&id, &message)),
                    None => writeln!(client, "{line}").unwrap_or_default(),
                },
                Some(_) => writeln!(client, "{line}").unwrap_or_default(),
            }
        }
        // Without the proxy there is no chain.
        self.agent.lock().expect("no thread panics with it").take();
    }

    fn of_agent(self, output: ChildStdout) {
        let mut count = 0;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Agents may say what they like.
            let Ok(message) = serde_json::from_str::<Message<'_>>(&line) else {
                continue;
            };
            match message.method.as_deref() {
                Some("$/cancel_request") => {
                    let params = message.params.expect("it says which").get();
                    let taken: Taken<'_> = serde_json::from_str(params).expect("it says which");
                    if let Some(id) = self.to_proxy.of(taken.request.get()) {
                        put(&self.proxy, &cancel(&id));
                    }
                }
                Some(method) => {
                    let id = message.id.map(|id| {
                        count += 1;
                        let theirs = format!("\"a{count}\"");
                        self.to_proxy.put(theirs.clone(), id.get());
                        theirs
                    });
                    let params = message.params.map_or("{}", RawValue::get);
                    let method = Value::from(method);
                    let params = format!(r#"{{"method":{method},"params":{params}}}"#);
                    put(&self.proxy, &call(id, "proxy/successor", &params));
                }
                None => {
                    if let Some(id) = message.id.and_then(|id| self.to_agent.take(id.get())) {
                        put(&self.proxy, &answer(&id, &message));
                    }
                }
            }
        }
    }
}

fn call(id: Option<String>, method: &str, params: &str) -> String {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let method = Value::from(method);
    format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{params}}}"#)
}

fn cancel(id: &str) -> String {
    call(
        None,
        "$/cancel_request",
        &format!(r#"{{"requestId":{id}}}"#),
    )
}

fn answer(id: &str, message: &Message<'_>) -> String {
    match (message.result, message.error) {
        (_, Some(error)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
        (result, None) => {
            let result = result.map_or("null", RawValue::get);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        }
    }
}

/// Writes a line. Who is gone needs none.
fn put(input: &Mutex<Option<ChildStdin>>, line: &str) {
    if let Some(input) = &mut *input.lock().expect("no thread panics with it") {
        writeln!(input, "{line}").unwrap_or_default();
    }
}

impl Component {
    fn new(mut child: Child) -> (Self, ChildStdout) {
        let output = child.stdout.take().expect("it was asked for");
        let input = Arc::new(Mutex::new(child.stdin.take()));
        (Self { child, input }, output)
    }

    fn close(&self) {
        self.input.lock().expect("no thread panics with it").take();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().expect("it is a child of ours");
        self.close();
    }
}

impl Agent for Conductor {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut input = self.proxy.input.lock().expect("no thread panics with it");
        let Some(input) = &mut *input else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let text = String::from_utf8_lossy(bytes);
        for line in text.split_inclusive('\n') {
            let named = line.replacen(
                r#""method":"initialize""#,
                r#""method":"proxy/initialize""#,
                1,
            );
            input.write_all(named.as_bytes())?;
        }
        Ok(())
    }

    fn end_input(&mut self) {
        self.proxy.close();
    }

    fn stop(&mut self) {
        ask_to_end(self.process());
    }

    fn kill(&mut self) {
        self.proxy.kill();
        self.agent.kill();
    }

    fn wait(&mut self) -> Result<(), String> {
        let (tell, ended) = mpsc::channel();
        let id = self.process();
        thread::scope(|scope| {
            scope.spawn(|| tell.send(self.proxy.child.wait()).ok());
            let status = ended.recv_timeout(GUARD);
            if status.is_err() {
                // No thread waits for it any longer.
                kill(id);
            }
            match status {
                Ok(Ok(status)) if status.success() => Ok(()),
                Ok(Ok(status)) => Err(status.to_string()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("it did not end within {GUARD:?}")),
            }
        })?;
        if self.said().contains("panicked at") {
            return Err("it panicked".to_owned());
        }
        Ok(())
    }

    fn process(&self) -> u32 {
        self.proxy.child.id()
    }

    fn said(&self) -> String {
        let text = std::fs::read(self.log.path()).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.kill();
    }
}
