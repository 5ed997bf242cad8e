//! Imports a session that the agent created without rejoin.

use std::sync::Arc;

use crate::engine::{Block, EngineError, SessionConfig};
use crate::json::{self, Object, string_member, text_member};
use crate::protocol::{Role, UpdateKind, method};
use crate::record::Kind;
use crate::sys::Ids;

use super::connection::AgentConnection;
use super::list::{self, AgentListing};
use super::lost::{is_not_found, is_unsupported};
use super::members::{with_members, with_session};
use super::restore::{self, RestoreMethod, Restored, RouteBy, Task, other_session};
use super::route::SessionRoute;

/// The longest history that is imported, in bytes.
const LIMIT: usize = 512 * 1024 * 1024;

/// The end of an imported turn: agents do not replay how a turn ended.
const END: &str = r#"{"stopReason":"end_turn"}"#;

/// Opens a session that the agent created without rejoin, and returns its whole history. If the agent
/// does not have the session, the error says so.
pub(super) async fn import(
    connection: &Arc<AgentConnection>,
    config: &SessionConfig,
    task: Task<'_>,
    ids: Arc<dyn Ids>,
) -> Result<(Restored, Block), EngineError> {
    let route = task.route;
    let capabilities = connection.capabilities();
    let params = with_session(task.params, &config.name);
    let (method, params) = match (capabilities.load, capabilities.resume) {
        (true, _) => restore::load_request(connection, &params),
        (false, true) => (method::SESSION_RESUME, params.as_str().into()),
        (false, false) => return Err(EngineError::unknown_session()),
    };
    route.import(Import::new(ids));
    let subscription = TemporaryRoute::new(connection, &config.name, route)?;
    let mut answer = match restore::open(connection, method, &params, task, RouteBy::Request).await
    {
        Ok(answer) if other_session(&answer, &config.name).is_none() => answer,
        Ok(_) => return Err(EngineError::unknown_session()),
        Err(error) => {
            tracing::info!(method, %error, "the agent did not open the session");
            let is_not_found = is_not_found(&error, &config.name) || is_unsupported(&error);
            if is_final(connection, &error) || !is_not_found && is_known(connection, config).await {
                return Err(error);
            }
            return Err(EngineError::unknown_session());
        }
    };
    if capabilities.load {
        restore::wait_for_replay(connection, route).await;
    }
    let replays_later = capabilities.load && !capabilities.is_native;
    let Some(import) = route.imported(replays_later) else {
        return Err(EngineError::internal(
            "the replay of the agent's session was lost",
        ));
    };
    let Some(block) = import.finish() else {
        let message = "the agent's session is too long to be imported";
        return Err(EngineError::internal(message));
    };
    if !capabilities.load {
        answer = without_history(&answer);
    }
    subscription.keep();
    let restored = Restored {
        how: RestoreMethod::Import,
        session_id: config.name.clone(),
        answer,
        snapshots: Vec::new(),
    };
    Ok((restored, block))
}

/// Whether an error leaves open whether the agent knows the session.
fn is_final(connection: &AgentConnection, error: &EngineError) -> bool {
    connection.is_dead() || error.code == EngineError::SIGN_IN || error.is_named("agent_timeout")
}

/// Whether the agent may have the session that it could not open: it lists the session, or has no list.
async fn is_known(connection: &Arc<AgentConnection>, config: &SessionConfig) -> bool {
    list::look_up(connection, &config.name, None).await != AgentListing::NotListed
}

/// A response with a note that the history is not shown, because the agent cannot replay it.
fn without_history(answer: &str) -> String {
    let meta = text_member(answer, "_meta").unwrap_or("{}");
    let note = r#"{"agent":{"historyShown":false}}"#;
    let meta = with_members(meta, &["rejoin"], &[("rejoin", note)]);
    with_members(answer, &["_meta"], &[("_meta", &meta)])
}

/// A session's route while the session is being opened. Dropping it removes the route, unless it is
/// kept.
struct TemporaryRoute<'a> {
    connection: &'a AgentConnection,
    session: &'a str,
    route: &'a Arc<SessionRoute>,
    keep: bool,
}

impl<'a> TemporaryRoute<'a> {
    /// Fails if another open session has the agent's session.
    fn new(
        connection: &'a AgentConnection,
        session: &'a str,
        route: &'a Arc<SessionRoute>,
    ) -> Result<Self, EngineError> {
        if let Some(error) = connection.shared_error(session, route) {
            return Err(error);
        }
        connection.subscribe(session, route);
        Ok(Self {
            connection,
            session,
            route,
            keep: false,
        })
    }

    fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for TemporaryRoute<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.connection.unsubscribe(self.session, self.route);
        }
    }
}

/// Collects a history as records. The user's messages become prompts, which separate the turns.
#[derive(Debug)]
pub(super) struct Import {
    ids: Arc<dyn Ids>,
    block: Block,
    /// The current message of the user: its id, and its blocks as they came.
    prompt: Option<(String, Vec<String>)>,
    /// Whether a turn has begun and not ended.
    in_turn: bool,
    updates: u64,
    too_long: bool,
}

