//! The mark at the beginning of lines that are not content.

use std::collections::HashSet;

use super::kept::Kept;
use super::turn::{End, Thing, Turn};

const OPEN: &str = "[rejoin-";

/// The prefix of the lines that the page adds: `[rejoin-` and a number that follows this text
/// nowhere in the conversation.
#[derive(Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// A mark that occurs nowhere in the retained turns. The same content always gets the same
    /// mark.
    pub(super) fn for_content(kept: &Kept) -> Self {
        let mut taken: HashSet<u64> = HashSet::new();
        each_text(kept, &mut |text| {
            for (at, _) in text.match_indices(OPEN) {
                let behind = &text[at + OPEN.len()..];
                let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
                // The marks that we choose have shorter numbers than this.
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

    /// A marked line with these words, which must not contain line breaks.
    pub(super) fn line(&self, words: &str) -> String {
        format!("{} {words}]\n", self.0)
    }

    /// A marked line with these words and, behind them, content on the same line.
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
