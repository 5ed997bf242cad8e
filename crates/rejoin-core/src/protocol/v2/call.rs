//! Converts tool calls: in version 2 one kind of update both begins and changes them.

use super::terminal::V2Terminals;
use super::{diff, terminal};
use crate::json::{self, Member, Splice};
use crate::protocol::meta::add_note;

/// Converts the fields of a tool call that differ in version 2, given as the members of an object:
/// a call, an update or the call in a request for permission.
pub(super) fn change(
    text: &[u8],
    members: &[Member],
    terminals: &V2Terminals,
    splice: &mut Splice<'_>,
) {
    drop_nulls(text, members, splice);
    for member in members {
        match &text[member.key.clone()] {
            b"content" => contents(text, member.value.start, terminals, splice),
            b"locations" => locations(text, member.value.start, splice),
            _ => {}
        }
    }
}

/// A field that is `null` is unchanged in version 1 but cleared in version 2. So such fields are
/// left out, except raw input and output, for which `null` is a value.
fn drop_nulls(text: &[u8], members: &[Member], splice: &mut Splice<'_>) {
    let is_kept = |member: &Member| {
        &text[member.value.clone()] != b"null"
            || matches!(&text[member.key.clone()], b"rawInput" | b"rawOutput")
    };
    let mut rest = members;
    // The end of the last member that is kept.
    let mut kept = None;
    while let Some(member) = rest.first() {
        let dropped = rest.iter().take_while(|member| !is_kept(member)).count();
        if dropped == 0 {
            kept = Some(member.value.end);
            rest = &rest[1..];
            continue;
        }
        let from = member.key.start - 1;
        let last = rest[dropped - 1].value.end;
        rest = &rest[dropped..];
        match (rest.first(), kept) {
            (Some(next), _) => splice.replace(from..next.key.start - 1, b""),
            (None, Some(before)) => splice.replace(before..last, b""),
            (None, None) => splice.replace(from..last, b""),
        }
    }
}

fn contents(text: &[u8], at: usize, terminals: &V2Terminals, splice: &mut Splice<'_>) {
    let Some(mut items) = json::elements(text, at) else {
        return;
    };
    let mut budget = diff::PATCHES;
    while let Some(item) = items.element() {
        let kind = json::member(text, item.start, "type");
        let instead = match kind.map(|kind| &text[kind]) {
            Some(b"\"diff\"") => diff::shown(text, item.clone(), &mut budget),
            Some(b"\"terminal\"") if !terminals.shows(text, item.start) => {
                Some(terminal::note(&text[item.clone()]))
            }
            _ => None,
        };
        if let Some(instead) = instead {
            splice.replace(item, instead);
        }
    }
}

/// Line numbers start at 1. Some agents send 0 for a missing one.
fn locations(text: &[u8], at: usize, splice: &mut Splice<'_>) {
    let Some(mut places) = json::elements(text, at) else {
        return;
    };
    while let Some(place) = places.element() {
        if let Some(line) = json::member(text, place.start, "line")
            && &text[line.clone()] == b"0"
        {
            splice.replace(line, b"null");
            add_note(splice, place.start, b"\"line\":0");
        }
    }
}
