//! The clients of a session: which fronts have it open, who has sent which prompt, and which of them a
//! request of the engine goes to.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::ClientCapabilities;
use crate::json::{self, with_string};
use crate::protocol::meta::CLIENT;
use crate::protocol::method::is_of_client_machine;
use crate::record::header::Header;
use crate::session::Client;
use crate::session::link::feed::{Admission, Asks, FrontEnd, FrontEvents};
use crate::session::link::owners::{Linked, Owners};
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::session::request::{AnswerDue, Request};
use crate::store::Holder;
use crate::sys::SessionId;

/// The fronts of a session that is owned here.
pub(in crate::session) struct Fronts {
    /// Where the front of the owner's own task gets its questions.
    own: FrontEvents,
    /// Its client, which has opened the session.
    pub(super) client: Arc<Client>,
    /// The name of that client, unless the log's header has it: then an answer need not name it.
    own_name: Option<String>,
    /// The id by which that client knows the session.
    pub(in crate::session) client_id: String,
    /// The fronts in other tasks.
    pub(super) list: Vec<FrontEnd>,
    /// The fronts that come while the session is being created.
    pub(super) waiting: Vec<(FrontEnd, Admission)>,
    /// Who has sent the prompts that are being answered, by the ids of their messages, if not the
    /// client of the owner's own task.
    prompters: HashMap<String, Prompter>,
    /// Whether the client of the owner's own task has closed the session, or has gone.
    pub(in crate::session) is_detached: bool,
    /// The number by which fronts find the owner, while it owns the session.
    pub(super) owner: Option<u64>,
}

/// The client that has sent a prompt.
struct Prompter {
    /// The number of its link.
    link: u64,
    due: AnswerDue,
    /// The name of the client.
    client: Option<String>,
}

/// A client that a request of the engine goes to.
#[derive(Clone)]
pub(in crate::session) struct Target {
    pub(in crate::session) asks: Asks,
    /// The id by which it knows the session.
    pub(in crate::session) client_id: String,
    /// The name of a client in another task, or of one that has not created the session.
    pub(in crate::session) client: Option<String>,
    /// What it can do, if it has said so.
    pub(super) abilities: Option<ClientCapabilities>,
}

impl Target {
    /// Whether it can show a request that any client may answer.
    pub(in crate::session) fn can_show(&self, method: &str, params: &str) -> bool {
        let abilities = self.abilities.as_ref();
        abilities.is_none_or(|abilities| abilities.can_show(method, params))
    }
}

/// The client of a front in another task.
pub(super) fn target_of(front: &FrontEnd) -> Target {
    Target {
        asks: front.feed.asks(),
        client_id: front.client_id.clone(),
        client: front.client.clone(),
        abilities: front.abilities,
    }
}

impl Fronts {
    pub(super) fn new(own: FrontEvents, client: Arc<Client>, id: &SessionId) -> Self {
        Self {
            own,
            client,
            own_name: None,
            client_id: id.to_string(),
            list: Vec::new(),
            waiting: Vec::new(),
            prompters: HashMap::new(),
            is_detached: false,
            owner: None,
        }
    }

    /// The log with this header was opened.
    pub(super) fn opened(&mut self, header: &Header) {
        let creator = header.answering_client();
        let name = self.client.name();
        let is_other = |name: &&str| creator.is_none_or(|creator| creator.name != *name);
        self.own_name = name.filter(is_other).map(str::to_owned);
    }

    /// The front with this number.
    pub(in crate::session) fn find(&self, number: u64) -> Option<&FrontEnd> {
        self.list.iter().find(|front| front.number == number)
    }

    /// Whether other clients than that of the owner's own task have the session open.
    pub(in crate::session) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether some wait to be admitted.
    pub(in crate::session) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there are others than the front with this number.
    pub(in crate::session) fn has_others(&self) -> bool {
        self.list.len() > 1 || !self.is_detached
    }

    /// The turn of a prompt has ended.
    pub(in crate::session) fn forget(&mut self, message_id: &str) {
        self.prompters.remove(message_id);
    }

    /// A front comes.
    pub(in crate::session) fn wait(&mut self, front: FrontEnd, admission: Admission) {
        self.waiting.push((front, admission));
    }

    /// The front with this number has gone.
    pub(in crate::session) fn remove(&mut self, number: u64) {
        self.list.retain(|front| front.number != number);
    }

    /// The client of the front with this number has sent a prompt.
    pub(in crate::session) fn prompted(&mut self, number: u64, message_id: &str, due: AnswerDue) {
        let client = self.find(number).and_then(|front| front.client.clone());
        let prompter = Prompter {
            link: number,
            due,
            client,
        };
        self.prompters.insert(message_id.to_owned(), prompter);
    }

