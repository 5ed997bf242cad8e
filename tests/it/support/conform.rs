//! Watches one connection: every line that the agent sends must be of the protocol's form, and
//! every request must be answered once.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use agent_client_protocol_schema::v1;
use serde_json::Value;

use super::conform_v2;
use super::cursors::SentCursors;
use super::json::Json;
use super::schema::Schema;

/// How much of a line that is too long is looked at, in bytes.
const START: usize = 4096;

/// What of a connection is still open.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all but one combine"
)]
pub(crate) struct Watch {
    /// Requests without an answer: the id's JSON text and the method.
    open: Vec<(String, String)>,
    /// Whether something was sent whose id cannot be read.
    unreadable: bool,
    /// Whether another agent speaks through this one: requests, and methods of its own.
    wraps: bool,
    /// Whether the client is one that does not get all data of errors.
    adapts_errors: bool,
    /// Requests of the agent that were not answered yet: the ids' JSON texts.
    asked: Vec<String>,
    /// Whether version 2 was agreed on.
    is_v2: bool,
    /// Whether a session was last said to be running, and whether a tool call is at work in it.
    runs: bool,
    works: bool,
    cursors: SentCursors,
}

impl Watch {
    /// Watches an agent, which may wrap another one.
    pub(crate) fn new(wraps: bool) -> Self {
        Self {
            wraps,
            ..Self::default()
        }
    }

    /// Takes note of one line that was sent.
    pub(crate) fn sent(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}').trim();
        let message = Json::parse(text).ok();
        let member = |name| message.as_ref().and_then(|message| message.get(name));
        let is_answer = member("result").is_some() || member("error").is_some();
        // Where a line may be too long to be read, so may its id.
        let hidden = text.find("\"id\"").is_some_and(|at| at > START);
        match (member("id"), member("method")) {
            (Some(id), method)
                if !hidden && is_id(id, self.wraps) && (method.is_some() || !is_answer) =>
            {
                let method = method.and_then(Json::text).unwrap_or_default();
                let named = |name| method == "initialize" && text.contains(name);
                self.adapts_errors |= named(r#""name":"CodeCompanion"#) || named(r#""name":"zed""#);
                if let Some(params) = member("params").filter(|_| SentCursors::heeds(method)) {
                    self.cursors.request(method, &params.plain());
                }
                self.open.push((id.to_string(), method.to_owned()));
            }
            // Nothing that is answered.
            (None, Some(_)) => {}
            (Some(id), None) if is_answer => {
                let id = id.to_string();
                self.asked.retain(|asked| *asked != id);
            }
            _ => self.unreadable = true,
        }
    }

    /// Checks one line that came.
    pub(crate) fn received(&mut self, line: &[u8]) -> Result<Json, String> {
        let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        let message = Json::parse(text).map_err(|error| format!("not JSON: {error}"))?;
        if message.get("jsonrpc").and_then(Json::text) != Some("2.0") {
            return Err("`jsonrpc` is not \"2.0\"".to_owned());
        }
        let plain = message.plain();
        match (plain.get("method"), plain.get("id")) {
            (Some(method), None) => {
                members(&plain, &["jsonrpc", "method", "params"])?;
                self.cursors.received(&plain["params"])?;
                if self.is_v2 {
                    self.state(&plain["params"]["update"]);
                    let method = method.as_str().unwrap_or_default();
                    if !(self.wraps && method.starts_with('_')) {
                        conform_v2::notification(method, &plain["params"])?;
                    }
                    return Ok(message);
                }
                if self.wraps {
                    return Ok(message);
                }
                let params = &plain["params"];
                match method.as_str().unwrap_or_default() {
                    "session/update" => of::<v1::SessionNotification>("notification", params)?,
                    "$/cancel_request" => of::<v1::CancelRequestNotification>("cancel", params)?,
                    method if list_notification(method) => {
                        of::<v1::ListSessionsResponse>("changes", &entries(params))?;
                    }
                    _ => return Err(format!("an unknown notification: {method}")),
                }
            }
            (Some(method), Some(_)) => {
                members(&plain, &["jsonrpc", "id", "method", "params"])?;
                let (method, params) = (method.as_str().unwrap_or_default(), &plain["params"]);
                if self.is_v2 {
                    if !(self.wraps && method.starts_with('_')) {
                        conform_v2::request(method, params)?;
                    }
                } else if !self.wraps {
                    asks(method, params)?;
                }
                let id = message.get("id").map(Json::to_string).unwrap_or_default();
                if self.asked.contains(&id) {
                    return Err("a request with the id of another".to_owned());
                }
                self.asked.push(id);
            }
            (None, _) => self.response(&message, &plain)?,
        }
        Ok(message)
    }

