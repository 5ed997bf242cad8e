//! The clients of a session: which fronts have it open, who has sent which prompt, and which of them a
//! request of the engine goes to.

use std::collections::HashMap;
use std::mem;

use crate::engine::ClientCapabilities;
use crate::json;
use crate::protocol::meta::CLIENT;
use crate::session::link::feed::{Admission, Asks, FrontEnd, FrontEvents};
use crate::session::link::owners::{Linked, Owners};
use crate::session::request::AnswerDue;
use crate::sys::SessionId;

/// The fronts of a session that is owned here.
pub(in crate::session) struct Fronts {
    /// The front of the owner's own task.
    pub(super) own: FrontEvents,
    /// The fronts in other tasks.
    pub(super) list: Vec<FrontEnd>,
    /// The fronts that come while the session is being created.
    pub(super) waiting: Vec<(FrontEnd, Admission)>,
    /// Who has sent the prompts that are being answered, by the ids of their messages, if not the
    /// client of the owner's own task.
    pub(super) prompters: HashMap<String, Prompter>,
    /// Whether the client of the owner's own task has closed the session, or has gone.
    pub(in crate::session) is_detached: bool,
    /// The number by which fronts find the owner, while it owns the session.
    pub(super) owner: Option<u64>,
}

/// The client that has sent a prompt.
#[derive(Clone)]
pub(super) struct Prompter {
    /// The number of its link.
    pub(super) link: u64,
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
    /// The name of a client in another task.
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
    pub(super) fn new(own: FrontEvents) -> Self {
        Self {
            own,
            list: Vec::new(),
            waiting: Vec::new(),
            prompters: HashMap::new(),
            is_detached: false,
            owner: None,
        }
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

    /// Whether the client of a prompt is in another task; then when it is answered.
    pub(in crate::session) fn prompted_elsewhere(&self, message_id: &str) -> Option<AnswerDue> {
        let prompter = self.prompters.get(message_id)?;
        Some(prompter.due)
    }

    /// The prompts that clients in other tasks have sent.
    pub(in crate::session) fn prompts_of_others(&self) -> Vec<String> {
        self.prompters.keys().cloned().collect()
    }

    /// The name of the client that has sent a prompt, if the session has several. `own` is that of the
    /// owner's own task.
    pub(super) fn sender_of(&self, message_id: &str, own: Option<&str>) -> Option<String> {
        match self.prompters.get(message_id) {
            Some(prompter) => prompter.client.clone(),
            None if self.any() => own.map(str::to_owned),
            None => None,
        }
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
