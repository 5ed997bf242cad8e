//! The built-in engine, through the contract that every engine has.

mod any;
mod conversation;
mod ending;
mod showing;

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_client_protocol_schema::v1;
use rejoin::engine::demo::LocalEngine;
use rejoin::engine::{
    Cancel, ClientCapabilities, Conversation, Engine, EngineError, EngineEvent, History,
    HistoryError, Opening, Outlet, Prompt, PromptEnd, Secret, SessionConfig, StopReason,
};
use rejoin::record::header::Workspace;
use rejoin::record::{Kind, Record};
use rejoin::sys::{Ids, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::support::schema::Schema;

const HOME: &str = if cfg!(windows) { "C:\\home" } else { "/home" };

static UPDATE: LazyLock<Schema> = LazyLock::new(Schema::v1_update);

/// Ids that count up.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Ids for Counter {
    fn uuid(&self) -> uuid::Uuid {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        uuid::Builder::from_unix_timestamp_millis(count, &[0; 10]).into_uuid()
    }
}

/// A history of what was sent before; a prompt that is missing cannot be read.
#[derive(Debug)]
struct Before(Vec<Option<Value>>);

impl History for Before {
    fn prompts(&self) -> u64 {
        self.0.len() as u64
    }

    fn prompt(&self, index: u64) -> Result<Prompt, HistoryError> {
        match &self.0[usize::try_from(index).unwrap()] {
            Some(blocks) => Ok(prompt(blocks)),
            None => Err(HistoryError {
                what: format!("prompt {index}"),
                reason: "line 7 is damaged".to_owned(),
            }),
        }
    }

