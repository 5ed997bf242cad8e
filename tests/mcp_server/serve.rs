//! Answers the messages of a client.

use serde_json::{Value, json};

use crate::record::Record;
use crate::tools;

/// A server with what it remembers of its client.
pub(crate) struct Server {
    name: String,
    record: Record,
    /// Whether it has hostile tools, and its list always another page.
    pub(crate) hostile: bool,
    /// Tools that it was taught.
    pub(crate) learned: Vec<String>,
    /// A call that waits for what the client answers, and how many answers are missing.
    asking: Option<(Value, usize, Vec<String>)>,
}

impl Server {
    pub(crate) fn new(name: String, record: Record) -> Self {
        Self {
            name,
            record,
            hostile: false,
            learned: Vec::new(),
            asking: None,
        }
    }

    /// Takes a message; gives back what is to be sent.
    pub(crate) fn take(&mut self, line: &str) -> Vec<Value> {
        self.record.line(line);
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Vec::new();
        };
        let id = &message["id"];
        let params = &message["params"];
        match message["method"].as_str() {
            Some("initialize") => vec![answer(id, &self.hello(params))],
            Some("ping") => vec![answer(id, &json!({}))],
            Some("tools/list") => {
                let tools = match params["cursor"].as_str() {
                    None => tools::list(&self.learned, self.hostile),
                    Some(_) => Vec::new(),
                };
                let mut page = json!({ "tools": tools });
                if self.hostile {
                    page["nextCursor"] = "next".into();
                }
                vec![answer(id, &page)]
            }
            Some("tools/call") => self.call(id, params),
            None if !id.is_null() => self.request_received(&message),
            Some(method) if !id.is_null() => {
                let error = json!({ "code": -32601, "message": format!("no {method} here") });
                vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })]
            }
            _ => Vec::new(),
        }
    }

    fn hello(&self, params: &Value) -> Value {
        json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": self.name, "version": "1.0" },
        })
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Value> {
        let (tool, arguments) = (&params["name"], &params["arguments"]);
        match tool.as_str().unwrap_or_default() {
            "learn" => {
                let name = arguments["name"].as_str().unwrap_or("new");
                self.learned.push(name.to_owned());
                let changed = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/tools/list_changed",
                });
                vec![changed, answer(id, &tools::text("learned"))]
            }
            "ask" => {
                self.asking = Some((id.clone(), 2, Vec::new()));
                let sampling = json!({
                    "messages": [{ "role": "user", "content": { "type": "text", "text": "?" } }],
                    "maxTokens": 1,
                });
                let schema = json!({ "type": "object", "properties": {} });
                let question = json!({ "message": "?", "requestedSchema": schema });
                vec![
                    request("ask-1", "sampling/createMessage", &sampling),
                    request("ask-2", "elicitation/create", &question),
                ]
            }
            "nag" => {
                let times = 1000;
                self.asking = Some((id.clone(), times, Vec::new()));
                let pings = 0..times;
                pings
                    .map(|at| request(&at.to_string(), "ping", &json!({})))
                    .collect()
            }
            "hang" => {
                let progress = json!({
                    "progressToken": params["_meta"]["progressToken"],
                    "progress": 1,
                    "total": 3,
                    "message": "waiting",
                });
                vec![json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": progress,
                })]
            }
            "die" => {
                eprintln!("I was told to end");
                std::process::exit(3);
            }
            "refuse" => {
                let key = std::env::var("KEY").unwrap_or_default();
                let error = json!({ "code": -32050, "message": format!("not with {key}") });
                vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })]
            }
            tool => vec![answer(id, &tools::call(tool, arguments))],
        }
    }

    /// Takes an answer of the client.
    fn request_received(&mut self, message: &Value) -> Vec<Value> {
        let Some((id, left, words)) = &mut self.asking else {
            return Vec::new();
        };
        *left -= 1;
        let pong = message["result"]
            .as_object()
            .is_some_and(serde_json::Map::is_empty);
        words.push(match message["error"]["code"].as_i64() {
            None if pong => "pong".to_owned(),
            Some(code) => format!("{} {code}", message["id"]),
            None => format!("{} {}", message["id"], message["result"]["action"]),
        });
        if *left > 0 {
            return Vec::new();
        }
        words.sort();
        words.dedup();
        let answered = answer(id, &tools::text(&words.join(", ")));
        self.asking = None;
        vec![answered]
    }
}

fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
