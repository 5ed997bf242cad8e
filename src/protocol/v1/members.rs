//! Changes the members of an object, which are kept as text.

use std::borrow::Cow;

use crate::json::{self, Object};
use crate::protocol::meta::REJOIN;

/// An object with its members changed: `change` gets the name and the value of each, and returns
/// the new value, or none to leave it out.
pub(super) fn remade<'a>(
    object: &'a str,
    mut change: impl FnMut(&str, &'a str) -> Option<Cow<'a, str>>,
) -> String {
    let members = json::text_members(object).into_iter();
    let members = members.filter_map(|(name, value)| Some((change(&name, value)?, name)));
    let add = |object: Object, (value, name): (Cow<'_, str>, String)| object.raw(&name, &value);
    members.fold(Object::new(), add).end()
}

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
    let rest = remade(meta, |name, value| {
        (name != REJOIN).then_some(Cow::Borrowed(value))
    });
    (rest != "{}").then_some(Cow::Owned(rest))
}
