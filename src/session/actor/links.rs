//! The session for clients elsewhere: admits their links, serves what comes through them, and says
//! which clients a request of the engine goes to.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::{AttachReason, ClientCapabilities, Prompt};
use crate::json;
use crate::protocol::meta::CLIENT;
use crate::record::{Kind, Record};
use crate::replay::{Options, Replay};
use crate::session::effect::{Batch, Effect};
use crate::session::link::Linked;
use crate::session::link::message::{self, Attached, STOPPED};
use crate::session::link::serve::{Link, LinkCommand, refuse};
use crate::session::open_session::LogAccess;
use crate::session::outcome::{Done, Refusal};
use crate::session::phase::Phase;
use crate::session::reply::Reply;
use crate::session::request::{AnswerDue, Leaving, Request};
use crate::store::Holder;
use crate::transport::message::notification_line;
use crate::transport::{ClientConnection, Responder};

use super::Actor;
use super::lock::observes;
use super::own_front::PATIENCE;

/// How long a client may take to read what it was sent before its link ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The links of a session that is owned here.
#[derive(Default)]
pub(super) struct Links {
    list: Vec<Link>,
    /// Those that come while the session is being created.
    waiting: Vec<(Link, Responder)>,
    /// Who has sent the prompts that are being answered, by the ids of their messages, if not the
    /// actor's own client.
    prompters: HashMap<String, Prompter>,
    /// Whether the actor's own client has closed the session, which is open for others.
    pub(super) is_detached: bool,
    /// The number by which links find this actor, while it owns the session.
    owner: Option<u64>,
}

/// The client that has sent a prompt.
#[derive(Clone)]
struct Prompter {
    /// The number of its link.
    link: u64,
    due: AnswerDue,
    /// The name of the client.
    client: Option<String>,
}

/// A client that a request of the engine goes to.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) wire: Arc<ClientConnection>,
    /// The id by which it knows the session.
    pub(super) name: String,
    /// Whether it is elsewhere.
    pub(super) is_elsewhere: bool,
    /// Whether it is the actor's own client, perhaps by way of another actor.
    pub(super) is_own: bool,
    /// The name of a client elsewhere.
    pub(super) client: Option<String>,
    /// What it can do, if it has said so.
    abilities: Option<ClientCapabilities>,
}

impl Target {
    /// Whether it can show a request that any client may answer.
    pub(super) fn can_show(&self, method: &str, params: &str) -> bool {
        let abilities = self.abilities.as_ref();
        abilities.is_none_or(|abilities| abilities.can_show(method, params))
    }
}

impl Links {
    fn find(&self, number: u64) -> Option<&Link> {
        self.list.iter().find(|link| link.number == number)
    }

    /// Whether the link with this number is that of the actor's own client, which another actor serves.
    fn is_own(&self, number: u64) -> bool {
        self.find(number).is_some_and(|link| link.is_own)
    }

    /// Whether other clients have the session open.
    pub(super) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// The turn of a prompt has ended.
    pub(super) fn forget(&mut self, message_id: &str) {
        self.prompters.remove(message_id);
    }
}

impl Link {
    /// Ends the link once its client was sent everything.
    async fn end(self) {
        timeout(LAST_WORDS, self.wire.writer.written()).await.ok();
    }

    fn target(&self) -> Target {
        Target {
            wire: self.wire.clone(),
            name: self.name.clone(),
            is_elsewhere: true,
            is_own: self.is_own,
            client: self.client.clone(),
            abilities: self.abilities,
        }
    }
}

impl Actor {
    /// Closes the session for all its clients, on purpose.
    pub(super) fn stop(&mut self, reply: Reply) -> Batch<Reply> {
        self.notify_stopped();
        self.machine.request(Request::Close(reply))
    }

    /// Notifies the other clients that the session is closed on purpose.
    pub(super) fn notify_stopped(&self) {
        let stopped = notification_line(STOPPED, "{}");
        for link in &self.links.list {
            // One that is gone needs no notification.
            link.wire
                .writer
                .put_line(stopped.trim_end().as_bytes())
                .ok();
        }
    }

