//! The last prompts of a log, and how many of them an agent shows when it replays the session.
//!
//! Some agents write a turn to their files a moment after they have answered, so one that is killed in
//! between has the session without its last turns. Agents replay in many forms: messages are joined, get
//! words of the agent's own, or are replaced by a summary. So a prompt counts as lost only if no message
//! contains it, although an earlier one was replayed, or if the replay is exactly an earlier state.

use std::collections::VecDeque;

use crate::conversation::prompt_blocks;
use crate::engine::agent::route::{ReplayedWords, letters};
use crate::json::string_member;
use crate::record::{Kind, Record};

/// How many prompts are kept.
const PROMPTS: usize = 64;
/// How many letters of a prompt are kept.
const LETTERS: usize = 1000;
/// How many letters of a prompt are looked for in other words, at most.
const PART: usize = 200;
/// How many letters are not found in other words by chance.
const TELLING: usize = 12;

/// The last prompts of a log.
#[derive(Debug, Default)]
pub(super) struct LoggedPrompts {
    last: VecDeque<LoggedPrompt>,
    /// How many prompts came before these.
    before: u64,
}

#[derive(Debug)]
struct LoggedPrompt {
    /// The id of its record.
    id: Option<String>,
    /// The letters of all that was said.
    all: String,
    /// The letters of the longest piece of it without marks, which an agent may escape. Empty for a
    /// command, which an agent may show in another form.
    part: String,
    /// Whether the agent has finished its turn. Agents may forget prompts of other turns.
    is_finished: bool,
}

impl LoggedPrompts {
    /// Takes the next record of the log. `overlaps` is whether a turn was running when a prompt came.
    pub(super) fn record(&mut self, record: &Record<'_>, overlaps: bool) {
        match record.kind {
            Kind::Prompt => {
                if self.last.len() == PROMPTS {
                    self.last.pop_front();
                    self.before += 1;
                }
                let id = record.id.map(str::to_owned);
                self.last
                    .push_back(LoggedPrompt::read(id, record.payload, overlaps));
            }
            Kind::End => {
                let mut prompts = self.last.iter_mut().rev();
                let of_end = |prompt: &&mut LoggedPrompt| match record.id {
                    Some(id) => prompt.id.as_deref() == Some(id),
                    None => true,
                };
                if let Some(prompt) = prompts.find(of_end) {
                    let reason = string_member(record.payload, "stopReason");
                    let is_finished =
                        reason.is_some_and(|reason| reason != "cancelled" && reason != "refusal");
                    prompt.is_finished = is_finished;
                }
            }
            _ => {}
        }
    }

    /// How many prompts there are.
    pub(super) fn count(&self) -> u64 {
        self.before + self.last.len() as u64
    }

    /// How many prompts an agent still has that had this many and has replayed these words; `None`
    /// unless it is certain that the last ones are not there.
    pub(super) fn kept(&self, known: u64, replayed: &ReplayedWords) -> Option<u64> {
        let known = usize::try_from(known.saturating_sub(self.before)).ok()?;
        let prompts = || self.last.iter().take(known);
        let certain = |prompt: &LoggedPrompt| prompt.is_finished && !prompt.part.is_empty();
        let last = prompts().rposition(certain)?;
        let kept = |prompts: usize| Some(self.before + prompts as u64);
        if let Some(messages) = replayed.all().filter(|_| self.before == 0)
            && (1..=last).contains(&messages.len())
            && messages
                .iter()
                .zip(prompts())
                .all(|(message, prompt)| *message == prompt.all)
        {
            return kept(messages.len());
        }
        if replayed.contain(&self.last[last].part) {
            return None;
        }
        let is_there = |prompt: &LoggedPrompt| {
            let is_telling = prompt.part.chars().nth(TELLING - 1).is_some();
            is_telling && replayed.contain(&prompt.part) || replayed.have(&prompt.all)
        };
        let there = prompts()
            .take(last)
            .rposition(|prompt| certain(prompt) && is_there(prompt))?;
        kept(there + 1)
    }
}