    /// A prompt that has come with one message id is logged under another one.
    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        if let Some(prompter) = self.prompters.remove(from) {
            self.prompters.insert(to.to_owned(), prompter);
        }
    }

    /// Whether the client of a prompt is in another task; then when it is answered.
    pub(in crate::session) fn prompted_elsewhere(&self, message_id: &str) -> Option<AnswerDue> {
        let prompter = self.prompters.get(message_id)?;
        Some(prompter.due)
    }

    /// The prompts that clients in other tasks have sent.
    pub(in crate::session) fn prompts_of_others(&self) -> Vec<String> {
        self.prompters.keys().cloned().collect()
    }

    /// The name of the client that has sent a prompt, if the session has several.
    pub(in crate::session) fn sender_of(&self, message_id: &str) -> Option<String> {
        match self.prompters.get(message_id) {
            Some(prompter) => prompter.client.clone(),
            None if self.any() => self.client.name().map(str::to_owned),
            None => None,
        }
    }

    /// The refusal of a request that would take the session away from other clients. It was sent by
    /// the client of the front with this number, or by that of the owner's own task.
    pub(in crate::session) fn in_use_by_others(&self, front: Option<u64>) -> Refusal {
        let own = (front.is_some() && !self.is_detached)
            .then(|| (std::process::id(), self.client.name()));
        let others = self.list.iter();
        let others = others.filter(|other| Some(other.number) != front);
        let others = others.map(|other| (other.pid, other.client.as_deref()));
        let clients: Vec<_> = own.into_iter().chain(others).collect();
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
                self.client_id,
                names.join(", ")
            ),
            holder,
        }
    }

    /// Why a request of the own client is not served, which `looks_on`, has closed the session, or would
    /// take it away from others.
    pub(in crate::session) fn refusal_of(
        &self,
        request: &Request<Reply>,
        looks_on: bool,
    ) -> Option<Refusal> {
        let changes = matches!(
            request,
            Request::Prompt { .. }
                | Request::Call { .. }
                | Request::MetadataChange(..)
                | Request::Rewind { .. }
                | Request::Delete(_)
                | Request::DeleteForAll(_)
        );
        match request {
            _ if changes && looks_on => Some(Refusal::Observes),
            Request::Prompt { .. } | Request::Call { .. } | Request::Rewind { .. }
                if self.is_detached =>
            {
                Some(Refusal::NotOpen)
            }
            Request::MetadataChange(..) if self.is_detached && self.any() => {
                Some(self.in_use_by_others(None))
            }
            Request::Delete(_) if self.any() => Some(self.in_use_by_others(None)),
            _ => None,
        }
    }

    /// The parameters with the own client's id of the session at this place. The sessions of subagents
    /// have the same id everywhere, and no place.
    pub(in crate::session) fn with_client_id(
        &self,
        params: String,
        place: Option<Range<usize>>,
    ) -> String {
        match place {
            Some(place) => with_string(&params, &place, &self.client_id),
            None => params,
        }
    }

    /// The clients that a request of the engine by this name goes to: the one that has sent this prompt,
    /// if the request is about its machine, or all. The client of the owner's own task `looks_on` if it
    /// is asked nothing.
    pub(super) fn targets(
        &self,
        method: &str,
        message_id: Option<&str>,
        looks_on: bool,
    ) -> Vec<Target> {
        if is_of_client_machine(method) {
            self.prompter(message_id, looks_on).into_iter().collect()
        } else {
            self.everyone(looks_on)
        }
    }

    fn everyone(&self, looks_on: bool) -> Vec<Target> {
        let fronts = self.list.iter().filter(|front| !front.observes);
        let own = self.own_target(looks_on).into_iter();
        own.chain(fronts.map(target_of)).collect()
    }

    /// The client that has sent this prompt.
    fn prompter(&self, message_id: Option<&str>, looks_on: bool) -> Option<Target> {
        match message_id.and_then(|message_id| self.prompters.get(message_id)) {
            Some(prompter) => self.find(prompter.link).map(target_of),
            None => self.own_target(looks_on),
        }
    }

    fn own_target(&self, looks_on: bool) -> Option<Target> {
        (!self.is_detached && !looks_on).then(|| Target {
            asks: Asks::Own(self.own.clone()),
            client_id: self.client_id.clone(),
            client: self.own_name.clone(),
            abilities: Some(self.client.abilities),
        })
    }

    /// Notifies the clients in other tasks that the session is closed on purpose.
    pub(in crate::session) fn notify_stopped(&self) {
        for front in &self.list {
            front.feed.stopped();
        }
    }

    /// Passes a notification of the engine on to the clients in other tasks.
    pub(in crate::session) async fn notify(&mut self, method: &str, params: &str) {
        let mut stuck = Vec::new();
        for front in &self.list {
            let params = named(params, &front.client_id);
            if !front.feed.notify(method, params).await {
                stuck.push(front.number);
            }
        }
        // A process that goes on one day finds the session again.
        self.list.retain(|front| !stuck.contains(&front.number));
    }

    /// Lets others know which clients the session has in other processes.
    pub(in crate::session) fn count(&self, owners: &Owners, id: &SessionId) {
        let elsewhere = self.list.iter();
        // The fronts of this process are known.
        let elsewhere = elsewhere.filter(|front| front.pid != std::process::id());
        let linked = elsewhere.map(|front| Linked {
            client: front.client.clone(),
            since: front.since.clone(),
        });
        owners.set_linked(id, linked.collect());
    }

    /// From now on fronts do not find the owner. Their clients find the next one, after they were sent
    /// everything.
    pub(super) fn leave(&mut self) {
        self.owner = None;
        self.is_detached = false;
        self.waiting.clear();
        self.prompters.clear();
        for front in mem::take(&mut self.list) {
            front.feed.end();
        }
    }
}

/// The payload of a prompt with the name of the client that has sent it.
pub(in crate::session) fn sent_by(params: &str, client: &str) -> String {
    json::with_members(params, &[], &[(CLIENT, &json::quoted(client))])
}

/// Parameters with another id of the session.
pub(super) fn named(params: &str, client_id: &str) -> String {
    let quoted = json::quoted(client_id);
    json::remade(params, |member, value| {
        let is_id = member == "sessionId";
        Some(if is_id { &*quoted } else { value }.into())
    })
}