    /// Lets links find this actor while it owns the session.
    pub(super) fn update_owner(&mut self) {
        let session = self.session.as_ref();
        let owns = session.is_some_and(|session| {
            matches!(session.log, LogAccess::Own(_) | LogAccess::Failed(Some(_)))
        });
        match (owns, self.links.owner) {
            (true, None) => {
                let number = self.deps.owners.add(&self.id, self.messages.clone());
                self.links.owner = Some(number);
            }
            (false, Some(number)) => {
                self.deps.owners.remove(&self.id, number);
                // Their clients find the next owner, after they were sent everything.
                for link in mem::take(&mut self.links).list {
                    tokio::spawn(link.end());
                }
            }
            _ => {}
        }
    }

    /// A message of a link.
    pub(super) fn link_command(&mut self, number: u64, command: LinkCommand) -> Batch<Reply> {
        match command {
            LinkCommand::Attach(link, responder) => self.links.waiting.push((link, responder)),
            LinkCommand::Describe(responder) => self.describe(responder),
            LinkCommand::Passed(request) => return self.passed(number, request),
            LinkCommand::Detach => {
                self.links.list.retain(|link| link.number != number);
                self.count_links();
                return self.close_unless_wanted();
            }
        }
        Vec::new()
    }

    /// Admits the links that have come.
    pub(super) fn admit_links(&mut self) {
        if self.links.waiting.is_empty() || self.machine.is_being_created() {
            return;
        }
        for (mut link, responder) in mem::take(&mut self.links.waiting) {
            if self.links.owner.is_none() {
                refuse(responder);
                continue;
            }
            tracing::info!(session = %self.id, client = link.client, "another client has attached");
            let session = self.session.as_ref();
            let attached = Attached {
                commands: session.and_then(|session| session.conversation.commands()),
                native: self.deps.engine.is_native(),
            };
            responder.answer(Ok(message::text(&Ok::<_, Refusal>(attached))));
            let own = self.own_front.as_ref();
            link.is_own = own.is_some_and(|own| own.has(link.key.as_deref()));
            if !link.observes {
                self.client_requests.ask_too(&link.target());
            }
            link.since = self.deps.sys.clock.now().to_string();
            self.links.list.push(link);
        }
        self.count_links();
    }

    /// Lets others know which clients the session has elsewhere.
    fn count_links(&self) {
        let elsewhere = self.links.list.iter();
        // Those of this process are known.
        let elsewhere = elsewhere.filter(|link| link.pid != std::process::id());
        let linked = elsewhere.map(|link| Linked {
            client: link.client.clone(),
            since: link.since.clone(),
        });
        self.deps.owners.set_linked(&self.id, linked.collect());
    }

    /// Answers what opens the session in its engine.
    fn describe(&self, responder: Responder) {
        let Some(session) = &self.session else {
            return refuse(responder);
        };
        let attached = session.conversation.attach(AttachReason::Elsewhere);
        tokio::spawn(async move {
            let attached = attached.await.map_err(Refusal::Engine);
            let answer = attached.map(|attached| attached.answer);
            responder.answer(Ok(message::text(&answer)));
        });
    }

    fn passed(&mut self, number: u64, request: Request<Reply>) -> Batch<Reply> {
        let link = self.links.find(number);
        let others = self.links.list.len() > 1 || !self.links.is_detached;
        let refusal = match &request {
            _ if link.is_none() => Some(Refusal::NotOpen),
            Request::Delete(_) if others => Some(self.in_use_by_others(Some(number))),
            _ => None,
        };
        match (refusal, request) {
            (None, request) => {
                if let Request::Prompt {
                    message_id, due, ..
                } = &request
                {
                    let prompter = Prompter {
                        link: number,
                        due: *due,
                        client: link.and_then(|link| link.client.clone()),
                    };
                    self.links.prompters.insert(message_id.clone(), prompter);
                }
                self.machine.request(request)
            }
            (
                Some(refusal),
                Request::Prompt { reply, .. }
                | Request::Call { reply, .. }
                | Request::MetadataChange(reply, _)
                | Request::Delete(reply)
                | Request::DeleteForAll(reply),
            ) => vec![Effect::Answer(reply, Err(refusal))],
            _ => Vec::new(),
        }
    }

