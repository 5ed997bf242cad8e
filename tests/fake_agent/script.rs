//! Reads a prompt as a script: one step a line, or between ` ; `.

use crate::message::blocks;

/// Every word that a step can begin with.
const VERBS: [&str; 48] = [
    "say",
    "think",
    "update",
    "params",
    "line",
    "tool",
    "ask",
    "ask-quietly",
    "read",
    "write",
    "terminal",
    "request",
    "begin",
    "begin-many",
    "cancel-begun",
    "end-begun",
    "notify",
    "junk",
    "flood",
    "ticks",
    "usage",
    "commands",
    "mode",
    "config",
    "title",
    "list-title",
    "notice",
    "plan",
    "state",
    "stop",
    "result",
    "fail",
    "hang",
    "hang-hard",
    "exit",
    "kill",
    "close-stdin",
    "close-stdout",
    "stderr",
    "stderr-flood",
    "after",
    "after-update",
    "context",
    "history",
    "fail-starts",
    "sleep",
    "set-mode",
    "set-config",
];

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) verb: String,
    pub(crate) rest: String,
}

/// The steps of a prompt, given as its array of blocks. Only its last text is read: what is sent
/// before it, such as what was said in an earlier life, is no script. A text that does not begin
/// with a verb is answered with itself.
pub(crate) fn steps(prompt: &str) -> Vec<Step> {
    let mut texts = blocks(prompt).into_iter().filter_map(|(_, text)| text);
    let text = texts.next_back().unwrap_or_default();
    let first = text.split([' ', '\n']).next().unwrap_or_default();
    if !VERBS.contains(&first) {
        return vec![step(&format!("say You said: {text}"))];
    }
    let lines = text.split('\n').flat_map(|line| line.split(" ; "));
    lines.filter(|line| !line.is_empty()).map(step).collect()
}

fn step(line: &str) -> Step {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    Step {
        verb: verb.to_owned(),
        rest: rest.to_owned(),
    }
}