    fn response(&mut self, message: &Json, plain: &Value) -> Result<(), String> {
        let id = message.get("id").ok_or("neither `method` nor `id`")?;
        let at = self
            .open
            .iter()
            .position(|(open, _)| *open == id.to_string());
        let method = at.map(|at| self.open.remove(at).1);
        if let Some(error) = plain.get("error") {
            members(plain, &["jsonrpc", "id", "error"])?;
            members(error, &["code", "message", "data"])?;
            if self.is_v2 {
                conform_v2::error(error)?;
            } else {
                of::<v1::Error>("error", error)?;
            }
            if error["message"].as_str().unwrap_or_default().is_empty() {
                return Err("an error without a message".to_owned());
            }
            let data = &error["data"];
            let has_name = data["code"].is_string() && data["error"] == data["code"];
            let has_name = has_name || self.adapts_errors;
            if !(self.wraps || has_name && data["details"] == error["message"]) {
                return Err("the data of an error has its name, twice, and its message".to_owned());
            }
            if method.is_none() && !(plain["id"].is_null() && self.unreadable) {
                return Err("an error for nothing that was asked".to_owned());
            }
            return Ok(());
        }
        members(plain, &["jsonrpc", "id", "result"])?;
        let result = plain.get("result").ok_or("neither a result nor an error")?;
        if !result.is_object() && !self.wraps {
            return Err("a result that is no object".to_owned());
        }
        let method = method.ok_or("an answer to nothing that was asked")?;
        if method == "initialize" {
            self.is_v2 = result["protocolVersion"] == 2;
        }
        if self.is_v2 {
            if method == "session/prompt" {
                // Which is said next, unless the prompt was sent before.
                let state = &result["_meta"]["rejoin"]["state"]["state"];
                (self.runs, self.works) = (state != "idle", false);
            }
            return match conform_v2::result(&method, result) {
                Some(checked) => checked,
                None if self.wraps => Ok(()),
                None => Err(format!("a result for {method:?}, which is no method")),
            };
        }
        match method.as_str() {
            "session/list/unsubscribe"
            | "_session/list/subscribe"
            | "_session/list/unsubscribe"
            | "_session/archive"
            | "_session/unarchive"
            | "_session/rename" => Ok(()),
            "_session/batch_get" => of::<v1::ListSessionsResponse>("entries", result),
            "initialize" => of::<v1::InitializeResponse>("initialize", result),
            "session/new" => of::<v1::NewSessionResponse>("new", result),
            "session/set_title" => of::<v1::SetSessionTitleResponse>("set_title", result),
            "session/archive" => of::<v1::ArchiveSessionResponse>("archive", result),
            "session/unarchive" => of::<v1::UnarchiveSessionResponse>("unarchive", result),
            "session/status" => of::<v1::SessionStatusResponse>("status", result),
            "session/fork" => of::<v1::ForkSessionResponse>("fork", result),
            "session/load" => of::<v1::LoadSessionResponse>("load", result),
            "session/resume" => of::<v1::ResumeSessionResponse>("resume", result),
            "session/list" | "session/list/subscribe" => {
                of::<v1::ListSessionsResponse>("list", result)
            }
            "session/get" => turns(result),
            "_rejoin/search" => hits(result),
            "_rejoin/cursors" => cursors(result, of::<v1::CursorUpdate>),
            "_rejoin/rewind" => members(result, &[]),
            "session/rewind" => members(result, &["lastMessageId"]),
            "session/prompt" | "session/edit_prompt" => of::<v1::PromptResponse>("prompt", result),
            "session/close" => of::<v1::CloseSessionResponse>("close", result),
            "session/delete" => of::<v1::DeleteSessionResponse>("delete", result),
            "session/set_mode" => of::<v1::SetSessionModeResponse>("mode", result),
            "session/set_config_option" => {
                of::<v1::SetSessionConfigOptionResponse>("option", result)
            }
            "session/options" => of::<v1::SessionOptionsResponse>("options", result),
            _ if self.wraps => Ok(()),
            method => Err(format!("a result for {method:?}, which is no method")),
        }
    }

