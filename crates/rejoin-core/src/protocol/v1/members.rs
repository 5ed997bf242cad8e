//! Changes the members of an object, which are kept as text.

use std::borrow::Cow;

use crate::json::{self, Members};
use crate::protocol::meta::REJOIN;

/// The elements of an array, each changed to the text of none or more.
pub(super) fn elements<'a>(
    array: &'a str,
    mut change: impl FnMut(&'a str) -> Cow<'a, str>,
) -> String {
    let changed = json::text_elements(array).map(&mut change);
    let changed: Vec<_> = changed.filter(|element| !element.is_empty()).collect();
    format!("[{}]", changed.join(","))
}

/// Our note in the `_meta` of an object.
pub(super) fn note(object: &str) -> Option<&str> {
    json::text_member(json::text_member(object, "_meta")?, REJOIN)
}

/// A `_meta` without our note. `None` if nothing else is in it.
pub(super) fn without_note(meta: &str) -> Option<Cow<'_, str>> {
    let rest = Members::of(meta).without(&[REJOIN]);
    (!rest.is_empty()).then(|| rest.text().into())
}
