//! Prepared stores and logs, written by the store's own writer.

use std::path::{Path, PathBuf};
use std::process::Command;

use rejoin::record::Kind;
use rejoin::record::header::Header;
use rejoin::store::{Durability, Log, Store, Sync};
use rejoin::sys::{SessionId, Sys};
use tempfile::TempDir;

use crate::Result;

/// A store in a folder that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Filled {
    folder: TempDir,
    pub(crate) store: Store,
}

impl Filled {
    /// A new store beside the build's own files, so that it lies on a real disk.
    pub(crate) fn new(durability: Durability) -> Result<Self> {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        let store = Store::open(&folder.path().join("store"), Sys::real(), durability)?;
        Ok(Self { folder, store })
    }

    /// The store's folder.
    pub(crate) fn path(&self) -> &Path {
        self.store.root()
    }

    /// A place for another file.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Removes all sessions that are in it, so that the next ones find the disk as the first did.
    pub(crate) fn empty(&self) -> Result<()> {
        for entry in std::fs::read_dir(self.path().join("sessions"))? {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    /// Where a session's log lies.
    pub(crate) fn log_path(&self, id: &SessionId) -> PathBuf {
        self.path().join("sessions").join(format!("{id}.jsonl"))
    }

    /// Makes a session that has only its header.
    pub(crate) fn session(&self) -> Result<Log> {
        let id = Sys::real().ids.session();
        let header = Header::new(&id, "/w");
        Ok(self.store.create(&id, &header)?)
    }

    /// Makes a session of one turn whose answer has so many chunks of so many bytes of text.
    pub(crate) fn long_answer(&self, chunks: usize, text: usize) -> Result<SessionId> {
        let mut log = self.session()?;
        prompt(&mut log)?;
        for n in 0..chunks {
            log.append(Kind::Update, None, &chunk(n, text), Sync::Buffered)?;
        }
        end(&mut log)?;
        settle();
        Ok(log.id().clone())
    }

    /// Makes a session of many short turns.
    pub(crate) fn many_turns(&self, turns: usize) -> Result<SessionId> {
        let mut log = self.session()?;
        for turn in 0..turns {
            short_turn(&mut log, turn)?;
        }
        settle();
        Ok(log.id().clone())
    }

    /// Makes many sessions of one turn each; returns the last one's id.
    pub(crate) fn sessions(&self, count: usize) -> Result<SessionId> {
        let mut last = None;
        for turn in 0..count {
            let mut log = self.session()?;
            short_turn(&mut log, turn)?;
            last = Some(log.id().clone());
        }
        settle();
        last.ok_or_else(|| "no sessions were asked for".into())
    }
}

/// Has the system write back what was filled in, so that it does not do so while we measure.
fn settle() {
    // Where there is no such program, the figures are a little less steady.
    Command::new("sync").status().ok();
}

/// A turn as the built-in engine has it: a prompt, a few chunks and a tool call.
fn short_turn(log: &mut Log, turn: usize) -> Result<()> {
    prompt(log)?;
    let id = Sys::real().ids.message();
    for _ in 0..2 {
        let chunk = chunk_of(&id, turn, 40);
        log.append(Kind::Update, None, &chunk, Sync::Buffered)?;
    }
    let call = format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"call_{turn}","title":"look","kind":"read","status":"completed"}}"#
    );
    log.append(Kind::Update, None, &call, Sync::Buffered)?;
    end(log)
}

fn prompt(log: &mut Log) -> Result<()> {
    let id = Sys::real().ids.message();
    let payload = r#"{"prompt":[{"type":"text","text":"What was that about?"}]}"#;
    log.append(Kind::Prompt, Some(&id), payload, Sync::Buffered)?;
    Ok(())
}

fn end(log: &mut Log) -> Result<()> {
    let payload = r#"{"stopReason":"end_turn"}"#;
    log.append(Kind::End, None, payload, Sync::Turn)?;
    Ok(())
}

/// An update with so many bytes of text, a few of them escaped, as the built-in engine writes it.
pub(crate) fn chunk(n: usize, text: usize) -> String {
    chunk_of("msg_01902f3c7b1e7c3a8f00000000000001", n, text)
}

/// The same of the message with this id.
fn chunk_of(id: &str, n: usize, text: usize) -> String {
    let mut words = format!("{n} \\\"so\\\" ");
    while words.len() < text.saturating_sub(2) {
        words.push_str("and so on ");
    }
    words.truncate(text.saturating_sub(2));
    format!(
        r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}","content":{{"type":"text","text":"{words}\n"}}}}"#
    )
}
