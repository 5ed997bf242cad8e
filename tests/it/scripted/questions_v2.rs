//! What an engine asks a client of version 2.

use rejoin::engine::{EngineEvent, Outlet, PromptEnd, Question, StopReason};
use rejoin::transport::Outcome;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::engine::{Event, Responder};
use super::rig::Rig;

/// A turn of a client of version 2, in the hands of a test.
struct Turn {
    rig: Rig,
    session: String,
    out: Outlet,
    end: Responder<PromptEnd>,
}

impl Turn {
    fn begin() -> Self {
        let mut rig = Rig::start_v2();
        let (session, out) = rig.session();
        let words = json!([{ "type": "text", "text": "go" }]);
        let prompt = json!({ "sessionId": session, "prompt": words });
        let id = rig.ask("session/prompt", prompt);
        assert!(rig.answer(id)["result"]["messageId"].is_string());
        assert_eq!(rig.next()["params"]["update"]["content"], words);
        let Event::Prompt(end) = rig.event() else {
            panic!("it is prompted");
        };
        let mut turn = Self {
            rig,
            session,
            out,
            end,
        };
        turn.is_told("running");
        turn
    }

    fn ask(&self, method: &str, params: &str) -> oneshot::Receiver<Outcome> {
        let (reply, outcome) = oneshot::channel();
        let question = Question {
            method: method.to_owned(),
            params: format!(r#"{{"sessionId":"inner",{params}}}"#),
            session: Some(13..20),
            logged: true,
            is_native: false,
            cancel: CancellationToken::new(),
            reply,
        };
        let said = self.out.send_blocking(EngineEvent::Ask(question));
        said.expect("it listens");
        outcome
    }

    /// Asks for a permission; answers with the request that the client gets.
    fn ask_permission(&mut self) -> (oneshot::Receiver<Outcome>, Value) {
        let call = r#""toolCall":{"toolCallId":"c","title":"Write it","kind":"edit"}"#;
        let options = r#""options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]"#;
        let params = format!("{call},{options}");
        let outcome = self.ask("session/request_permission", &params);
        let asked = self.rig.next();
        assert_eq!(asked["method"], "session/request_permission");
        assert_eq!(asked["params"]["sessionId"], self.session.as_str());
        assert_eq!(asked["params"]["title"], "Write it");
        assert_eq!(asked["params"]["subject"]["toolCall"]["toolCallId"], "c");
        self.is_told("requires_action");
        (outcome, asked["id"].clone())
    }

    #[track_caller]
    fn is_told(&mut self, state: &str) -> Value {
        let message = self.rig.next();
        let update = message["params"]["update"].clone();
        assert_eq!(update["sessionUpdate"], "state_update", "{message}");
        assert_eq!(update["state"], state);
        update
    }

    fn records(&self) -> Vec<&'static str> {
        let records = self.rig.records(&self.session).into_iter();
        records.map(|(kind, _)| kind).collect()
    }
}

#[test]
fn permission_request_has_form_of_version_2() {
    let mut turn = Turn::begin();
    let (outcome, id) = turn.ask_permission();
    let result = json!({ "outcome": { "outcome": "selected", "optionId": "y" } });
    turn.rig
        .send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    turn.is_told("running");
    let chosen = r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#;
    assert_eq!(outcome.blocking_recv(), Ok(Ok(chosen.to_owned())));
    let records = turn.rig.records(&turn.session);
    let asked = records.iter().find(|(kind, _)| *kind == "ask");
    assert!(asked.is_some_and(|(_, payload)| payload.contains(r#""toolCall":{"#)));
    let end = turn.end;
    end.send(Ok(PromptEnd::Because(StopReason::EndTurn)))
        .expect("it waits");
    let idle = turn.rig.next();
    assert_eq!(idle["params"]["update"]["stopReason"], "end_turn");
    turn.rig.end();
}

#[test]
fn cancel_withdraws_client_requests() {
    let mut turn = Turn::begin();
    let (outcome, id) = turn.ask_permission();
    let params = json!({ "sessionId": turn.session });
    turn.rig
        .send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    let taken_back = turn.rig.next();
    assert_eq!(taken_back["method"], "$/cancel_request");
    assert_eq!(taken_back["params"]["requestId"], id);
    turn.is_told("running");
    let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
    assert_eq!(outcome.blocking_recv(), Ok(Ok(cancelled.to_owned())));
    let kinds = ["session", "prompt", "output", "ask", "answer"];
    assert_eq!(turn.records(), kinds);
    let end = turn.end;
    end.send(Ok(PromptEnd::Because(StopReason::Cancelled)))
        .expect("it waits");
    // The client knows of the call from the question.
    let closed = turn.rig.next();
    assert_eq!(closed["params"]["update"]["status"], "failed");
    let idle = turn.rig.next();
    assert_eq!(idle["params"]["update"]["stopReason"], "cancelled");
    turn.rig.end();
}

#[test]
fn requests_without_equivalent_are_not_sent() {
    let mut turn = Turn::begin();
    let outcome = turn.ask("fs/read_text_file", r#""path":"/x""#);
    let refused = outcome.blocking_recv().expect("it is answered");
    assert!(refused.is_err_and(|error| error.contains("-32601")));
    // The turn waited only for us.
    turn.is_told("requires_action");
    turn.is_told("running");
    let end = turn.end;
    end.send(Ok(PromptEnd::Because(StopReason::EndTurn)))
        .expect("it waits");
    assert_eq!(
        turn.rig.next()["params"]["update"]["stopReason"],
        "end_turn"
    );
    turn.rig.end();
}
