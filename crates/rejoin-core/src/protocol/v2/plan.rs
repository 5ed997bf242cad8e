//! Converts a plan: version 1 has one in a session, version 2 any number, each with an id.

use crate::json::{self, Splice};

/// The id of the only plan of version 1. Each update replaces it as a whole, in both versions.
pub const ID: &str = "rejoin_plan";

/// Converts the `plan` at `at` to an update of a plan with an id. A plan without entries, or with
/// members that would be added, belongs to neither version and is unchanged.
pub(super) fn change(text: &[u8], at: usize) -> Option<Splice<'_>> {
    let (mut name, mut entries) = (None, None);
    let mut members = json::members(text, at)?;
    while let Some(member) = members.member() {
        match &text[member.key.clone()] {
            b"sessionUpdate" => name = Some(member.value),
            b"entries" if entries.is_none() => entries = Some(member),
            b"entries" | b"plan" => return None,
            _ => {}
        }
    }
    let entries = entries?;
    let mut splice = Splice::new(text);
    splice.replace(name?, b"\"plan_update\"");
    let head = format!("\"plan\":{{\"type\":\"items\",\"planId\":\"{ID}\",");
    splice.replace(
        entries.key.start - 1..entries.key.start - 1,
        head.into_bytes(),
    );
    splice.replace(entries.value.end..entries.value.end, b"}");
    Some(splice)
}