impl LoggedPrompt {
    fn read(id: Option<String>, payload: &str, overlaps: bool) -> Self {
        let mut all = String::new();
        let mut part = String::new();
        let is_mark = |char: char| !char.is_alphanumeric() && !char.is_whitespace();
        let mut is_command = false;
        for block in prompt_blocks(payload) {
            let Some(text) = string_member(block, "text") else {
                continue;
            };
            is_command |= all.is_empty() && text.trim_start().starts_with('/');
            // A few more, so that what is cut is not taken for all.
            all.extend(letters(&text).take(LETTERS + 1));
            for piece in text.split(is_mark) {
                let piece: String = letters(piece).take(PART).collect();
                if piece.len() > part.len() {
                    part = piece;
                }
            }
        }
        if is_command || overlaps {
            part.clear();
        }
        Self {
            id,
            all,
            part,
            is_finished: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::engine::agent::parse::{Payload, PayloadForm};

    use super::*;

    fn logged(prompts: &[(&str, &str)]) -> LoggedPrompts {
        let mut logged = LoggedPrompts::default();
        for (number, (text, end)) in prompts.iter().enumerate() {
            let id = number.to_string();
            let mut record = |kind, payload: &str| {
                logged.record(&Record::sample(kind, Some(id.as_str()), payload), false);
            };
            let prompt = json!({ "prompt": [{ "type": "text", "text": text }] });
            record(Kind::Prompt, &prompt.to_string());
            record(Kind::End, &json!({ "stopReason": end }).to_string());
        }
        logged
    }

    fn replayed(messages: &[&str]) -> ReplayedWords {
        let mut words = ReplayedWords::default();
        let mut update = |name: &str, text: &str| {
            let content = json!({ "type": "text", "text": text });
            let update = json!({ "sessionUpdate": name, "content": content });
            let payload = Payload::read(PayloadForm::Update, update.to_string().into());
            words.update(&payload.unwrap());
        };
        for message in messages {
            for piece in message.split_inclusive(' ') {
                update("user_message_chunk", piece);
            }
            update("agent_message_chunk", "Please fix the third thing");
        }
        words
    }

    const FIRST: (&str, &str) = ("Fix the first thing", "end_turn");
    const SECOND: (&str, &str) = ("And: is a<b there?", "end_turn");
    const THIRD: (&str, &str) = ("Please fix the third thing", "max_tokens");

    #[test]
    fn turns_are_lost_if_that_is_certain() {
        let all = [FIRST, SECOND, THIRD];
        let command = ("/compact", "end_turn");
        let cancelled = ("Do something else", "cancelled");
        let again = ("go on", "end_turn");
        for (prompts, messages, kept) in [
            (&all[..], &[FIRST.0, SECOND.0, THIRD.0][..], None),
            (&all, &[FIRST.0, SECOND.0], Some(2)),
            (&all, &[FIRST.0], Some(1)),
            // Without messages of the user, or in words that are none of theirs.
            (&all, &[], None),
            (&all, &["A summary of what was said"], None),
            // With words of the agent's own, joined, escaped, or without the first ones.
            (
                &all,
                &["Today is Friday.\nFix the first thing", "x"],
                Some(1),
            ),
            (
                &all,
                &["Fix the first thing\n\nPlease  fix the third thing"],
                None,
            ),
            (
                &all,
                &["Fix the first thing", "And: is a&lt;b there?", "?"],
                Some(1),
            ),
            (&all, &["And: is a<b there?", "?"], Some(2)),
            (
                &[FIRST, SECOND],
                &["Fix the first thing", "And: is a&lt;b there?"],
                None,
            ),
            // Turns that the agent may have forgotten, and commands.
            (&[FIRST, cancelled], &[FIRST.0], None),
            (
                &[FIRST, command],
                &[FIRST.0, "<command-name>compact</command-name>"],
                None,
            ),
            (&[FIRST, SECOND, cancelled], &[FIRST.0], Some(1)),
            // Prompts with equal words.
            (&[again, again, again], &["go on", "go on"], Some(2)),
            (&[again, again, again], &["go on", "go on", "x"], None),
            (&[again, again], &["go on go on"], None),
        ] {
            let found = logged(prompts).kept(prompts.len() as u64, &replayed(messages));
            assert_eq!(found, kept, "{prompts:?} {messages:?}");
        }
    }

    #[test]
    fn prompts_that_the_agent_has_not_got_are_not_lost() {
        let logged = logged(&[FIRST, SECOND, THIRD]);
        assert_eq!(logged.kept(2, &replayed(&[FIRST.0, SECOND.0])), None);
        assert_eq!(logged.kept(0, &replayed(&[FIRST.0])), None);
    }

    #[test]
    fn only_the_last_prompts_of_a_long_session_are_kept() {
        let texts: Vec<String> = (0..PROMPTS + 10)
            .map(|n| format!("this is prompt number {n}x"))
            .collect();
        let prompts: Vec<_> = texts
            .iter()
            .map(|text| (text.as_str(), "end_turn"))
            .collect();
        let logged = logged(&prompts);
        let messages: Vec<_> = texts.iter().map(String::as_str).collect();
        let known = prompts.len() as u64;
        assert_eq!(logged.last.len(), PROMPTS);
        assert_eq!(logged.kept(known, &replayed(&messages)), None);
        let kept = known - 3;
        assert_eq!(
            logged.kept(known, &replayed(&messages[..messages.len() - 3])),
            Some(kept)
        );
    }
}
