//! Converts a file change: version 2 has a list of changes and a patch, version 1 the text before
//! and after.

use crate::json::{self, Members, Object, remade};

use super::members::{note, without_note};

/// The content of a tool call of version 1 for a diff: one diff for each hunk of the patch, and a
/// text for each change that has none. `None` for anything but a diff of version 2.
pub(super) fn shown(item: &str) -> Option<String> {
    if let Some(ours) = note(item).filter(|note| json::text_member(note, "newText").is_some()) {
        return Some(restored(item, ours));
    }
    let changes = json::text_member(item, "changes")?;
    let patch = json::text_member(item, "patch").unwrap_or_default();
    let patch = json::string_member(patch, "text").unwrap_or_default();
    let sections: Vec<_> = patch.split_inclusive("\ndiff --git ").collect();
    let sections: Vec<_> = sections.into_iter().filter(|s| s.contains("@@")).collect();
    let changes: Vec<_> = json::text_elements(changes).collect();
    let mut items = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        let path = json::string_member(change, "path").unwrap_or_default();
        let by_path = || sections.iter().find(|section| is_about(section, &path));
        let section = match sections.get(number) {
            Some(section) if sections.len() == changes.len() => Some(section),
            _ => by_path(),
        };
        let before = items.len();
        let hunks = section.into_iter().flat_map(|section| hunks(section));
        items.extend(hunks.map(|(old, new)| {
            let old = old.map_or("null".to_owned(), |old| json::quoted(&old));
            Object::new()
                .string("type", "diff")
                .string("path", &path)
                .raw("oldText", &old)
                .string("newText", &new)
                .end()
        }));
        if items.len() == before {
            items.push(text(&described(change, &path)));
        }
    }
    if changes.is_empty() && !patch.is_empty() {
        items.push(text(&patch));
    }
    Some(items.join(","))
}

/// A diff that was one of version 1 before.
fn restored(item: &str, texts: &str) -> String {
    let changes = json::text_member(item, "changes").unwrap_or_default();
    let path = json::text_elements(changes)
        .next()
        .and_then(|change| json::text_member(change, "path"));
    let others = remade(item, |name, value| match name {
        "changes" | "patch" => None,
        "_meta" => without_note(value),
        _ => Some(value.into()),
    });
    let mut shown = Members::of(&others);
    if let Some(path) = path {
        shown.set("path", path);
    }
    shown.set_all(texts);
    shown.text()
}

/// A change without lines, in words.
fn described(change: &str, path: &str) -> String {
    let operation = json::string_member(change, "operation").unwrap_or_default();
    match json::string_member(change, "oldPath") {
        Some(old) => format!("{operation}: {old} → {path}"),
        None => format!("{operation}: {path}"),
    }
}

fn text(text: &str) -> String {
    let block = Object::new().string("type", "text").string("text", text);
    let item = Object::new().string("type", "content");
    item.raw("content", &block.end()).end()
}

/// Whether a part of a patch is about this file.
fn is_about(section: &str, path: &str) -> bool {
    section
        .lines()
        .filter_map(|line| line.strip_prefix("+++ ").or(line.strip_prefix("--- ")))
        .map(|name| name.split('\t').next().unwrap_or_default())
        .map(|name| {
            name.strip_prefix("a/")
                .or(name.strip_prefix("b/"))
                .unwrap_or(name)
        })
        .any(|name| path == name || path.ends_with(&format!("/{}", name.trim_start_matches('/'))))
}

/// The text before and after of each hunk. The first is missing if the hunk creates the file.
fn hunks(section: &str) -> Vec<(Option<String>, String)> {
    let mut hunks: Vec<(Option<String>, String)> = Vec::new();
    let mut is_last_new = false;
    let is_new = section.lines().any(|line| line == "--- /dev/null");
    for line in section.split_inclusive('\n') {
        if line.starts_with("@@") {
            hunks.push(((!is_new).then(String::new), String::new()));
            continue;
        }
        let Some((old, new)) = hunks.last_mut() else {
            continue;
        };
        let (sign, rest) = line.split_at_checked(1).unwrap_or((line, ""));
        if let (" " | "-", Some(old)) = (sign, &mut *old) {
            old.push_str(rest);
        }
        if matches!(sign, " " | "+") {
            new.push_str(rest);
        }
        if sign == "\\" {
            // The line before has no line break.
            if let (false, Some(old)) = (is_last_new, &mut *old) {
                old.truncate(old.trim_end_matches('\n').len());
            } else {
                new.truncate(new.trim_end_matches('\n').len());
            }
        }
        is_last_new = sign != "-";
    }
    hunks
}