    fn walk(&self, _: &mut dyn FnMut(&Record<'_>)) -> Result<(), HistoryError> {
        panic!("this engine has no need of more than prompts");
    }
}

/// An open conversation, and what comes out of it.
struct Talk {
    conversation: Arc<dyn Conversation>,
    said: mpsc::Receiver<EngineEvent>,
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn prompt(blocks: &Value) -> Prompt {
    Prompt {
        message_id: "msg_user".to_owned(),
        params: json!({ "prompt": blocks }).to_string(),
    }
}

fn open(before: Vec<Option<Value>>) -> Talk {
    let ids = Counter::default();
    let session = SessionId::from_uuid(ids.uuid());
    let (out, said) = Outlet::new();
    let conversation = LocalEngine::new().open(Opening {
        config: SessionConfig {
            name: session.to_string(),
            workspace: Workspace::at(HOME),
            params: Secret::new("{}"),
        },
        session,
        client: ClientCapabilities::default(),
        history: Arc::new(Before(before)),
        ids: Arc::new(ids),
        origin: None,
        out,
    });
    Talk { conversation, said }
}

/// One answered prompt.
#[derive(Debug, PartialEq)]
struct Answer {
    lines: Vec<String>,
    end: Result<StopReason, EngineError>,
}

impl Answer {
    fn updates(&self) -> Vec<Value> {
        let lines = self.lines.iter();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The text of all chunks of one kind.
    fn said(&self, kind: &str) -> String {
        let updates = self.updates();
        let chunks = updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind);
        chunks
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    fn text(&self) -> String {
        self.said("agent_message_chunk")
    }

    /// The last status that a tool call was moved to.
    fn last_status(&self) -> Value {
        let updates = self.updates();
        let mut moved = updates
            .iter()
            .filter(|update| update["sessionUpdate"] == "tool_call_update");
        moved.next_back().unwrap()["status"].clone()
    }

    /// Kinds of updates, neighbours of one kind and message as one, each with its number of
    /// updates.
    fn runs(&self) -> Vec<(String, usize)> {
        let mut runs = Vec::<(String, usize)>::new();
        let mut last = Value::Null;
        for update in self.updates() {
            let key = json!([update["sessionUpdate"], update["messageId"]]);
            match runs.last_mut() {
                Some((_, count)) if key == last => *count += 1,
                _ => runs.push((update["sessionUpdate"].as_str().unwrap().to_owned(), 1)),
            }
            last = key;
        }
        runs
    }
}

/// Prompts a conversation and cancels it as soon as `until` says so of an update, counted from 0.
async fn converse(
    talk: Talk,
    prompt: &Prompt,
    mut until: impl FnMut(usize, &str) -> bool,
) -> Answer {
    let Talk {
        conversation,
        mut said,
    } = talk;
    let cancel = Cancel::default();
    let cancelling = cancel.clone();
    let answering = async move {
        let end = conversation.prompt(prompt.clone(), cancel).await;
        // With the conversation goes its outlet, so that the reading ends.
        drop(conversation);
        end
    };
    let reading = async {
        let mut lines = Vec::new();
        while let Some(said) = said.recv().await {
            for line in updates(&said) {
                if until(lines.len(), &line) {
                    cancelling.cancel();
                }
                lines.push(line);
            }
        }
        lines
    };
    let (end, lines) = tokio::join!(answering, reading);
    let end = end.map(reason);
    Answer { lines, end }
}

/// All that this engine says to the client. What it asks it is never answered.
fn updates(said: &EngineEvent) -> Vec<String> {
    let block = match said {
        EngineEvent::Block(block) => block,
        EngineEvent::Ask(_) => return Vec::new(),
        EngineEvent::Notify { .. } | EngineEvent::Ends { .. } | EngineEvent::State(_) => {
            panic!("{said:?}")
        }
    };
    let lines = block.iter().map(|entry| {
        assert_eq!((entry.kind, entry.id), (Kind::Update, None));
        entry.payload.to_owned()
    });
    lines.collect()
}

/// This engine ends its turns for a reason and adds nothing to it.
fn reason(ended: PromptEnd) -> StopReason {
    match ended {
        PromptEnd::Because(reason) => reason,
        PromptEnd::With(result) | PromptEnd::Reported(result) => panic!("{result}"),
    }
}

/// Prompts in a runtime whose clock moves for timers only; checks all that holds for any
/// answer.
fn ask_after(before: Vec<Option<Value>>, blocks: &Value) -> Answer {
    run(async {
        let asked = prompt(blocks);
        let answer = converse(open(before), &asked, |_, _| false).await;
        check(&answer);
        answer
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

fn ask(asked: &str) -> Answer {
    ask_after(Vec::new(), &text(asked))
}

fn asks(before: &[&str], asked: &str) -> Answer {
    let before = before.iter().map(|before| Some(text(before))).collect();
    ask_after(before, &text(asked))
}

/// What every answer keeps to: one line for each update, of the protocol's form, message ids that
/// change exactly where a run of chunks ends, and tool calls that begin, end and have own ids.
#[track_caller]
fn check(answer: &Answer) {
    for (line, update) in answer.lines.iter().zip(answer.updates()) {
        let typed: v1::SessionUpdate = serde_json::from_str(line).unwrap();
        assert_eq!(
            without_defaults(serde_json::to_value(typed).unwrap()),
            without_defaults(update),
            "the protocol's types do not know all of this"
        );
    }
    check_form(answer);
}

/// The same for an answer that repeats what was sent, with members that the protocol's types do not
/// know.
#[track_caller]
fn check_form(answer: &Answer) {
    let mut closed_messages = Vec::new();
    let mut message = Value::Null;
    let mut open_calls = Vec::new();
    let mut known_calls = Vec::new();
    for (line, update) in answer.lines.iter().zip(answer.updates()) {
        assert!(!line.contains(['\n', '\r']), "{line}");
        UPDATE.assert_valid(&update);
        let key = json!([update["sessionUpdate"], update["messageId"]]);
        if key != message {
            assert!(!closed_messages.contains(&key), "{key} was closed before");
            closed_messages.push(std::mem::replace(&mut message, key));
        }
        match update["sessionUpdate"].as_str().unwrap() {
            "agent_message_chunk" | "agent_thought_chunk" => {
                assert!(update["messageId"].as_str().unwrap().starts_with("msg_"));
            }
            "tool_call" => {
                assert!(!known_calls.contains(&update["toolCallId"]));
                known_calls.push(update["toolCallId"].clone());
                open_calls.push(update["toolCallId"].clone());
                message = Value::Null;
            }
            "tool_call_update" => {
                assert!(open_calls.contains(&update["toolCallId"]), "{line}");
                if update["status"] == "completed" || update["status"] == "failed" {
                    open_calls.retain(|id| *id != update["toolCallId"]);
                }
                message = Value::Null;
            }
            _ => message = Value::Null,
        }
    }
    assert_eq!(open_calls, Vec::<Value>::new(), "left open");
}

/// The protocol's types leave out what is the default.
fn without_defaults(mut update: Value) -> Value {
    let fields = update.as_object_mut().unwrap();
    for (name, default) in [
        ("status", json!("pending")),
        ("kind", json!("other")),
        ("locations", json!([])),
        ("rawOutput", Value::Null),
    ] {
        if fields.get(name) == Some(&default) {
            fields.remove(name);
        }
    }
    update
}

#[track_caller]
fn assert_in_order<'a>(text: &'a str, parts: &[&str]) {
    let mut left: &'a str = text;
    for part in parts {
        let Some((_, rest)) = left.split_once(part) else {
            panic!("{part:?} is missing, or not in this order, in {text:?}");
        };
        left = rest;
    }
}

const END_TURN: Result<StopReason, EngineError> = Ok(StopReason::EndTurn);
