//! The mark that lines begin with which are no content.

use std::collections::HashSet;

use super::kept::Kept;
use super::turn::{End, Thing, Turn};

const OPEN: &str = "[rejoin-";

/// What the lines begin with that the page adds: `[rejoin-` and a number that nothing in the
/// conversation has there.
#[derive(Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// A mark that occurs nowhere in what is kept. The same for the same content.
    pub(super) fn for_content(kept: &Kept) -> Self {
        let mut taken: HashSet<u64> = HashSet::new();
        each_text(kept, &mut |text| {
            for (at, _) in text.match_indices(OPEN) {
                let behind = &text[at + OPEN.len()..];
                let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
                // A longer number is none that is ever taken.
                if let Ok(number) = behind[..digits.min(19)].parse() {
                    taken.insert(number);
                }
            }
        });
        let mut number = 1;
        while taken.contains(&number) {
            number += 1;
        }
        Self(format!("{OPEN}{number}:"))
    }

    /// A line with these words, which must be on one line.
    pub(super) fn line(&self, words: &str) -> String {
        format!("{} {words}]\n", self.0)
    }

    /// A line with these words, and content behind them that is on one line.
    pub(super) fn line_with(&self, words: &str, content: &str) -> String {
        format!("{} {words}] {content}\n", self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn each_text(kept: &Kept, visit: &mut dyn FnMut(&str)) {
    kept.agents.iter().for_each(|name| visit(name));
    kept.plan.iter().for_each(|line| visit(line));
    for turn in &kept.full {
        each_text_of(turn, visit);
    }
    for short in &kept.short {
        visit(&short.user);
        visit(&short.answer);
        of_end(&short.end, visit);
    }
}

fn each_text_of(turn: &Turn, visit: &mut dyn FnMut(&str)) {
    of_end(&turn.end, visit);
    for thing in turn.user.iter().chain(&turn.things) {
        match thing {
            Thing::Text(clip) => {
                let (head, _, tail) = clip.parts();
                visit(head);
                visit(tail);
            }
            Thing::Block(name) => visit(name),
            Thing::Call(call) => {
                visit(&call.line());
                for (name, detail) in call.details() {
                    visit(&name);
                    visit(&detail);
                }
            }
        }
    }
}

fn of_end(end: &End, visit: &mut dyn FnMut(&str)) {
    if let End::Odd(words) = end {
        visit(words);
    }
}
