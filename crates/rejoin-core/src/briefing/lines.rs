//! Turns as lines of text.
//!
//! The conversation is data: an agent must not mistake a tool's output for its user's words. So
//! everything that is not content is on lines of its own that begin with a mark, and the mark
//! occurs nowhere in the content.

use std::collections::{HashSet, VecDeque};

use super::text::Clip;
use super::turn::{BriefingTurn, BriefingTurnEnd, Item, ShortTurn};

/// The room that is reserved for a line that says what is left out, in bytes.
pub(super) const LEFT_OUT: usize = 128;
/// A shorter part of a text is not worth showing, in bytes.
const PART: usize = 128;

/// How much is shown of tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Their input, result and changes.
    All,
    /// A line for each call.
    Line,
}

/// Writes turns.
pub(super) struct BriefingLines<'a> {
    /// The agents that answered.
    pub(super) agents: &'a [String],
    /// The beginning of lines that are not content.
    pub(super) mark: String,
    /// The number of the last turn, which may go on.
    pub(super) last: Option<u64>,
}

/// As much of a turn as there was room for.
pub(super) struct Fitted {
    pub(super) text: String,
    /// How many items at the beginning of the turn are left out.
    pub(super) left_out: usize,
}

impl BriefingLines<'_> {
    /// A turn with all that is kept of it.
    pub(super) fn whole(&self, turn: &BriefingTurn) -> String {
        let items = (turn.items.iter()).map(|item| self.item(turn, item, Detail::All));
        let items: String = items.collect();
        self.user(turn, None) + &self.left_out(turn.left_out) + &items + &self.end(turn)
    }

    /// As much of a turn as there is room for: first what the user said, then the newest of the
    /// rest. Older tool calls take one line each.
    pub(super) fn fitted(&self, turn: &BriefingTurn, room: usize) -> Fitted {
        let Some(mut left) = room.checked_sub(LEFT_OUT) else {
            return Fitted {
                text: String::new(),
                left_out: turn.items.len(),
            };
        };
        let mut user = self.user(turn, None);
        let mut complete = user.len() <= left;
        if !complete {
            user = self.user(turn, Some(left));
        }
        left -= user.len();
        let end = Some(self.end(turn)).filter(|end| end.len() <= left);
        let end = end.unwrap_or_default();
        left -= end.len();

        let lines = turn.items.iter();
        let lines: Vec<_> = lines
            .map(|item| self.item(turn, item, Detail::Line))
            .collect();
        let mut older = lines.iter().map(String::len).sum::<usize>();
        // If there is no room for a line for each item, the older ones get half of the room.
        let most_reserved = if older <= left { older } else { left / 2 };
        let mut parts = VecDeque::new();
        let mut shown = (0, 0);
        for (item, line) in turn.items.iter().zip(lines).rev() {
            older -= line.len();
            let all = self.item(turn, item, Detail::All);
            let text = if all.len() + older.min(most_reserved) <= left {
                all
            } else if line.len() <= left {
                line
            } else {
                complete = false;
                match item {
                    Item::Text(clip) => self.message(turn, clip, left),
                    _ => String::new(),
                }
            };
            if !text.is_empty() {
                match item {
                    Item::Call(_) => shown.1 += 1,
                    Item::Text(_) | Item::Block(_) => shown.0 += 1,
                }
            }
            left -= text.len();
            parts.push_front(text);
            if !complete {
                break;
            }
        }
        let all = turn.count();
        let left_out = self.left_out((all.0 - shown.0, all.1 - shown.1));
        let items: String = parts.into_iter().collect();
        Fitted {
            text: user + &left_out + &items + &end,
            left_out: turn.items.len() - usize::try_from(shown.0 + shown.1).unwrap_or(0),
        }
    }

    /// The text of the user in a turn, in at most `room` bytes.
    pub(super) fn user(&self, turn: &BriefingTurn, room: Option<usize>) -> String {
        let room = room.unwrap_or(usize::MAX);
        let mut text = match turn.number {
            0 => String::new(),
            number => self.line(&format!("turn {number}, the user")),
        };
        if text.len() > room {
            return String::new();
        }
        for item in &turn.user {
            let left = room - text.len();
            let item = match item {
                Item::Text(clip) => self.text(clip, left),
                Item::Block(name) => self.line_with("attached", name),
                Item::Call(_) => String::new(),
            };
            if item.is_empty() || item.len() > left {
                break;
            }
            text.push_str(&item);
        }
        text
    }

    /// A message or a tool call of the agent.
    pub(super) fn item(&self, turn: &BriefingTurn, item: &Item, detail: Detail) -> String {
        match item {
            Item::Text(clip) => self.message(turn, clip, usize::MAX),
            Item::Block(name) => self.line_with("the agent sent", name),
            Item::Call(call) => {
                let mut text = self.line_with("tool call", &call.line());
                if detail == Detail::All {
                    for (name, detail) in call.details() {
                        text += &self.line(&name);
                        text += &on_lines(&detail);
                    }
                }
                text
            }
        }
    }

    /// A message of the agent in at most `room` bytes; empty if there is no room for a part of it.
    fn message(&self, turn: &BriefingTurn, clip: &Clip, room: usize) -> String {
        let line = self.agent_line(turn.agent, "");
        let text = self.text(clip, room.saturating_sub(line.len()));
        if text.is_empty() { text } else { line + &text }
    }

    fn agent_line(&self, agent: Option<usize>, more: &str) -> String {
        match agent.and_then(|agent| self.agents.get(agent)) {
            Some(name) if self.agents.len() > 1 => self.line(&format!("the agent {name}{more}")),
            _ => self.line(&format!("the agent{more}")),
        }
    }

    /// How a turn ended, unless that is normal.
    pub(super) fn end(&self, turn: &BriefingTurn) -> String {
        self.ending(&turn.end, turn.number)
    }

    fn ending(&self, end: &BriefingTurnEnd, number: u64) -> String {
        let may_go_on = number == 0 || self.last == Some(number);
        match end {
            BriefingTurnEnd::Other(words) => self.line(words),
            BriefingTurnEnd::Unknown if !may_go_on => self.line("this turn was interrupted"),
            BriefingTurnEnd::Unknown | BriefingTurnEnd::Normal => String::new(),
        }
    }

    fn left_out(&self, (messages, calls): (u64, u64)) -> String {
        if (messages, calls) == (0, 0) {
            return String::new();
        }
        let counts = format!("left out of this turn: messages {messages}, tool calls {calls}");
        self.line(&counts)
    }

    /// A text in at most `room` bytes with its last line break; empty if that is too little.
    pub(super) fn text(&self, clip: &Clip, room: usize) -> String {
        let gap = |bytes: u64| self.line(&format!("{bytes} bytes are left out here"));
        let (head, left_out, _) = clip.parts();
        if left_out == 0 && head.len() < room {
            return on_lines(head);
        }
        let around = gap(u64::MAX).len() + 2;
        let Some(room) = room.checked_sub(around).filter(|room| *room >= PART) else {
            return String::new();
        };
        // Without a gap it does not fit.
        let most = if left_out == 0 {
            clip.len() - 1
        } else {
            clip.len()
        };
        let clip = clip.within(room.min(most));
        let (head, left_out, tail) = clip.parts();
        on_lines(head) + &gap(left_out) + &on_lines(tail)
    }

    /// A turn in short.
    pub(super) fn short(&self, short: &ShortTurn) -> String {
        let mut text = match short.number {
            0 => self.line("before the first turn, in short"),
            number => self.line(&format!("turn {number} in short, the user")),
        };
        text += &self.text(&short.user, usize::MAX);
        let reply = self.text(&short.reply, usize::MAX);
        if !reply.is_empty() || short.calls > 0 {
            text += &self.agent_line(short.agent, &after_calls(short));
            text += &reply;
        }
        text + &self.ending(&short.end, short.number)
    }

    /// The text of the user in a turn, on one line.
    pub(super) fn said(&self, short: &ShortTurn) -> String {
        match short.number {
            0 => self.line("before the first turn, in short"),
            number => self.line_with(
                &format!("turn {number} in short, the user"),
                &short.words().0,
            ),
        }
    }

    /// A turn on one line for the user and one for the agent.
    pub(super) fn words(&self, short: &ShortTurn) -> String {
        let (_, reply) = short.words();
        let mut text = self.said(short);
        if !reply.is_empty() || short.calls > 0 {
            let line = self.agent_line(short.agent, &after_calls(short));
            text.extend([line.trim_end(), " ", &reply, "\n"]);
        }
        text + &self.ending(&short.end, short.number)
    }

    /// A marked line with these words, which must not contain line breaks.
    pub(super) fn line(&self, words: &str) -> String {
        format!("{} {words}]\n", self.mark)
    }

    /// A marked line with these words, followed by content on the same line.
    pub(super) fn line_with(&self, words: &str, content: &str) -> String {
        format!("{} {words}] {content}\n", self.mark)
    }
}

fn after_calls(short: &ShortTurn) -> String {
    match short.calls {
        0 => String::new(),
        1 => " after 1 tool call".to_owned(),
        calls => format!(" after {calls} tool calls"),
    }
}

/// `[rejoin-` and the first number that follows this text in none of the texts that `each` visits.
/// The same content always gets the same mark.
pub(super) fn free_mark(each: impl FnOnce(&mut dyn FnMut(&str))) -> String {
    const OPEN: &str = "[rejoin-";
    let mut taken: HashSet<u64> = HashSet::new();
    each(&mut |text| {
        for (at, _) in text.match_indices(OPEN) {
            let number = &text[at + OPEN.len()..];
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            // The marks that we choose have shorter numbers than this.
            taken.extend(number[..digits.min(19)].parse::<u64>());
        }
    });
    let mut free = 1;
    while taken.contains(&free) {
        free += 1;
    }
    format!("{OPEN}{free}:")
}

/// The text with a line break at its end.
pub(super) fn on_lines(text: &str) -> String {
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
