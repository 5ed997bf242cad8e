//! A stream of updates of the protocol in a file, by which the conversations of any tool come in:
//! JSON lines, each a notification `session/update`, its parameters, or an update alone, with its
//! time if that is known. Requests and answers between them are read, too, so that a recording of
//! both directions is such a stream. The chats of Aider, which keeps them in each project, are read
//! from its file in the same way.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::protocol::Role;
use crate::sys::{SessionId, Timestamp};

use super::aider;
use super::content::as_text;
use super::conversation::{ToolConversation, UNNAMED};
use super::damage::DamagedPlace;
use super::subagents::{self, SourceSubagent};
use super::unknown::UnknownKinds;
use super::updates::UpdateReader;
use super::usage::{Spent, number};
use super::{file, lines};

/// Facts about a stream that its lines may not have.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// The agent of conversations whose lines do not name it.
    pub agent: Option<String>,
    /// The folder of conversations whose lines do not name it.
    pub cwd: Option<String>,
    /// The title, which wins over those in the lines.
    pub title: Option<String>,
}

/// The conversations of a stream.
#[derive(Debug, Default)]
pub struct UpdateStream {
    /// The conversations, each with the name of its agent.
    pub conversations: Vec<(String, ToolConversation)>,
    /// What was left out because its kind is not known.
    pub unknown: UnknownKinds,
    /// Where the stream is damaged.
    pub damage: Vec<DamagedPlace>,
}

/// The name of an agent that nothing names.
const AGENT: &str = "imported";

