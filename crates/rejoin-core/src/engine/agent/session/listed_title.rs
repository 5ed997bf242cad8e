//! Titles that an agent gives its sessions in its list alone.
//!
//! OpenCode and Kilo have a model write a title while it answers the first prompt, and send no update
//! about it. Such a title is looked up after a turn and recorded as if the agent had sent it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::live::LiveSession;
use crate::engine::agent::route::hidden_briefing::AgentTitles;
use crate::engine::agent::wire::list;
use crate::engine::{Block, History, Prompt};
use crate::record::Kind;
use crate::record::title::{self, is_beginning, says_nothing};
use crate::sys::blocking;

/// How long each look at the list comes after the one before it, and the first one after the turn: the
/// title may be written later than the answer.
const LOOKS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(8),
];

/// How many of the latest prompts a title is compared with.
const LAST_PROMPTS: u64 = 32;

impl LiveSession {
    /// Looks the title up that the agent has given the session, after the turn of this prompt, unless it
    /// has sent one or a client has set one. `history` has the prompts before this one.
    pub(super) fn follow_title(&self, history: &Arc<dyn History>, prompt: &Prompt) {
        if !self.connection.capabilities().list
            || self.route.with_titles(|titles| titles.are_settled())
        {
            return;
        }
        let (live, history, prompt) = (self.clone(), history.clone(), prompt.params.clone());
        tokio::spawn(async move {
            let first = blocking(|| first_prompt(&*history)).unwrap_or_else(|| prompt.clone());
            if live
                .route
                .with_titles(|titles| titles.is_given_unlike(title::title(&first)))
            {
                return;
            }
            let mut prompts = vec![first, prompt];
            prompts.extend(blocking(|| last_prompts(&*history)));
            for wait in LOOKS {
                sleep(wait).await;
                let is_over = live.connection.routes.get(&live.session_id).is_none();
                if is_over || !live.route.with_titles(AgentTitles::looks) {
                    return;
                }
                let title = live.listed_title().await;
                let given = title.and_then(|title| given(&title, &prompts));
                if let Some(title) = given.filter(|_| live.route.with_titles(AgentTitles::takes)) {
                    let update = live.route.payload(title::update(&title));
                    let block = Block::of(live.route.snapshot_kind(), update);
                    return live.route.send(block).await;
                }
            }
        });
    }

    async fn listed_title(&self) -> Option<String> {
        let folder = Some(self.route.folder());
        let listing = list::look_up(&self.connection, &self.session_id, folder).await;
        listing.entry().title
    }
}

/// The update with the title that the agent's list has of an imported session, whose records are these. None if
/// the agent has sent one, or has made it of the first prompt.
pub(super) fn of_imported(records: &Block, listed: &str) -> Option<String> {
    let has_title = |payload| title::named(payload).flatten().is_some();
    if records.iter().any(|entry| has_title(entry.payload)) {
        return None;
    }
    let prompts = records.iter().filter(|entry| entry.kind == Kind::Prompt);
    let prompts: Vec<_> = prompts.map(|entry| entry.payload.to_owned()).collect();
    given(listed, &prompts).map(|title| title::update(&title))
}

/// A title in the form to be shown, if it says anything and is not the beginning of one of these prompts.
fn given(title: &str, prompts: &[String]) -> Option<String> {
    let is_made = |title: &String| prompts.iter().any(|prompt| is_beginning(title, prompt));
    title::given(title).filter(|title| !is_made(title))
}

/// The prompt of which a title is made: the first one that says anything about the session.
fn first_prompt(history: &dyn History) -> Option<String> {
    let prompts = 0..history.prompts();
    let mut prompts = prompts.map_while(|index| Some(history.prompt(index).ok()?.params));
    let has_words =
        |params: &String| title::title(params).is_some_and(|title| !says_nothing(&title));
    prompts.find(has_words)
}

/// The latest prompts of the conversation: some agents list the last one in place of a title.
fn last_prompts(history: &dyn History) -> Vec<String> {
    let count = history.prompts();
    let last = count.saturating_sub(LAST_PROMPTS)..count;
    let prompts = last.filter_map(|index| Some(history.prompt(index).ok()?.params));
    prompts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_agent_makes_of_the_prompt_is_no_title_of_its_own() {
        let prompt =
            json!({"prompt": [{"type": "text", "text": "Count the  hives\nin the north"}]});
        let prompt = prompt.to_string();
        for (title, expected) in [
            ("Hive count", Some("Hive count")),
            ("Hive\ncount", Some("Hive")),
            ("Count the hives", None),
            ("Count the hives in…", None),
            ("count the hives...", None),
            ("Count the hives and more", Some("Count the hives and more")),
            ("New session - 2026-11-27T10:00:00.000Z", None),
            ("Untitled", None),
            (" ", None),
        ] {
            assert_eq!(
                given(title, std::slice::from_ref(&prompt)).as_deref(),
                expected,
                "{title}"
            );
        }
    }
}
