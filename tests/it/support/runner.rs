//! Plays a fixture with an agent, and reports where it differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::agent::{GUARD, Start};
use super::conform_agent;
use super::connection::{Came, Connection};
use super::damage::Files;
use super::expect::{differs, fit};
use super::fixture::{Action, Check, Event, Order, Pattern, Script, Step};
use super::http_server::HttpServer;
use super::json::Json;
use super::pattern::Names;
use super::place;
use super::rewrite::Rewrite;
use super::systems::{FOLDER, can_run};
use super::wrapped::{self, Wrapped, mcp_server};

/// The update with a session's title.
const TITLE: &str = "session_info_update";

/// How long to wait for a line that a fixture being written may have too many of.
const REWRITING: Duration = Duration::from_secs(5);

/// Runs a transcript; the test fails where it goes another way. If `rewrite` is set, the lines
/// that are expected become those that came.
pub(crate) fn run(path: &Path, start: Start, rewrite: bool) {
    let folder = tempfile::tempdir().expect("folders can be made");
    let store = folder.path().join("store");
    run_on(&store, folder.path(), path, start, rewrite);
}

/// The same on this store, and with a folder for everything else.
pub(crate) fn run_on(store: &Path, folder: &Path, path: &Path, start: Start, rewrite: bool) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.strip_prefix(root).unwrap_or(path);
    if !can_run(&path.with_extension("").to_string_lossy().replace('\\', "/")) {
        return;
    }
    let script = Script::read(path);
    let text = std::fs::read_to_string(path).expect("it was just read");
    let mut unmentioned = vec![TITLE, "cursor_update"];
    unmentioned.retain(|name| !text.contains(name));
    let work = folder.join("work");
    std::fs::create_dir(&work).expect("it was just made");
    let mut names = Names::default();
    names.set("dir:0", work.to_str().expect("plain text").to_owned());
    let mut stage = Stage {
        start,
        args: Vec::new(),
        agent: None,
        chooses: false,
        started: Wrapped::new(folder, &[]),
        http: None,
        folder,
        store,
        names,
        files: Files::new(place::at(store)),
        connections: BTreeMap::new(),
        rewrite: rewrite.then(Rewrite::default),
        unmentioned,
    };
    let mut steps = &script.steps[..];
    while let Some(step) = steps.first() {
        let count = neighbours(steps);
        if let Err(wrong) = stage.act(&steps[..count]) {
            stage.fail(&script.path, step.line, &wrong);
        }
        steps = &steps[count..];
    }
    let last = script.steps.last().map_or(1, |step| step.line);
    if let Err(wrong) = stage.end() {
        stage.fail(&script.path, last, &wrong);
    }
    if let Some(rewrite) = &stage.rewrite {
        rewrite.apply(&script.path);
    }
}

/// How many steps are one: those whose lines may come in any order are.
fn neighbours(steps: &[Step]) -> usize {
    let any = |step: &&Step| {
        let any = matches!(
            &step.action,
            Action::Expect {
                order: Order::Any,
                ..
            }
        );
        any && step.connection == steps[0].connection
    };
    steps.iter().take_while(any).count().max(1)
}

struct Stage<'a> {
    start: Start,
    args: Vec<String>,
    /// What is wrapped, if something is.
    agent: Option<Wrapped>,
    /// Whether it is for the client to choose an agent.
    chooses: bool,
    /// All that was started that notes what happens to it.
    started: Wrapped,
    http: Option<HttpServer>,
    folder: &'a Path,
    store: &'a Path,
    names: Names,
    files: Files,
    connections: BTreeMap<usize, Connection>,
    rewrite: Option<Rewrite>,
    /// The names of the updates that the transcript is not about, which are passed over.
    unmentioned: Vec<&'static str>,
}

