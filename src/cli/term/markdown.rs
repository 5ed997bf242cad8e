//! Paints Markdown for a terminal, in a modest way.

use anstyle::Style;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::line::{Span, StyledLine};
use super::style::{CODE, EMPHASIS, FAINT, HEADING, PLAIN, STRONG, of_sign};
use super::width::{pad, width};
use super::wrap::wrap;

/// The lines of a Markdown text, at most `room` columns wide, except for code.
pub(in crate::cli) fn markdown(text: &str, room: usize) -> Vec<StyledLine> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut painter = MarkdownPainter {
        room,
        ..MarkdownPainter::default()
    };
    for event in Parser::new_ext(text, options) {
        painter.event(event);
    }
    painter.flush();
    painter.lines
}

/// The beginnings of the lines of a block.
struct Prefix {
    /// On its first line, if that was not written yet.
    first: Option<String>,
    rest: String,
}

#[derive(Default)]
struct MarkdownPainter {
    room: usize,
    lines: Vec<StyledLine>,
    /// The text of the current paragraph.
    spans: Vec<Span>,
    styles: Vec<Style>,
    prefixes: Vec<Prefix>,
    /// The number of the next item in each list, if it has numbers.
    lists: Vec<Option<u64>>,
    /// The code of the current block, and whether it is a change.
    code: Option<(String, bool)>,
    /// Where the current link leads, and where its text begins.
    link: Option<(String, usize)>,
    /// The rows of the current table.
    table: Option<Vec<Vec<String>>>,
    /// Whether a blank line belongs before the next block.
    gap: bool,
}

impl MarkdownPainter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((code, _)) => code.push_str(&text),
                None => self.put(&text),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.put_in(CODE, &text);
            }
            Event::InlineHtml(text) | Event::Html(text) => self.put(&text),
            Event::FootnoteReference(name) => self.put(&format!("[{name}]")),
            Event::SoftBreak => self.put(" "),
            Event::HardBreak => self.put("\n"),
            Event::Rule => {
                self.begin_block();
                let room = self.room_inside();
                self.line(StyledLine::new(FAINT, &"─".repeat(room.min(40))));
                self.gap = true;
            }
            Event::TaskListMarker(done) => self.put(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.styles.push(HEADING);
                if level > HeadingLevel::H2 {
                    self.styles.push(STRONG);
                }
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.prefixes.push(Prefix {
                    first: None,
                    rest: "│ ".to_owned(),
                });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let is_change = matches!(&kind, CodeBlockKind::Fenced(name) if &**name == "diff");
                self.code = Some((String::new(), is_change));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.gap = false;
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                // Items of a loose list are apart.
                self.separate();
                let number = self.lists.last_mut().and_then(Option::as_mut);
                let mark = match number {
                    Some(number) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    None => "• ".to_owned(),
                };
                self.prefixes.push(Prefix {
                    rest: " ".repeat(width(&mark)),
                    first: Some(mark),
                });
            }
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.styles.push(EMPHASIS),
            Tag::Strong => self.styles.push(STRONG),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(Style::new().underline());
                self.link = Some((dest_url.into_string(), self.spans.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(level) => {
                self.styles.pop();
                if level > HeadingLevel::H2 {
                    self.styles.pop();
                }
                self.flush();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => self.code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::Table => self.table(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans).into_iter();
                let cell: String = cell.map(|(_, text)| text).collect();
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((url, begin)) = self.link.take() {
                    let shown = self.spans.get(begin..).unwrap_or_default();
                    let shown: String = shown.iter().map(|(_, text)| text.as_str()).collect();
                    if !url.is_empty() && shown != url {
                        self.put_in(FAINT, &format!(" ({url})"));
                    }
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, text: &str) {
        let style = self.styles.last().copied().unwrap_or(PLAIN);
        self.put_in(style, text);
    }

    fn put_in(&mut self, style: Style, text: &str) {
        self.spans.push((style, text.to_owned()));
    }

    /// A block begins; what an item said before it is a block of its own.
    fn begin_block(&mut self) {
        self.flush();
        self.separate();
    }

    /// Writes the blank line before a block.
    fn separate(&mut self) {
        if std::mem::take(&mut self.gap) {
            let mut prefix = String::new();
            for Prefix { first, rest } in &self.prefixes {
                if first.is_none() {
                    prefix.push_str(rest);
                }
            }
            self.lines.push(StyledLine::new(FAINT, prefix.trim_end()));
        }
    }

    fn room_inside(&self) -> usize {
        let used = self.prefixes.iter().map(|prefix| width(&prefix.rest));
        self.room.saturating_sub(used.sum()).max(10)
    }

    /// Writes the text so far.
    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.iter().all(|(_, text)| text.trim().is_empty()) {
            return;
        }
        for line in wrap(&spans, Some(self.room_inside())) {
            self.line(StyledLine::of(line));
        }
    }

    fn line(&mut self, line: StyledLine) {
        let mut prefix = StyledLine::default();
        for Prefix { first, rest } in &mut self.prefixes {
            prefix.push(FAINT, first.as_ref().unwrap_or(rest));
            *first = None;
        }
        self.lines.push(line.behind(prefix));
    }

    fn code(&mut self) {
        let Some((code, is_change)) = self.code.take() else {
            return;
        };
        for text in code.lines() {
            let sign = text.chars().next().filter(|_| is_change);
            let style = sign.map_or(CODE, of_sign);
            let text = text.replace('\t', "    ");
            self.line(StyledLine::new(style, &text).behind(StyledLine::new(PLAIN, "  ")));
        }
        self.gap = true;
    }

    fn table(&mut self) {
        let rows = self.table.take().unwrap_or_default();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let fits = widths.iter().sum::<usize>() + columns * 3 <= self.room_inside();
        for (at, row) in rows.iter().enumerate() {
            let style = if at == 0 { STRONG } else { PLAIN };
            let cells = row.iter().zip(&widths);
            let cells = cells.map(|(cell, width)| {
                if fits {
                    pad(cell, *width)
                } else {
                    cell.clone()
                }
            });
            let text = cells.collect::<Vec<_>>().join(" │ ");
            for line in wrap(&[(style, text)], Some(self.room_inside())) {
                self.line(StyledLine::of(line));
            }
            if at == 0 {
                let all = widths.iter().sum::<usize>() + columns.saturating_sub(1) * 3;
                self.line(StyledLine::new(
                    FAINT,
                    &"─".repeat(all.min(self.room_inside())),
                ));
            }
        }
        self.gap = true;
    }
}
