//! What a connection has of the agent besides its sessions.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::engine::relay::{Asked, Foreign, Greeted, Patience};
use crate::engine::{BoxFuture, EngineError, Relay};
use crate::json::{self, string_member};
use crate::transport::Wire;

use super::shared_agent::Agent;
use super::titles;

/// The agent as a connection sees it.
#[derive(Debug)]
pub(super) struct Front(Arc<Agent>);

impl Front {
    pub(super) fn new(agent: Arc<Agent>) -> Self {
        Self(agent)
    }
}

impl Relay for Front {
    fn connect(&self, client: Arc<Wire>) {
        self.0.connect(client);
    }

    fn greet(&self, params: String) -> BoxFuture<'static, Greeted> {
        let agent = self.0.clone();
        Box::pin(async move { agent.greet(&params).await })
    }

    fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let agent = self.0.clone();
        let (id, method, params) = (id.to_owned(), method.to_owned(), params.to_owned());
        Box::pin(async move { agent.call(&id, &method, &params, cancelled).await })
    }

    fn notify(&self, method: &str, params: &str) {
        // An agent that does not run has nobody to be told.
        if let Some(link) = self.0.current() {
            link.notify(method, params);
        }
    }

    fn sessions(&self, asked: Asked) -> BoxFuture<'static, Result<Foreign, EngineError>> {
        let agent = self.0.clone();
        Box::pin(async move {
            let link = agent.current();
            let link = link.ok_or_else(|| EngineError::internal("the agent does not run"))?;
            if !link.abilities().list {
                // An agent need not have a list.
                return Ok(Foreign {
                    source: agent.name().to_owned(),
                    ..Foreign::default()
                });
            }
            let mut params = Map::new();
            if let Some(cwd) = asked.cwd {
                params.insert("cwd".to_owned(), cwd.into());
            }
            if let Some(cursor) = asked.cursor {
                params.insert("cursor".to_owned(), cursor.into());
            }
            let params = Value::Object(params).to_string();
            let page = link.request("session/list", &params).outcome().await?;
            let mut sessions = Vec::new();
            if let Some(mut parts) = json::member_elements(page.as_bytes(), 0, "sessions") {
                while let Some(at) = parts.element() {
                    let entry = page.get(at).map(str::to_owned);
                    sessions.extend(entry.map(titles::listed));
                }
            }
            Ok(Foreign {
                source: agent.name().to_owned(),
                sessions,
                next_cursor: string_member(&page, "nextCursor"),
            })
        })
    }

    fn other_names(&self) -> Vec<String> {
        self.0.other_names()
    }

    fn may_know(&self) -> bool {
        let abilities = self.0.current().map(|link| link.abilities());
        // One that does not run is started and asked.
        abilities.is_none_or(|abilities| abilities.load || abilities.resume)
    }

    fn declares(&self, capability: &str) -> bool {
        self.0.declares(capability)
    }

    fn delete(&self, id: &str) -> BoxFuture<'static, Result<(), EngineError>> {
        let agent = self.0.clone();
        let params = json!({ "sessionId": id }).to_string();
        Box::pin(async move {
            match agent.current().filter(|link| link.abilities().delete) {
                Some(link) => link
                    .request("session/delete", &params)
                    .outcome()
                    .await
                    .map(drop),
                None => Ok(()),
            }
        })
    }

    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        let agent = self.0.clone();
        Box::pin(async move { agent.leave(patience).await })
    }
}
