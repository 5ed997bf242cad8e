//! Converts a file change: version 2 names the kind of change and carries a patch.

use std::ops::Range;

use crate::json;

use super::patch;

/// The maximum total length of the texts of an update for which patches are made, in bytes. A patch
/// repeats the texts, so without a limit a long line would become much longer.
pub(super) const PATCHES: usize = 1024 * 1024;

/// A diff in the form of version 2. The texts of version 1 are kept verbatim in `_meta.rejoin`,
/// since a patch has only the differences. `None` for anything but a diff of version 1.
///
/// A patch is only made if it fits the budget, which it consumes.
pub(super) fn shown(text: &[u8], item: Range<usize>, budget: &mut usize) -> Option<Vec<u8>> {
    let mut members = json::members(text, item.start)?;
    let (mut path, mut old, mut new, mut meta) = (None, None, None, None);
    let mut others: Vec<&[u8]> = Vec::new();
    while let Some(member) = members.member() {
        let value = member.value.clone();
        match &text[member.key.clone()] {
            b"type" => {}
            b"path" => path = Some(value),
            b"oldText" => old = Some(value),
            b"newText" => new = Some(value),
            b"_meta" => meta = Some(value),
            // The names of version 2 are not part of version 1.
            b"changes" | b"patch" => return None,
            _ => others.push(&text[member.key.start - 1..value.end]),
        }
    }
    members.end()?;
    let is_string = |value: &Range<usize>| text[value.start] == b'"';
    let (path, new) = (path.filter(is_string)?, new.filter(is_string)?);
    let is_new = old.as_ref().is_none_or(|old| &text[old.clone()] == b"null");
    if !is_new && !old.as_ref().is_some_and(is_string) {
        return None;
    }
    let patch = budgeted(text, &path, old.as_ref().filter(|_| !is_new), &new, budget);
    let mut out = Vec::new();
    out.extend(b"{\"type\":\"diff\",\"changes\":[{\"operation\":");
    out.extend::<&[u8]>(if is_new { b"\"add\"" } else { b"\"modify\"" });
    out.extend(b",\"path\":");
    out.extend(&text[path.clone()]);
    out.extend(b",\"fileType\":\"text\"}]");
    if let Some(patch) = patch {
        out.extend(b",\"patch\":{\"format\":\"git_patch\",\"text\":");
        out.extend(serde_json::Value::from(patch).to_string().as_bytes());
        out.extend(b"}");
    }
    out.extend(b",\"_meta\":{\"rejoin\":{");
    if let Some(old) = old {
        out.extend(b"\"oldText\":");
        out.extend(&text[old]);
        out.extend(b",");
    }
    out.extend(b"\"newText\":");
    out.extend(&text[new]);
    out.extend(b"}");
    if let Some(mut members) = meta.and_then(|meta| json::members(text, meta.start)) {
        while let Some(member) = members.member() {
            if &text[member.key.clone()] != b"rejoin" {
                out.extend(b",");
                out.extend(&text[member.key.start - 1..member.value.end]);
            }
        }
    }
    out.extend(b"}");
    for other in others {
        out.extend(b",");
        out.extend(other);
    }
    out.extend(b"}");
    Some(out)
}

/// The patch of a change, if there is one and it fits the budget.
fn budgeted(
    text: &[u8],
    path: &Range<usize>,
    old: Option<&Range<usize>>,
    new: &Range<usize>,
    budget: &mut usize,
) -> Option<String> {
    let len = old.map_or(0, Range::len) + new.len();
    *budget = budget.checked_sub(len)?;
    let said = |value: &Range<usize>| {
        let body = json::unescaped_bytes(&text[json::string_body(text, value)?]).into_owned();
        String::from_utf8(body).ok()
    };
    let (path, new) = (said(path)?, said(new)?);
    match old {
        Some(old) => patch::patch(&path, Some(&said(old)?), &new),
        None => patch::patch(&path, None, &new),
    }
}