/// Reads a stream to its end, or so much of it as fits into memory.
///
/// # Errors
///
/// An error of `from`, or [`FileTooLarge`](io::ErrorKind::FileTooLarge).
pub fn read_whole(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(file::LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > file::LARGEST {
        let message = format!("at most {} bytes are read", file::LARGEST);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The conversations of a stream. Lines that name no session are of one called `name`; without
/// times, everything was at `time`.
pub fn read(bytes: &[u8], name: &str, time: Timestamp, options: &StreamOptions) -> UpdateStream {
    if is_of_its_folder(bytes) {
        let (cwd, title) = (options.cwd.as_deref(), options.title.as_deref());
        let chats = aider::read(bytes, cwd, title).into_iter();
        let agent = options.agent.as_deref().unwrap_or("Aider");
        return UpdateStream {
            conversations: chats.map(|chat| (agent.to_owned(), chat)).collect(),
            ..UpdateStream::default()
        };
    }
    let lines = lines::objects(bytes);
    let mut reader = StreamReader {
        name,
        time,
        options,
        sessions: HashMap::new(),
        order: Vec::new(),
        announced: BTreeMap::new(),
        asked: HashMap::new(),
        agent: None,
        unknown: UnknownKinds::default(),
    };
    for line in &lines.objects {
        reader.line(line);
    }
    let mut stream = reader.finish();
    stream.damage = lines.damage;
    stream
}

/// Whether a file is about the folder in which it is, unless somebody says otherwise.
pub fn is_of_its_folder(bytes: &[u8]) -> bool {
    aider::is_history(bytes)
}

/// The name of a stream in a file: that of the file, without its ending.
pub fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// A session of a stream.
#[derive(Debug, Default)]
struct StreamSession {
    updates: UpdateReader,
    agent: Option<String>,
    cwd: Option<String>,
    /// What the user said in the last request, which some agents repeat as an update.
    asked: Vec<Value>,
    /// How many prompts there were.
    prompts: usize,
}

impl StreamSession {
    /// Notes the folder, if it is named.
    fn is_in(&mut self, folder: Option<String>) {
        self.updates.builder.folder(folder.as_deref());
        self.cwd = folder.or(self.cwd.take());
    }
}

/// A session that another one has announced as its subagent's.
#[derive(Debug)]
struct Announced {
    parent: String,
    title: Option<String>,
    call: Option<String>,
}

/// A request that waits for its answer.
#[derive(Debug)]
enum StreamRequest {
    /// A prompt in this session.
    Prompt(String),
    /// A new session in this folder.
    Session(Option<String>),
}

#[derive(Debug)]
struct StreamReader<'a> {
    name: &'a str,
    time: Timestamp,
    options: &'a StreamOptions,
    sessions: HashMap<String, StreamSession>,
    /// The ids of the sessions, in the order in which they came.
    order: Vec<String>,
    announced: BTreeMap<String, Announced>,
    asked: HashMap<String, StreamRequest>,
    /// The name of the agent in its answer to `initialize`.
    agent: Option<String>,
    unknown: UnknownKinds,
}

impl StreamReader<'_> {
    fn line(&mut self, line: &Value) {
        let at = time(line);
        // Recorders put a message into an object with its time.
        let message = Some(&line["message"]).filter(|message| message.is_object());
        let message = message.unwrap_or(line);
        let at = at.or_else(|| time(message));
        let params = &message["params"];
        match message["method"].as_str() {
            Some("session/update") => return self.update(at, params),
            Some("session/prompt") => return self.prompt(at, message),
            Some("session/new" | "session/load" | "session/resume" | "session/fork") => {
                return self.opened(message);
            }
            // Other messages are about files, permissions and the like.
            Some(_) => return,
            None => {}
        }
        if message["result"].is_object() || message["error"].is_object() {
            return self.answer(at, message);
        }
        if message["update"].is_object() {
            self.update(at, message);
        } else if message["sessionUpdate"].is_string() {
            let session = message["sessionId"].as_str().unwrap_or_default();
            self.one(at, session, message);
        } else if !self.about(message) {
            self.unknown.add(message["type"].as_str());
        }
    }

    fn session(&mut self, id: &str) -> &mut StreamSession {
        let id = if id.is_empty() { self.name } else { id };
        self.sessions.entry(id.to_owned()).or_insert_with(|| {
            self.order.push(id.to_owned());
            let mut session = StreamSession::default();
            session.updates.builder.folder(self.options.cwd.as_deref());
            session
        })
    }

    fn at(&mut self, session: &str, at: Option<Timestamp>) -> Timestamp {
        let first = self.time;
        let session = self.session(session);
        session.updates.builder.at_or(at, first)
    }

    /// An update with the session that it is of.
    fn update(&mut self, at: Option<Timestamp>, params: &Value) {
        let session = as_text(&params["sessionId"]);
        let at = at.or_else(|| time(params));
        self.one(at, &session, &params["update"]);
    }

    fn one(&mut self, at: Option<Timestamp>, session: &str, update: &Value) {
        let at = at.or_else(|| time(update));
        let at = self.at(session, at);
        match update["sessionUpdate"].as_str() {
            Some("subagent_update") => return self.announce(session, update),
            Some("user_message_chunk") => {
                let asked = &mut self.session(session).asked;
                if let Some(said) = asked.iter().position(|block| *block == update["content"]) {
                    asked.remove(said);
                    return;
                }
            }
            _ => {}
        }
        self.session(session).updates.update(at, update);
    }

    fn prompt(&mut self, at: Option<Timestamp>, message: &Value) {
        let params = &message["params"];
        let id = as_text(&params["sessionId"]);
        let at = self.at(&id, at);
        let session = self.session(&id);
        session.prompts += 1;
        session.updates.end_message();
        let named = params["messageId"].as_str().map(str::to_owned);
        let prompt = named.unwrap_or_else(|| format!("{UNNAMED}prompt_{}", session.prompts));
        let blocks = params["prompt"].as_array().cloned().unwrap_or_default();
        for block in &blocks {
            session
                .updates
                .block(at, Role::User, &prompt, block.clone());
        }
        session.asked = blocks;
        self.asked
            .insert(message["id"].to_string(), StreamRequest::Prompt(id));
    }

    fn opened(&mut self, message: &Value) {
        let params = &message["params"];
        let cwd = params["cwd"].as_str().map(str::to_owned);
        if let Some(id) = params["sessionId"].as_str() {
            self.session(id).is_in(cwd.clone());
        }
        self.asked
            .insert(message["id"].to_string(), StreamRequest::Session(cwd));
    }

    /// An answer to a request.
    fn answer(&mut self, at: Option<Timestamp>, message: &Value) {
        let result = &message["result"];
        if let Some(name) = result["agentInfo"]["name"].as_str() {
            self.agent = Some(name.to_owned());
        }
        match self.asked.remove(&message["id"].to_string()) {
            Some(StreamRequest::Prompt(id)) => {
                let at = self.at(&id, at);
                let session = self.session(&id);
                session.asked.clear();
                session.updates.stopped(&result["stopReason"]);
                let usage = &result["usage"];
                let spent = Spent {
                    input: number(&usage["inputTokens"]),
                    output: number(&usage["outputTokens"]),
                    thought: number(&usage["thoughtTokens"]),
                    cached_read: number(&usage["cachedReadTokens"]),
                    cached_write: number(&usage["cachedWriteTokens"]),
                    cost: 0.0,
                };
                session.updates.builder.spent(None, spent);
                if let Some(error) = message["error"]["message"].as_str() {
                    session.updates.builder.error(at, None, error);
                }
            }
            Some(StreamRequest::Session(cwd)) => {
                if let Some(id) = result["sessionId"].as_str() {
                    self.session(id).is_in(cwd);
                }
            }
            None => {}
        }
    }

    /// What a line says about a session: its agent, folder, title or model. Returns whether it says
    /// any of that.
    fn about(&mut self, line: &Value) -> bool {
        let names = ["sessionId", "agent", "cwd", "title", "model"];
        if !names.iter().any(|name| line[*name].is_string()) {
            return false;
        }
        let id = as_text(&line["sessionId"]);
        let session = self.session(&id);
        session.is_in(line["cwd"].as_str().map(str::to_owned));
        let agent = line["agent"].as_str().map(str::to_owned);
        session.agent = agent.or(session.agent.take());
        session.updates.builder.title(&as_text(&line["title"]));
        session.updates.builder.state(&Value::Null, &line["model"]);
        true
    }

    fn announce(&mut self, parent: &str, update: &Value) {
        let id = ["subagentSessionId", "sessionId"].iter();
        let id = id.copied().find_map(|name| update[name].as_str());
        let Some(id) = id else { return };
        let known = self
            .announced
            .entry(id.to_owned())
            .or_insert_with(|| Announced {
                parent: if parent.is_empty() { self.name } else { parent }.to_owned(),
                title: None,
                call: None,
            });
        let title = update["title"].as_str().map(str::to_owned);
        known.title = title.or(known.title.take());
        let call = update["_meta"]["rejoin"]["toolCallId"].as_str();
        known.call = call.map(str::to_owned).or(known.call.take());
    }

    fn finish(mut self) -> UpdateStream {
        let options = self.options;
        let mut agents: BTreeMap<String, Vec<SourceSubagent>> = BTreeMap::new();
        for (id, announced) in std::mem::take(&mut self.announced) {
            let Some(session) = self.sessions.remove(&id) else {
                continue;
            };
            let builder = session.updates.builder;
            let mut subagent = SourceSubagent::new(id, announced.call, builder);
            subagent.title = announced.title;
            agents.entry(announced.parent).or_default().push(subagent);
        }
        let mut conversations = Vec::new();
        for id in self.order {
            let Some(mut session) = self.sessions.remove(&id) else {
                continue;
            };
            let agent = session.agent.or_else(|| self.agent.clone());
            let agent = agent.or_else(|| options.agent.clone());
            let agent = agent.unwrap_or_else(|| AGENT.to_owned());
            let cwd = session.cwd.or_else(|| options.cwd.clone());
            if let Some(title) = &options.title {
                session.updates.builder.title(title);
            }
            // An id of ours is that of a session of another store.
            let own = SessionId::parse(&id).map(|_| format!("{AGENT}:{id}"));
            let name = own.unwrap_or_else(|| id.clone());
            let mut conversation = session.updates.builder.finish(Some(name), cwd);
            let subagents = agents.remove(&id).unwrap_or_default();
            subagents::merge(&mut conversation, subagents);
            conversations.push((agent, conversation));
        }
        UpdateStream {
            conversations,
            unknown: self.unknown,
            damage: Vec::new(),
        }
    }
}

/// The time in a line: as in RFC 3339, or a number of seconds or milliseconds since 1970.
fn time(line: &Value) -> Option<Timestamp> {
    let names = ["time", "timestamp", "at", "ts"];
    let beside = names.iter().map(|name| &line[*name]);
    let meta = names.iter().map(|name| &line["_meta"][*name]);
    let time = beside.chain(meta).find(|time| !time.is_null())?;
    if let Some(text) = time.as_str() {
        return Timestamp::parse(text);
    }
    let (whole, fraction) = (time.to_string(), String::new());
    let (whole, fraction) = whole.split_once('.').unwrap_or((&whole, &fraction));
    let whole: i64 = whole.parse().ok()?;
    if whole >= MILLIS {
        return Some(Timestamp::from_millis(whole));
    }
    let fraction: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(Timestamp::from_millis(
        whole.saturating_mul(1000) + fraction,
    ))
}

/// From here on, a number is one of milliseconds: in seconds, it would be a time in the year 5138.
const MILLIS: i64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_have_several_forms() {
        for (line, expected) in [
            (
                json!({"time": "2026-05-28T20:26:40Z"}),
                Some(1_780_000_000_000),
            ),
            (json!({"timestamp": 1_780_000_000}), Some(1_780_000_000_000)),
            (json!({"ts": 1_780_000_000.25}), Some(1_780_000_000_250)),
            (
                json!({"at": 1_780_000_000_250_i64}),
                Some(1_780_000_000_250),
            ),
            (json!({"_meta": {"timestamp": 1}}), Some(1000)),
            (json!({"time": "noon"}), None),
            (json!({"time": true}), None),
            (json!({}), None),
        ] {
            let time = time(&line).map(Timestamp::as_millis);
            assert_eq!(time, expected, "{line}");
        }
    }
}