    /// The refusal of a request that would take the session away from other clients. It was sent by
    /// the client of the link with this number, or by the actor's own.
    fn in_use_by_others(&self, link: Option<u64>) -> Refusal {
        let own = (link.is_some() && !self.links.is_detached)
            .then(|| (std::process::id(), self.client_name()));
        let links = self.links.list.iter();
        let links = links.filter(|other| Some(other.number) != link);
        let links = links.map(|link| (link.pid, link.client.as_deref()));
        let clients: Vec<_> = own.into_iter().chain(links).collect();
        let mut names: Vec<_> = clients
            .iter()
            .map(|(_, client)| client.unwrap_or("another client"))
            .collect();
        names.sort_unstable();
        names.dedup();
        let holder = clients.first().map(|(pid, client)| Holder {
            pid: *pid,
            ..Holder::this_process(*client)
        });
        Refusal::InUse {
            message: format!(
                "session {} is open in {}: close it there first",
                self.name,
                names.join(", ")
            ),
            holder,
        }
    }

    /// A request of the actor's own client, of which others have the session open, too.
    pub(super) fn among_others(&mut self, request: Request<Reply>) -> Batch<Reply> {
        let request = match request {
            Request::Prompt { reply, .. }
            | Request::Call { reply, .. }
            | Request::MetadataChange(reply, _)
            | Request::Delete(reply)
            | Request::DeleteForAll(reply)
                if self.observes() =>
            {
                return vec![Effect::Answer(reply, Err(Refusal::Observes))];
            }
            Request::Prompt { reply, .. } | Request::Call { reply, .. }
                if self.links.is_detached =>
            {
                return vec![Effect::Answer(reply, Err(Refusal::NotOpen))];
            }
            Request::Status(reply) if self.links.is_detached && self.own_front.is_none() => {
                let (open, phase) = (false, Phase::Idle(None));
                return vec![Effect::Answer(reply, Ok(Done::Status { open, phase }))];
            }
            Request::MetadataChange(reply, _) if self.links.is_detached && self.links.any() => {
                return vec![Effect::Answer(reply, Err(self.in_use_by_others(None)))];
            }
            Request::Leave(Leaving::Client { .. }) => {
                let prompters = self.links.prompters.iter();
                let others = prompters.filter(|(_, by)| !self.links.is_own(by.link));
                let others = others.map(|(id, _)| id.clone()).collect();
                Request::Leave(Leaving::Client { others })
            }
            Request::Cancel { .. } | Request::Notify { .. }
                if self.observes() || self.links.is_detached =>
            {
                return Vec::new();
            }
            request => request,
        };
        if let Request::Prompt { message_id, .. } = &request {
            self.own_prompt(message_id);
        }
        match request {
            Request::Close(reply) if self.links.any() => {
                self.links.is_detached = true;
                let mut batch = self.cancel_own_turns();
                batch.push(Effect::Answer(reply, Ok(Done::Closed)));
                batch
            }
            Request::Delete(reply) if self.links.any() => {
                vec![Effect::Answer(reply, Err(self.in_use_by_others(None)))]
            }
            // The others are asked, too, and do not know of the cancellation.
            Request::Cancel { .. } if self.links.any() => {
                self.machine.request(Request::Cancel { withdraw: true })
            }
            request => {
                let opens = matches!(
                    request,
                    Request::Load(..) | Request::LoadFrom { .. } | Request::Resume(..)
                );
                self.links.is_detached &= !opens;
                self.machine.request(request)
            }
        }
    }

    /// Whether the actor's own client only looks on, and is asked nothing.
    pub(super) fn observes(&self) -> bool {
        let session = self.session.as_ref();
        self.deps.observes || session.is_some_and(|session| observes(&session.config))
    }

    /// Cancels the turns of the actor's own client, which has closed the session.
    pub(super) fn cancel_own_turns(&mut self) -> Batch<Reply> {
        let mut turns = self.turns.iter();
        if turns.any(|turn| !self.links.prompters.contains_key(&turn.message_id)) {
            self.machine.request(Request::Cancel { withdraw: true })
        } else {
            Vec::new()
        }
    }

    /// Closes a session that no client has open, unless a turn runs.
    pub(super) fn close_unless_wanted(&mut self) -> Batch<Reply> {
        let links = &self.links;
        let has_own = !links.is_detached || self.own_front.is_some();
        let is_wanted = has_own || links.any() || !links.waiting.is_empty();
        if is_wanted || !self.turns.is_empty() || !self.machine.is_settled() {
            return Vec::new();
        }
        self.machine.request(Request::Close(Reply::silent()))
    }

