//! Prompts that are left of conversations whose files are gone: some tools keep the user's prompts in a
//! history of their own, which they do not delete with the conversations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::index::Catalog;
use crate::store::Store;
use crate::sys::{SessionId, Timestamp};

use super::content;
use super::conversation::{ConversationBuilder, ToolConversation};
use super::file::bytes;
use super::import::{ImportError, session_id};
use super::{Source, ToolFolders, lines};

/// The notice at the end of such a conversation.
const NOTICE: &str = "[rejoin] Only the prompts of this conversation are left, in the history of prompts of \
                      its tool, which has deleted the rest.";

/// A tool's history of the user's prompts.
#[derive(Debug)]
pub(super) struct PromptHistory {
    /// The file, with a JSON object on each line.
    pub(super) file: fn(&ToolFolders) -> PathBuf,
    /// The prompt in such an object.
    pub(super) prompt: fn(&Value) -> Option<HistoryPrompt>,
}

/// A prompt in a tool's history.
#[derive(Debug)]
pub(super) struct HistoryPrompt {
    /// The tool's id of the conversation.
    pub(super) conversation: String,
    pub(super) at: Timestamp,
    pub(super) cwd: Option<String>,
    pub(super) text: String,
}

/// The conversations of which only prompts are left, in the tool's history: neither the tool nor the store has
/// them, and the user has not deleted them in the store.
pub fn gone(
    source: &Source,
    places: &ToolFolders,
    store: &Store,
    catalog: &Catalog,
) -> Result<Vec<ToolConversation>, ImportError> {
    let Some(history) = &source.prompts else {
        return Ok(Vec::new());
    };
    let Ok(bytes) = bytes(&(history.file)(places)) else {
        return Ok(Vec::new());
    };
    let mut prompts: BTreeMap<String, Vec<HistoryPrompt>> = BTreeMap::new();
    let objects = lines::objects(&bytes).objects;
    for prompt in objects.iter().filter_map(history.prompt) {
        let of_conversation = prompts.entry(prompt.conversation.clone()).or_default();
        of_conversation.push(prompt);
    }
    let found = source.find(places);
    if !found.errors.is_empty() {
        // What cannot be looked for may be there.
        return Ok(Vec::new());
    }
    let lengths: BTreeSet<usize> = prompts.keys().map(String::len).collect();
    for there in found.found {
        let name = there.path.file_name().unwrap_or_default().to_string_lossy();
        for id in parts_of_lengths(&name, &lengths) {
            prompts.remove(id);
        }
    }
    let deleted = store.trashed()?.into_iter().map(|trashed| trashed.id);
    let deleted: HashSet<SessionId> = deleted.collect();
    let conversations = prompts.into_values().map(conversation);
    let mut gone = Vec::new();
    for conversation in conversations {
        if !is_known(source.agent, &conversation, store, catalog, &deleted)? {
            gone.push(conversation);
        }
    }
    Ok(gone)
}

/// The parts of a name that have one of these lengths, in bytes.
fn parts_of_lengths<'a>(
    name: &'a str,
    lengths: &'a BTreeSet<usize>,
) -> impl Iterator<Item = &'a str> {
    lengths.range(..=name.len()).flat_map(move |len| {
        let starts = 0..=name.len() - len;
        starts.filter_map(move |start| name.get(start..start + len))
    })
}

/// Whether the store has a conversation, or the user has deleted it there.
fn is_known(
    agent: &str,
    conversation: &ToolConversation,
    store: &Store,
    catalog: &Catalog,
    deleted: &HashSet<SessionId>,
) -> Result<bool, ImportError> {
    let Some(id) = session_id(agent, conversation) else {
        return Ok(true);
    };
    let is_known = conversation.entries.is_empty() || deleted.contains(&id) || store.exists(&id)?;
    Ok(is_known || catalog.of_inner(agent, &conversation.id)?.is_some())
}

/// The conversation that these prompts are, with a notice.
fn conversation(prompts: Vec<HistoryPrompt>) -> ToolConversation {
    let mut builder = ConversationBuilder::default();
    let (mut id, mut cwd, mut last) = (None, None, None);
    for prompt in prompts {
        // A command that the tool carries out is no part of the conversation.
        if prompt.text.trim().is_empty() || prompt.text.starts_with('/') {
            continue;
        }
        builder.user(prompt.at, None, vec![content::text(&prompt.text)]);
        id = Some(prompt.conversation);
        cwd = prompt.cwd.or(cwd);
        last = Some(prompt.at);
    }
    if let Some(last) = last {
        builder.agent(last, None, content::text(NOTICE));
    }
    builder.finish(id, cwd)
}