    /// Takes note of what an update of version 2 says of the work that is done.
    fn state(&mut self, update: &Value) {
        if let Some(state) = update["state"].as_str() {
            self.runs = state != "idle";
            self.works &= self.runs;
        }
        if let Some(status) = update["status"].as_str() {
            self.works = status == "in_progress";
        }
    }

    /// Whether a session was last said to be running.
    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Whether it runs, and what it does will be said without being asked for.
    pub(crate) fn goes_on(&self) -> bool {
        self.runs && !self.works
    }

    /// Whether version 2 was agreed on.
    pub(crate) fn is_v2(&self) -> bool {
        self.is_v2
    }

    /// Whether this request waits for its answer.
    pub(crate) fn waits(&self, id: &str) -> bool {
        self.open.iter().any(|(open, _)| open == id)
    }

    /// The request that was sent last and has no answer yet.
    pub(crate) fn last_open(&self) -> Option<String> {
        self.open.last().map(|(id, _)| id.clone())
    }

    /// What was asked and not answered.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        let open = self.open.iter();
        open.map(|(id, method)| format!("{method} with id {id}"))
            .collect()
    }
}

/// Checks the answer to a search.
pub(super) fn hits(result: &Value) -> Result<(), String> {
    members(result, &["hits", "complete", "nextCursor"])?;
    let hits = result["hits"]
        .as_array()
        .filter(|_| result["complete"].is_boolean());
    let is_hit = |hit: &Value| {
        let texts = [
            "sessionId",
            "cwd",
            "source",
            "kind",
            "role",
            "timestamp",
            "snippet",
        ];
        (hit["offset"].is_u64() || hit["offset"].is_null())
            && texts.iter().all(|name| hit[name].is_string())
    };
    match hits {
        Some(hits) if hits.iter().all(is_hit) => Ok(()),
        _ => Err("hits of another form".to_owned()),
    }
}

