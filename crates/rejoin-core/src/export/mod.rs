//! Exports conversations for people and other programs: as JSON, Markdown, or a page for a browser.

mod conversation;
mod json;
mod markdown;
mod page;
pub mod diff;
pub mod parts;
pub mod plain;

pub use conversation::Options;
pub use page::stats_page;

use crate::store::{LogReader, StoreError};

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Markdown, to read and to quote from.
    Markdown,
    /// A self-contained page for a browser.
    Html,
    /// The updates that a load would send, with what is known of the session.
    Json,
}

/// Writes the conversation in a log in this form: `put` takes its text, part by part.
pub fn write<E: From<StoreError>>(
    reader: &mut LogReader,
    format: Format,
    options: Options<'_>,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    match format {
        Format::Markdown => markdown::write(reader, options, put),
        Format::Html => page::write(reader, options, put),
        Format::Json => json::write(reader, options, put),
    }
}