impl Import {
    pub(super) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            block: Block::default(),
            prompt: None,
            in_turn: false,
            updates: 0,
            too_long: false,
        }
    }

    /// How many updates of the history have come.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Adds the next update, normalized as it would be in a live session.
    pub(super) fn update(&mut self, kind: Kind, payload: &str) {
        if self.block.bytes() + payload.len() > LIMIT {
            self.too_long = true;
            return;
        }
        if matches!(kind, Kind::Subagent | Kind::SubagentV2) {
            self.updates += 1;
            self.flush();
        }
        let history = matches!(kind, Kind::Update | Kind::UpdateParams);
        if history {
            self.updates += 1;
            if let Some((id, block)) = user_block(payload) {
                return self.user(id, block);
            }
            self.flush();
        }
        self.block.push(kind, payload);
    }

    /// Adds the next update of an agent of version 2: its parameters.
    pub(super) fn native_update(&mut self, kind: UpdateKind, params: &str) {
        if self.block.bytes() + params.len() > LIMIT {
            self.too_long = true;
            return;
        }
        if kind == UpdateKind::Notice {
            return self.block.push(Kind::TransientV2, params);
        }
        if kind.snapshot().is_none() {
            self.updates += 1;
            let update = text_member(params, "update").unwrap_or_default();
            if let Some((id, blocks)) = user_message(update) {
                let id = id.unwrap_or_else(|| self.ids.message());
                return self.user_message(id, blocks);
            }
            if let Some((id, block)) = user_block(params) {
                return self.user(id, block);
            }
            self.flush();
        }
        self.block.push(Kind::UpdateV2, params);
    }

    /// Replaces the blocks of the user's message.
    fn user_message(&mut self, id: String, blocks: Vec<String>) {
        match &mut self.prompt {
            Some((known, old)) if *known == id => *old = blocks,
            _ => {
                self.flush();
                self.prompt = Some((id, blocks));
            }
        }
    }

    fn user(&mut self, id: Option<String>, block: String) {
        let id = id.unwrap_or_else(|| self.ids.message());
        match &mut self.prompt {
            Some((known, blocks)) if *known == id => blocks.push(block),
            _ => {
                self.flush();
                self.prompt = Some((id, vec![block]));
            }
        }
    }

    /// Adds the user's message as a prompt.
    fn flush(&mut self) {
        let Some((id, blocks)) = self.prompt.take() else {
            return;
        };
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        self.in_turn = true;
        let params = Object::new().raw("prompt", &format!("[{}]", blocks.join(",")));
        // A record's id must need no escaping.
        let plain = !id.is_empty() && !id.contains(['"', '\\']) && !id.contains(char::is_control);
        let id = if plain { id } else { self.ids.message() };
        self.block.push_with_id(Kind::Prompt, &id, &params.end());
    }

    /// The whole history; `None` if it is too long.
    pub(super) fn finish(mut self) -> Option<Block> {
        self.flush();
        if self.in_turn {
            self.block.push(Kind::End, END);
        }
        (!self.too_long).then_some(self.block)
    }
}

/// The id and the blocks of a message of the user, of version 2.
fn user_message(update: &str) -> Option<(Option<String>, Vec<String>)> {
    let name = string_member(update, "sessionUpdate")?;
    if Role::of_message(&name) != Some(Role::User) {
        return None;
    }
    let content = text_member(update, "content").unwrap_or("[]");
    let blocks = json::text_elements(content).map(str::to_owned).collect();
    Some((string_member(update, "messageId"), blocks))
}

/// The content of a chunk of the user's message, and the message's id.
fn user_block(payload: &str) -> Option<(Option<String>, String)> {
    // The update itself, or the parameters that it is a member of.
    let update = text_member(payload, "update").unwrap_or(payload);
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Chunk(Role::User) {
        return None;
    }
    let content = text_member(update, "content")?.to_owned();
    let id = string_member(update, "messageId");
    Some((id, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ids::RandomIds;

    fn user(id: &str, text: &str) -> String {
        format!(
            r#"{{"sessionUpdate":"user_message_chunk","content":{{"type":"text", "text":"{text}"}},"messageId":"{id}"}}"#
        )
    }

    #[test]
    fn the_users_messages_become_prompts_of_turns_that_end() {
        let mut import = Import::new(Arc::new(RandomIds));
        let answer = r#"{"sessionUpdate":"agent_message_chunk","n":1e400}"#;
        let info = r#"{"sessionUpdate":"usage_update"}"#;
        import.update(Kind::Update, &user("a", "one"));
        let with_meta = format!(r#"{{"_meta":{{"k":1}}, "update" : {} }}"#, user("a", "two"));
        import.update(Kind::UpdateParams, &with_meta);
        import.update(Kind::Update, answer);
        import.update(Kind::Info, info);
        import.update(Kind::Update, &user("b", "three"));
        assert_eq!(import.updates(), 4);
        let block = import.finish().unwrap();
        let records: Vec<_> = block
            .iter()
            .map(|entry| (entry.kind, entry.id, entry.payload))
            .collect();
        assert_eq!(
            records,
            [
                (
                    Kind::Prompt,
                    Some("a"),
                    r#"{"prompt":[{"type":"text", "text":"one"},{"type":"text", "text":"two"}]}"#
                ),
                (Kind::Update, None, answer),
                (Kind::Info, None, info),
                (Kind::End, None, END),
                (
                    Kind::Prompt,
                    Some("b"),
                    r#"{"prompt":[{"type":"text", "text":"three"}]}"#
                ),
                (Kind::End, None, END),
            ]
        );
    }
}
