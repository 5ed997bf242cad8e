//! The changes of a file, line by line.

use crate::text::ReplacedLines;

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;

/// The lines of a change, each with its sign: ` ` for one that stays, `-` and `+` for those that go
/// and come. Lines far from the change are left out.
pub fn lines<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let replaced = ReplacedLines::between(&old, &new);
    let before = replaced.before;
    let old_end = before + replaced.old.len();
    let mut lines = Vec::new();
    let mut add = |sign: char, more: &[&'a str]| {
        lines.extend(more.iter().map(|line| (sign, *line)));
    };
    add(' ', &old[before.saturating_sub(CONTEXT)..before]);
    add('-', replaced.old);
    add('+', replaced.new);
    add(' ', &old[old_end..old.len().min(old_end + CONTEXT)]);
    lines
}