impl Stage<'_> {
    fn act(&mut self, steps: &[Step]) -> Result<(), String> {
        let number = steps[0].connection;
        match &steps[0].action {
            Action::Send { bytes, times } => {
                let bytes = match std::str::from_utf8(bytes) {
                    Ok(text) => self.names.fill_json(text)?.into_bytes(),
                    Err(_) => bytes.clone(),
                };
                let connection = self.connection(number);
                (0..*times).try_for_each(|_| connection.send(&bytes))
            }
            Action::Expect { order, pattern } => match order {
                Order::Next => self.next(&steps[0], pattern),
                Order::Times(count) => (0..*count).try_for_each(|_| self.next(&steps[0], pattern)),
                Order::Any => self.any(steps),
                Order::Many => self.many(number, pattern),
            },
            Action::Record => self.record(&steps[0]),
            Action::Args(args) => {
                self.args.clone_from(args);
                Ok(())
            }
            Action::Agent(flags) => {
                let none = flags.first().is_some_and(|flag| flag == "none");
                self.agent = (!none).then(|| Wrapped::new(self.folder, flags));
                self.chooses = false;
                Ok(())
            }
            Action::Installed(flags) => {
                self.chooses = true;
                self.agent = None;
                wrapped::install(self.folder, flags);
                Ok(())
            }
            Action::Uninstalled(name) => {
                wrapped::uninstall(self.folder, name);
                Ok(())
            }
            Action::Happens(event) => self.happens(number, *event),
            Action::Damage { session, damage } => {
                let session = self.names.fill(session)?;
                self.files.damage(&session, damage)
            }
            Action::Unindex => self.files.unindex(),
            Action::NoSockets => self.files.prevent_sockets(),
            Action::Servers => {
                let text = |path: PathBuf| path.to_string_lossy().into_owned();
                let record = self.started.record();
                self.names.set("server:0", text(mcp_server()));
                self.names.set("record:0", text(record));
                Ok(())
            }
            Action::HttpServer => {
                let (server, url) = HttpServer::start(self.folder)?;
                self.names.set("url:0", url);
                self.http = Some(server);
                Ok(())
            }
            Action::Check(Check::Agent(saw)) => self.started.check(saw, &mut self.names),
            Action::Check(check) => {
                let titles = !self.unmentioned.contains(&TITLE);
                self.files.check(check, titles, &mut self.names)
            }
        }
    }

    /// The connection of this number, which is made when it is needed.
    fn connection(&mut self, number: usize) -> &mut Connection {
        self.connections.entry(number).or_insert_with(|| {
            let wrapped = self.agent.as_ref().map(Wrapped::arguments);
            let wraps = wrapped.is_some() || self.chooses;
            let first = self.chooses.then(|| wrapped::CHOICE.to_owned());
            let first: Vec<String> = first.into_iter().collect();
            let args = [&first, &self.args[..], &wrapped.unwrap_or_default()].concat();
            let started = (self.start)(self.store, &args);
            let connection = Connection::new(started, wraps, self.unmentioned.clone());
            let process = connection.agent.process().to_string();
            self.names.set(&format!("pid:{number}"), process);
            connection
        })
    }

    fn take(&mut self, number: usize) -> Result<Came, String> {
        let within = if self.rewrite.is_some() {
            REWRITING
        } else {
            GUARD
        };
        let Some(connection) = self.connections.get_mut(&number) else {
            return Err(format!("connection {number} was not used yet"));
        };
        let came = connection.next(within)?;
        came.ok_or("its output has ended".to_owned())
    }

    fn next(&mut self, step: &Step, pattern: &Pattern) -> Result<(), String> {
        let (line, json) = self.take(step.connection)?;
        let Err(wrong) = fit(&mut self.names, pattern, &line, &json) else {
            return Ok(());
        };
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.line(step, &mut self.names, &[(line, json)]);
            return Ok(());
        }
        Err(differs(pattern, &line, &wrong))
    }

    fn any(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut left: Vec<_> = steps.iter().collect();
        while !left.is_empty() {
            let (line, json) = self.take(steps[0].connection)?;
            let names = &mut self.names;
            let at = left.iter().position(|step| match &step.action {
                Action::Expect { pattern, .. } => fit(names, pattern, &line, &json).is_ok(),
                _ => false,
            });
            let Some(at) = at else {
                let lines: Vec<_> = left.iter().map(|step| step.line.to_string()).collect();
                let line = String::from_utf8_lossy(&line);
                return Err(format!("got {line}  none of lines {}", lines.join(", ")));
            };
            left.remove(at);
        }
        Ok(())
    }

    fn many(&mut self, number: usize, pattern: &Pattern) -> Result<(), String> {
        loop {
            let (line, json) = self.take(number)?;
            if fit(&mut self.names, pattern, &line, &json).is_err() {
                self.connection(number).ahead = Some((line, json));
                return Ok(());
            }
        }
    }

    fn record(&mut self, step: &Step) -> Result<(), String> {
        if self.rewrite.is_none() {
            return Err("`<-?` is for UPDATE_FIXTURES=1".to_owned());
        }
        let last = self.connection(step.connection).watch.last_open();
        if last.is_none() && !self.connection(step.connection).watch.runs() {
            return Err("nothing is to be answered".to_owned());
        }
        let mut came = Vec::new();
        loop {
            let watch = &self.connection(step.connection).watch;
            let goes_on = match &last {
                Some(last) => watch.waits(last) || watch.goes_on(),
                None => watch.runs(),
            };
            if !goes_on {
                break;
            }
            let next = self.take(step.connection)?;
            let asks = next.1.get("id").is_some() && next.1.get("method").is_some();
            came.push(next);
            // Only the author of the fixture can say what is answered.
            if asks {
                break;
            }
        }
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.line(step, &mut self.names, &came);
        }
        Ok(())
    }

    fn happens(&mut self, number: usize, event: Event) -> Result<(), String> {
        match event {
            Event::Initialize(version) => self.initialize(number, version),
            Event::New(version) => self
                .initialize(number, version)
                .and_then(|()| self.make_session(number)),
            Event::Crash => {
                if let Some(mut connection) = self.connections.remove(&number) {
                    // What waits for a client that does not read cannot be killed in memory. Otherwise
                    // the client is there until the process has ended, as with a real one.
                    if connection.inbox.is_paused() {
                        connection.inbox.close();
                    }
                    connection.agent.kill();
                }
                Ok(())
            }
            Event::Restart => match self.connections.remove(&number) {
                Some(connection) => connection.end(),
                None => Ok(()),
            },
            Event::Eof => {
                self.connection(number).end_input();
                Ok(())
            }
            Event::Stop => {
                let connection = self.connection(number);
                connection.agent.stop();
                connection.ending = true;
                Ok(())
            }
            Event::HangUp => {
                let Some(mut connection) = self.connections.remove(&number) else {
                    return Ok(());
                };
                connection.inbox.close();
                connection.agent.end_input();
                connection.agent.wait()
            }
            Event::Pause => {
                self.connection(number).inbox.pause();
                Ok(())
            }
            Event::KillAgent => self.started.kill(),
            Event::Go => {
                self.connection(number).inbox.go_on();
                Ok(())
            }
        }
    }

    fn initialize(&mut self, number: usize, version: u8) -> Result<(), String> {
        let more = match version {
            1 => "",
            _ => r#","info":{"name":"fixture","version":"1"},"capabilities":{}"#,
        };
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"initialize","method":"initialize","params":{{"protocolVersion":{version}{more}}}}}"#
        );
        self.connection(number)
            .send(format!("{line}\n").as_bytes())?;
        let result = format!(r#"{{"protocolVersion":{version},"...":"..."}}"#);
        self.comes(
            number,
            &format!(r#"{{"id":"initialize","result":{result}}}"#),
        )
    }

    /// Makes the session that is called by the next free name.
    fn make_session(&mut self, number: usize) -> Result<(), String> {
        let params = json!({ "cwd": FOLDER, "mcpServers": [] });
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":"new","method":"session/new","params":{params}}}"#);
        self.connection(number)
            .send(format!("{line}\n").as_bytes())?;
        let free = (0..100).find(|n| self.names.get(&format!("session:{n}")).is_none());
        let session = format!("<session:{}>", free.unwrap_or_default());
        if self.agent.is_some() || self.chooses || self.connection(number).watch.is_v2() {
            // It may have more to say of a session, and has nothing to announce. In version 2
            // the answer itself says what there is.
            let result = format!(r#"{{"sessionId":"{session}","...":"..."}}"#);
            return self.comes(number, &format!(r#"{{"id":"new","result":{result}}}"#));
        }
        let result = format!(r#"{{"sessionId":"{session}","...":"..."}}"#);
        self.comes(number, &format!(r#"{{"id":"new","result":{result}}}"#))?;
        let update = r#"{"sessionUpdate":"available_commands_update","availableCommands":"..."}"#;
        let params = format!(r#"{{"sessionId":"{session}","update":{update}}}"#);
        self.comes(
            number,
            &format!(r#"{{"method":"session/update","params":{params}}}"#),
        )
    }

    fn comes(&mut self, number: usize, pattern: &str) -> Result<(), String> {
        let (line, json) = self.take(number)?;
        let pattern = Pattern::Json(Json::parse(pattern).map_err(|error| error.to_string())?);
        fit(&mut self.names, &pattern, &line, &json)
            .map_err(|wrong| differs(&pattern, &line, &wrong))
    }

    /// Ends all connections.
    fn end(&mut self) -> Result<(), String> {
        while let Some((number, connection)) = self.connections.pop_first() {
            let ended = connection.end();
            ended.map_err(|wrong| format!("at the end of connection {number}: {wrong}"))?;
        }
        self.http = None;
        self.started.gone()?;
        conform_agent::received(self.started.lines().iter().map(Json::plain))
    }

    fn fail(&mut self, path: &Path, line: usize, wrong: &str) -> ! {
        let mut said = String::new();
        for connection in self.connections.values_mut() {
            connection.inbox.close();
            let words = connection.agent.said();
            if !words.is_empty() {
                write!(said, "\nstderr: {words}").expect("strings take all");
            }
        }
        panic!("{}:{line}: {wrong}{said}", path.display());
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
