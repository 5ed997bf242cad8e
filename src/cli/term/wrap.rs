//! Breaks text into lines that fit.

use super::line::Span;
use super::style::PLAIN;
use super::width::{pieces, width};

/// Breaks text at its line breaks, and between words where it is wider than `room` columns. Without
/// `room` lines are as wide as they are.
pub(in crate::cli) fn wrap(spans: &[Span], room: Option<usize>) -> Vec<Vec<Span>> {
    let mut lines = Vec::new();
    for line in hard_lines(spans) {
        match room {
            Some(room) => fit(&line, room.max(1), &mut lines),
            None => lines.push(line),
        }
    }
    lines
}

/// The text between its own line breaks.
fn hard_lines(spans: &[Span]) -> Vec<Vec<Span>> {
    let mut lines = vec![Vec::new()];
    for (style, text) in spans {
        for (at, part) in text.split('\n').enumerate() {
            if at > 0 {
                lines.push(Vec::new());
            }
            let part = part.strip_suffix('\r').unwrap_or(part);
            if let (Some(line), false) = (lines.last_mut(), part.is_empty()) {
                line.push((*style, part.to_owned()));
            }
        }
    }
    lines
}

/// A word, whose pieces may differ in style, and the spaces before it.
#[derive(Default)]
struct Word {
    spaces: usize,
    pieces: Vec<Span>,
    width: usize,
}

fn fit(line: &[Span], room: usize, lines: &mut Vec<Vec<Span>>) {
    let mut current: Vec<Span> = Vec::new();
    let mut used = 0;
    for word in words(line) {
        let needed = word.spaces + word.width;
        let begins = used == 0 && lines.is_empty();
        if used + needed <= room || (used == 0 && word.width <= room && begins) {
            let spaces = if used + needed <= room {
                word.spaces
            } else {
                0
            };
            put_spaces(&mut current, spaces, &word.pieces);
            current.extend(word.pieces);
            used += spaces + word.width;
            continue;
        }
        if word.width <= room {
            lines.push(std::mem::take(&mut current));
            used = word.width;
            current = word.pieces;
            continue;
        }
        // Too long for any line: it is broken where the line ends.
        if used + word.spaces < room {
            put_spaces(&mut current, word.spaces, &word.pieces);
            used += word.spaces;
        }
        for (style, text) in word.pieces {
            let mut part = String::new();
            for (piece, wide) in pieces(&text) {
                if used + wide > room && used > 0 {
                    current.push((style, std::mem::take(&mut part)));
                    lines.push(std::mem::take(&mut current));
                    used = 0;
                }
                part.push_str(piece);
                used += wide;
            }
            current.push((style, part));
        }
    }
    lines.push(current);
}

/// Puts spaces before a word. They have its style if what precedes them has it, too.
fn put_spaces(line: &mut Vec<Span>, count: usize, word: &[Span]) {
    let style = word.first().map_or(PLAIN, |(style, _)| *style);
    let same = line.last().is_some_and(|(last, _)| *last == style);
    if count > 0 {
        line.push((if same { style } else { PLAIN }, " ".repeat(count)));
    }
}

fn words(line: &[Span]) -> Vec<Word> {
    let mut words = vec![Word::default()];
    for (style, text) in line {
        let text = text.replace('\t', "    ");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let spaces = rest.len() - rest.trim_start_matches(' ').len();
            if spaces > 0 {
                words.push(Word {
                    spaces,
                    ..Word::default()
                });
                rest = &rest[spaces..];
                continue;
            }
            let end = rest.find(' ').unwrap_or(rest.len());
            if let Some(word) = words.last_mut() {
                word.width += width(&rest[..end]);
                word.pieces.push((*style, rest[..end].to_owned()));
            }
            rest = &rest[end..];
        }
    }
    words.retain(|word| word.width > 0);
    words
}
