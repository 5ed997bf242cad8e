//! Text with styles, line by line, for a terminal.

use std::fmt::Write as _;

use anstyle::Style;

use super::printable::printable;
use super::style::PLAIN;
use super::width::{cut, width};

/// A piece of text in one style.
pub(in crate::cli) type Span = (Style, String);

/// A line on a terminal. No text in it affects the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct StyledLine(Vec<Span>);

impl StyledLine {
    /// A line in one style.
    pub(in crate::cli) fn new(style: Style, text: &str) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// A line of several pieces.
    pub(in crate::cli) fn of(spans: Vec<Span>) -> Self {
        let mut line = Self::default();
        for (style, text) in spans {
            line.push(style, &text);
        }
        line
    }

    /// Appends text. It has no line breaks.
    pub(in crate::cli) fn push(&mut self, style: Style, text: &str) {
        let text = printable(text);
        match self.0.last_mut() {
            Some((last, shown)) if *last == style => shown.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.0.push((style, text)),
        }
    }

    /// The line behind another one.
    pub(in crate::cli) fn behind(self, mut first: Self) -> Self {
        first.0.extend(self.0);
        first
    }

    /// The line as text, with escape sequences if there are colours.
    pub(in crate::cli) fn text(&self, colour: bool) -> String {
        let mut shown = String::new();
        for (style, text) in &self.0 {
            if colour && *style != PLAIN {
                // Writing to a string does not fail.
                write!(shown, "{style}{text}{style:#}").ok();
            } else {
                shown.push_str(text);
            }
        }
        let end = shown.trim_end().len();
        shown.truncate(end);
        shown
    }

    /// The beginning of the line, in at most `room` columns, with spaces instead of tabs.
    pub(in crate::cli) fn cut(&self, room: usize) -> Self {
        let mut left = room;
        let mut line = Self::default();
        for (style, text) in &self.0 {
            let whole = text.replace('\t', "    ");
            let text = cut(&whole, left);
            left -= width(&text);
            let is_cut = text != whole;
            line.0.push((*style, text));
            if is_cut {
                break;
            }
        }
        line
    }

    /// How many columns it takes.
    pub(in crate::cli) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// The line in another style, with spaces up to `room` columns.
    pub(in crate::cli) fn marked(&self, style: Style, room: usize) -> Self {
        let text: String = self.0.iter().map(|(_, text)| text.as_str()).collect();
        let missing = room.saturating_sub(width(&text));
        Self(vec![(style, format!("{text}{}", " ".repeat(missing)))])
    }
}
