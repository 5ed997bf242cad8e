//! Changes of files: as the event after a patch has them, or as the model wrote the patch.

use serde_json::Value;

use super::super::content::{diff, sides_of_hunks};

/// The changes of a `patch_apply_end` event: `{path: {type, content | unified_diff, move_path}}`.
pub(super) fn applied(changes: &Value) -> Vec<Value> {
    let changes = changes.as_object().into_iter().flatten();
    let diffs = changes.flat_map(|(path, change)| {
        let content = change["content"].as_str().unwrap_or_default();
        match change["type"].as_str() {
            Some("add") => vec![diff(path, None, content)],
            Some("delete") => vec![diff(path, Some(content), "")],
            _ => {
                let path = change["move_path"].as_str().unwrap_or(path);
                hunks(path, change["unified_diff"].as_str().unwrap_or_default())
            }
        }
    });
    diffs.collect()
}

/// The changes of a patch in the form `*** Begin Patch`.
pub(super) fn written(patch: &str) -> Vec<Value> {
    let mut diffs = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let added = line.strip_prefix("*** Add File: ");
        let updated = line.strip_prefix("*** Update File: ");
        let Some(path) = added.or(updated) else {
            continue;
        };
        let mut body = String::new();
        while let Some(line) = lines.next_if(|line| !is_head(line)) {
            body.push_str(line);
            body.push('\n');
        }
        if added.is_some() {
            let (_, new) = sides_of_hunks(body.lines());
            diffs.push(diff(path, None, &new));
        } else {
            diffs.extend(hunks(path, &body));
        }
    }
    diffs
}

/// Whether a line of a patch begins the next file or ends the patch. `*** Move to:` belongs to the
/// file before.
fn is_head(line: &str) -> bool {
    let heads = [
        "*** Add File:",
        "*** Update File:",
        "*** Delete File:",
        "*** End Patch",
    ];
    heads.iter().any(|head| line.starts_with(head))
}

/// A diff for each hunk.
fn hunks(path: &str, unified: &str) -> Vec<Value> {
    let mut hunks: Vec<Vec<&str>> = Vec::new();
    for line in unified.lines() {
        if line.starts_with("@@") {
            hunks.push(Vec::new());
        } else if let Some(hunk) = hunks.last_mut() {
            hunk.push(line);
        } else if line.starts_with([' ', '+', '-']) && !line.starts_with("---") {
            hunks.push(vec![line]);
        }
    }
    let hunks = hunks.into_iter().filter(|hunk| !hunk.is_empty());
    hunks
        .map(|hunk| {
            let (old, new) = sides_of_hunks(hunk.into_iter());
            diff(path, Some(&old), &new)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_written_patch_has_its_files_and_hunks() {
        let patch = "*** Begin Patch\n*** Add File: a\n+one\n*** Update File: b\n*** Move to: c\n@@\n x\n-y\n+z\n@@ fn\n-q\n*** Delete File: d\n*** End Patch\n";
        let expected = [
            diff("a", None, "one\n"),
            diff("b", Some("x\ny\n"), "x\nz\n"),
            diff("b", Some("q\n"), ""),
        ];
        assert_eq!(written(patch), expected);
        assert_eq!(written("[REDACTED]"), Vec::<Value>::new());
    }

    #[test]
    fn applied_changes_differ_by_kind() {
        let changes = json!({
            "/a": {"type": "add", "content": "new"},
            "/b": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "/c"},
            "/d": {"type": "delete", "content": "gone"},
        });
        let expected = [
            diff("/a", None, "new"),
            diff("/c", Some("x\n"), "y\n"),
            diff("/d", Some("gone"), ""),
        ];
        assert_eq!(applied(&changes), expected);
    }
}