/// Checks a page of session cursors, each by the version's own type.
pub(super) fn cursors(
    result: &Value,
    check: fn(&'static str, &Value) -> Result<(), String>,
) -> Result<(), String> {
    members(result, &["cursors", "nextCursor"])?;
    let cursors = result["cursors"].as_array().ok_or("no cursors")?;
    for cursor in cursors {
        check("cursor", cursor)?;
        if !(cursor["anchor"].is_object() && cursor["capabilities"]["fork"].is_object()) {
            return Err("a cursor that nothing accepts, or without a place".to_owned());
        }
    }
    Ok(())
}

/// Whether an error can be sent under this id.
fn is_id(id: &Json, wraps: bool) -> bool {
    match id {
        Json::String(_) => true,
        Json::Literal(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            // It is for a wrapped agent to say what it takes.
            let of_number = |byte: u8| wraps && b".eE+-".contains(&byte);
            let mut bytes = digits.bytes();
            text == "null" || bytes.all(|byte| byte.is_ascii_digit() || of_number(byte))
        }
        Json::Object(_) | Json::Array(_) => false,
    }
}

pub(super) fn members(object: &Value, known: &[&str]) -> Result<(), String> {
    let names = object.as_object().ok_or("no object")?.keys();
    match names
        .into_iter()
        .find(|name| !known.contains(&name.as_str()))
    {
        Some(name) => Err(format!("an unknown member `{name}`")),
        None => Ok(()),
    }
}

/// A request of the agent to its client.
fn asks(method: &str, params: &Value) -> Result<(), String> {
    match method {
        "session/request_permission" => of::<v1::RequestPermissionRequest>("permission", params),
        "fs/read_text_file" => of::<v1::ReadTextFileRequest>("read", params),
        "fs/write_text_file" => of::<v1::WriteTextFileRequest>("write", params),
        "terminal/create" => of::<v1::CreateTerminalRequest>("create", params),
        "terminal/output" => of::<v1::TerminalOutputRequest>("output", params),
        "terminal/release" => of::<v1::ReleaseTerminalRequest>("release", params),
        "terminal/wait_for_exit" => of::<v1::WaitForTerminalExitRequest>("exit", params),
        "terminal/kill" => of::<v1::KillTerminalRequest>("kill", params),
        _ => Err(format!("an unexpected request: {method}")),
    }
}

/// The result of `session/get`, which the protocol does not have: what is in it has the
/// protocol's form.
pub(super) fn turns(result: &Value) -> Result<(), String> {
    let turns = result["turns"].as_array().ok_or("no turns")?;
    for turn in turns {
        let role = turn["role"].as_str().unwrap_or_default();
        if !matches!(role, "user" | "assistant") || !turn["timestamp"].is_string() {
            return Err(format!("not a turn: {turn}"));
        }
        let content = turn["content"].as_array().ok_or("a turn without content")?;
        for block in content
            .iter()
            .chain(turn["thoughts"].as_array().into_iter().flatten())
        {
            of::<v1::ContentBlock>("content", block)?;
        }
        for call in turn["toolCalls"].as_array().into_iter().flatten() {
            of::<v1::ToolCall>("tool call", call)?;
        }
    }
    Ok(())
}

/// Whether a notification is about lists, which no released schema has.
pub(super) fn list_notification(method: &str) -> bool {
    let names = [
        "session/list/changes",
        "session/list/resync",
        "session/list_changed",
    ];
    names.contains(&method.strip_prefix('_').unwrap_or(method))
}

/// The entries in such a notification, as a list has them.
pub(super) fn entries(params: &Value) -> Value {
    let none = Value::Array(Vec::new());
    serde_json::json!({ "sessions": params.get("sessions").unwrap_or(&none) })
}

/// Holds a value against the schema of a type, which is made once.
pub(super) fn of<T: schemars::JsonSchema>(name: &'static str, value: &Value) -> Result<(), String> {
    static SCHEMAS: LazyLock<Mutex<HashMap<&str, &Schema>>> = LazyLock::new(Mutex::default);
    let schema = *SCHEMAS
        .lock()
        .expect("making a schema does not fail")
        .entry(name)
        .or_insert_with(|| Box::leak(Box::new(Schema::of::<T>())));
    let errors = schema.errors(value);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(format!("not of the protocol's form: {}", errors.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_refused() {
        let mut watch = Watch::default();
        watch.sent(br#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#);
        for bad in [
            "hello",
            r#"{"id":1,"result":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","method":"log","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}"#,
        ] {
            assert!(watch.received(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(watch.unanswered().len(), 1);
        for bad in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
        ] {
            watch.sent(br#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#);
            assert!(watch.received(bad.as_bytes()).is_err(), "{bad}");
        }
        let good = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
        assert!(watch.received(good.as_bytes()).is_ok());
        assert!(watch.received(good.as_bytes()).is_err(), "answered twice");
    }

    #[test]
    fn lines_are_checked_against_the_negotiated_version() {
        let v1 = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}"#;
        let v2 = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle"}}}"#;
        let asks = r#"{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"sessionId":"s","title":"t","options":[{"optionId":"o","name":"n","kind":"allow_once"}]}}"#;
        let loose = v1.replace("plan", "user_message_chunk");
        let agree = |version: u8| {
            let mut watch = Watch::default();
            watch.sent(br#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
            let info = r#""info":{"name":"n","version":"1"},"capabilities":{},"authMethods":[]"#;
            let result = format!(
                r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{version},{info}}}}}"#
            );
            watch.received(result.as_bytes()).unwrap();
            watch
        };
        let fits = |version, line: &str| agree(version).received(line.as_bytes()).is_ok();
        assert!(fits(1, v1) && !fits(1, v2) && !fits(1, asks));
        assert!(fits(2, v2) && fits(2, asks) && !fits(2, &loose));
        assert!(!fits(2, &asks.replace("title", "titel")));
        let mut watch = agree(2);
        watch.sent(br#"{"jsonrpc":"2.0","id":1,"method":"session/load"}"#);
        let loaded = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert!(watch.received(loaded.as_bytes()).is_err(), "it is gone");
    }
}
