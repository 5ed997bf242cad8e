//! How an actor puts its engine's requests to the client, and takes them back.

use crate::engine::Cancel;
use crate::json;

use super::actor::{Actor, TaskResult};
use super::overdue;
use super::request::ClientRequest;
use super::version::unknown_method;
use super::withdrawn;

impl Actor {
    /// Puts a request of the engine to the client.
    pub(super) async fn ask(&mut self, mut asking: ClientRequest) {
        let (wire, tell) = (self.deps.wire.clone(), self.tell.clone());
        let version = self.deps.version();
        let Some(params) = version.question(&asking.method, &asking.params) else {
            let unknown = Err(unknown_method(&asking.method));
            tell.send(TaskResult::Answered(asking.answered(unknown)))
                .ok();
            return;
        };
        // Sent here, so that nothing that is said later overtakes it.
        let Some(mut call) = wire.ask(&asking.method, &params).await else {
            return;
        };
        let withdrawn = self.withdrawal.1.clone();
        let limit = overdue::limit(&asking.method, self.deps.client_timeout);
        let name = self.name.clone();
        tokio::spawn(async move {
            let method = asking.method.clone();
            let in_its_place = tokio::select! {
                biased;
                outcome = &mut call => {
                    // A client that is gone answers nothing, and neither do we in its place.
                    if let Some(outcome) = outcome {
                        let outcome = version.outcome(&method, outcome);
                        tell.send(TaskResult::Answered(asking.answered(outcome))).ok();
                    }
                    return;
                }
                () = withdrawn.cancelled() => Some(withdrawn::outcome(&method)),
                () = asking.unwanted() => None,
                limit = overdue::passed(limit) => Some(Err(overdue::error(&method, limit))),
            };
            // Whoever waits for the answer need not wait until the client reads.
            let waiting = match in_its_place {
                Some(outcome) => {
                    tell.send(TaskResult::Answered(asking.answered(outcome)))
                        .ok();
                    None
                }
                None => Some(asking),
            };
            wire.take_back(&call).await;
            // The client answers all the same.
            let Some(outcome) = call.await else { return };
            if let Some(asking) = waiting {
                let outcome = version.outcome(&method, outcome);
                tell.send(TaskResult::Answered(asking.answered(outcome)))
                    .ok();
            } else if method == "terminal/create"
                && let Some(terminal) = outcome
                    .ok()
                    .as_deref()
                    .and_then(|made| json::string_member(made, "terminalId"))
            {
                // Nobody knows of it.
                let params = serde_json::json!({ "sessionId": name, "terminalId": terminal });
                if let Some(released) = wire.ask("terminal/release", &params.to_string()).await {
                    released.await;
                }
            }
        });
    }

    /// Takes back what the client was asked for and has not answered, in its place.
    pub(super) fn withdraw(&mut self) {
        let (canceller, _) = std::mem::replace(&mut self.withdrawal, Cancel::new());
        canceller.cancel();
    }
}
