//! Reads and changes JSON text without building a tree.
//!
//! Updates are passed on as text, byte for byte. So this works on bytes and returns positions:
//! `scan` walks text and checks it, `path` looks members up, `text` unescapes strings, [`split`]
//! finds where they may be split, [`Object`] writes objects, [`Splice`] changes single places, and
//! [`TextLayout`] recognizes messages that differ only in their text. Invalid JSON never causes a
//! panic, only a `None`.

mod edit;
mod layout;
mod object;
mod path;
mod scan;
pub mod split;
mod splice;
mod text;

pub use edit::{Members, remade, with_members};
pub use layout::TextLayout;
pub use object::{Object, joined, object, quoted, with_string, with_strings};
pub use path::{
    Span, member, member_elements, string, string_body, string_member, text_body, text_elements,
    text_member, text_members,
};
pub use scan::{
    Member, Parts, elements, is_single, members, skip_space, string_end, value_end, walk,
};
pub use splice::Splice;
pub use text::{escaped_positions, tree, unescape, unescaped, unescaped_bytes, unit};

#[cfg(test)]
mod tests;
