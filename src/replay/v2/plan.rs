//! Shows a plan: version 1 has one in a session, version 2 has any number, each with an id.

use crate::record::json;

use super::splice::Splice;

/// The id of the one plan that version 1 has. Each update replaces it as a whole, in both.
pub(super) const ID: &str = "rejoin_plan";

/// Changes the `plan` at `at` into an update of a plan with an id. What has no entries, or
/// already has what would be added, is of neither version and stays.
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