    /// The clients that a request of the engine goes to: files and terminals are those of the client
    /// that has sent the prompt; everything else may be answered by any.
    pub(super) fn targets(&self, is_private: bool) -> Vec<Target> {
        let is_asked = !self.links.is_detached && !self.observes();
        let own = is_asked.then(|| Target {
            wire: self.deps.wire.clone(),
            name: self.name.clone(),
            is_elsewhere: false,
            is_own: true,
            client: None,
            abilities: Some(self.client.abilities),
        });
        if let (true, Some(prompter)) = (is_private, self.prompter()) {
            let link = self.links.find(prompter.link).map(Link::target);
            return link.into_iter().collect();
        }
        if is_private {
            let mut links = self.links.list.iter();
            let own_link = || links.find(|link| link.is_own).map(Link::target);
            return own.or_else(own_link).into_iter().collect();
        }
        let links = self.links.list.iter().filter(|link| !link.observes);
        own.into_iter().chain(links.map(Link::target)).collect()
    }

    /// The client of the turn that runs, if it is not the actor's own.
    fn prompter(&self) -> Option<&Prompter> {
        let turn = self.turns.last()?;
        self.links.prompters.get(&turn.message_id)
    }

    /// Whether files and terminals are those of the actor's own client.
    pub(super) fn is_own_turn(&self) -> bool {
        self.prompter().is_none()
    }

    /// Passes a notification of the engine on to the other clients.
    pub(super) async fn notify_links(&mut self, method: &str, params: &str) {
        let mut stuck = Vec::new();
        for link in &self.links.list {
            let params = named(params, &link.name);
            let notified = link.wire.notify(method, &params);
            if timeout(PATIENCE, notified).await.is_err() {
                stuck.push(link.number);
            }
        }
        // A process that goes on one day finds the session again.
        self.links.list.retain(|link| !stuck.contains(&link.number));
    }

    /// Whether the client of a prompt is elsewhere; then when it is answered.
    pub(super) fn prompted_elsewhere(&self, message_id: &str) -> Option<AnswerDue> {
        let prompter = self.links.prompters.get(message_id)?;
        Some(prompter.due)
    }

    /// The name of the client that has sent a prompt, if the session has several.
    pub(super) fn sender_of(&self, message_id: &str) -> Option<String> {
        match self.links.prompters.get(message_id) {
            Some(prompter) => prompter.client.clone(),
            None if self.links.any() => self.client_name().map(str::to_owned),
            None => None,
        }
    }

    /// The name of the client whose turn runs, if the session has several.
    pub(super) fn prompting_client(&self) -> Option<String> {
        let turn = self.turns.last()?;
        self.sender_of(&turn.message_id)
    }

    /// Shows the actor's own client a prompt that another client has sent.
    pub(super) async fn show_prompt(&mut self, prompt: &Prompt) {
        let Some(due) = self.prompted_elsewhere(&prompt.message_id) else {
            return;
        };
        if self.view.has_state() {
            if due == AnswerDue::TurnEnds {
                self.send_user_message(prompt).await;
            }
            return;
        }
        let at = self.deps.sys.clock.now().to_string();
        let client = self.sender_of(&prompt.message_id);
        let payload = client.map(|client| sent_by(&prompt.params, &client));
        let session = self.session.as_ref();
        let prompts = session.map_or(0, |session| session.summary.prompts);
        let options = Options {
            earlier_turns: prompts.saturating_sub(1),
            ..self.deps.replay.for_all(&self.deps, &self.client)
        };
        let mut replay = Replay::new(&self.name, options);
        self.line.clear();
        let record = Record {
            seq: 0,
            at: &at,
            kind: Kind::Prompt,
            id: Some(&prompt.message_id),
            payload: payload.as_deref().unwrap_or(&prompt.params),
            parts: None,
        };
        replay.record(&record, &mut self.line);
        replay.finish(&mut self.line);
        self.put_lines().await;
        self.all_is_sent();
    }
}

/// The payload of a prompt with the name of the client that has sent it.
pub(super) fn sent_by(params: &str, client: &str) -> String {
    let members = json::text_members(params).into_iter();
    let client = json::quoted(client);
    let sender = (CLIENT.to_owned(), &*client);
    let members = members.filter(|(name, _)| name != CLIENT);
    json::object(members.chain([sender]))
}

/// Parameters with another id of the session.
pub(super) fn named(params: &str, name: &str) -> String {
    let quoted = json::quoted(name);
    let members = json::text_members(params).into_iter();
    json::object(members.map(|(member, value)| {
        let value = if member == "sessionId" {
            &*quoted
        } else {
            value
        };
        (member, value)
    }))
}
