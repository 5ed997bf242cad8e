//! Writes the differences between two texts as a patch in Git's format, with absolute paths.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use crate::text::ReplacedLines;

/// How many unchanged lines are shown around a change.
const AROUND: usize = 3;
/// The maximum number of differing lines for which the smallest patch is searched, since the search
/// takes time and memory that grow with it. Beyond that, one large change spans from the first to
/// the last line that differs.
const SEARCHED: usize = 256;

/// A run of lines of the old text, and the lines of the new text that replace it.
type Change = (Range<usize>, Range<usize>);

/// The patch from the old text to the new one. `old` is `None` if the file is new. Returns `None`
/// if nothing differs.
pub fn patch(path: &str, old: Option<&str>, new: &str) -> Option<String> {
    if old == Some(new) {
        return None;
    }
    let name = quoted(path);
    let mut out = format!("diff --git {name} {name}\n");
    if old.is_none() {
        // The mode of the file is unknown; this is the usual one.
        out.push_str("new file mode 100644\n");
    }
    let (old_lines, new_lines) = (lines(old.unwrap_or_default()), lines(new));
    let changes = changes(&old_lines, &new_lines);
    if !changes.is_empty() {
        // Git marks the end of a name that contains a space.
        let end = if name.contains(' ') { "\t" } else { "" };
        match old {
            Some(_) => out.extend(["--- ", &name, end, "\n"]),
            None => out.push_str("--- /dev/null\n"),
        }
        out.extend(["+++ ", &name, end, "\n"]);
    }
    let mut rest = &changes[..];
    while !rest.is_empty() {
        let near = |pair: &[Change]| pair[1].0.start - pair[0].0.end <= 2 * AROUND;
        let more = rest.windows(2).take_while(|pair| near(pair)).count();
        let (hunk, behind) = rest.split_at(more + 1);
        write_hunk(&old_lines, &new_lines, hunk, &mut out);
        rest = behind;
    }
    Some(out)
}

/// The lines of a text, each with its line feed.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn write_hunk(old: &[&str], new: &[&str], changes: &[Change], out: &mut String) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
        return;
    };
    let before = AROUND.min(first.0.start);
    let behind = AROUND.min(old.len() - last.0.end);
    let old_range = first.0.start - before..last.0.end + behind;
    let new_range = first.1.start - before..last.1.end + behind;
    out.extend([
        "@@ -",
        &place(&old_range),
        " +",
        &place(&new_range),
        " @@\n",
    ]);
    let mut at = old_range.start;
    for (removed, added) in changes {
        write_lines(' ', &old[at..removed.start], out);
        write_lines('-', &old[removed.clone()], out);
        write_lines('+', &new[added.clone()], out);
        at = removed.end;
    }
    write_lines(' ', &old[at..old_range.end], out);
}

/// The position of a hunk: its first line, counted from 1, or the line before it if it is empty.
fn place(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        len => format!("{},{len}", range.start + 1),
    }
}

fn write_lines(sign: char, lines: &[&str], out: &mut String) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The differences, in order.
fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let ReplacedLines { before, old, new } = ReplacedLines::between(old, new);
    // Lines as numbers, which compare faster.
    let mut numbers = HashMap::new();
    let mut numbered = |lines: &[&str]| -> Vec<usize> {
        let mut number = |line: &&str| {
            let next = numbers.len();
            *numbers.entry((*line).to_owned()).or_insert(next)
        };
        lines.iter().map(&mut number).collect()
    };
    let (a, b) = (numbered(old), numbered(new));
    let found = smallest(&a, &b).unwrap_or_else(|| {
        let all = (0..a.len(), 0..b.len());
        if a.is_empty() && b.is_empty() {
            Vec::new()
        } else {
            vec![all]
        }
    });
    let moved = |range: Range<usize>| range.start + before..range.end + before;
    let found = found.into_iter();
    found.map(|(a, b)| (moved(a), moved(b))).collect()
}

/// The fewest changes, found with Myers' algorithm: how far each diagonal reaches with `d` lines
/// removed or added, for `d` from 0 up. `None` if more than [`SEARCHED`] are needed.
fn smallest(a: &[usize], b: &[usize]) -> Option<Vec<Change>> {
    let most = SEARCHED.min(a.len() + b.len());
    // What was reached after each step. The diagonal `k` is at index `k + most + 1`.
    let mut reached = vec![0_usize; 2 * most + 3];
    let mut steps: Vec<Vec<usize>> = Vec::new();
    for d in 0..=most {
        steps.push(reached.clone());
        for diagonal in (0..=d).map(|n| most + 1 + 2 * n - d) {
            let down = came_down(&reached, diagonal, most + 1, d);
            let mut x = if down {
                reached[diagonal + 1]
            } else {
                reached[diagonal - 1] + 1
            };
            let mut y = x + most + 1 - diagonal;
            while x < a.len() && y < b.len() && a[x] == b[y] {
                x += 1;
                y += 1;
            }
            reached[diagonal] = x;
            if x >= a.len() && y >= b.len() {
                return Some(traced(&steps, (a.len(), b.len()), most + 1));
            }
        }
    }
    None
}

/// Whether a step to this diagonal adds a line rather than removing one.
fn came_down(reached: &[usize], diagonal: usize, zero: usize, d: usize) -> bool {
    diagonal == zero - d || (diagonal != zero + d && reached[diagonal - 1] < reached[diagonal + 1])
}

/// The changes on the path that was found, from its end to its beginning.
fn traced(steps: &[Vec<usize>], end: (usize, usize), zero: usize) -> Vec<Change> {
    let (mut x, mut y) = end;
    let mut changes: Vec<Change> = Vec::new();
    for (d, reached) in steps.iter().enumerate().skip(1).rev() {
        let diagonal = zero + x - y;
        let down = came_down(reached, diagonal, zero, d);
        let from = if down { diagonal + 1 } else { diagonal - 1 };
        let before_x = reached[from];
        let before_y = before_x + zero - from;
        let change = if down {
            (before_x..before_x, before_y..before_y + 1)
        } else {
            (before_x..before_x + 1, before_y..before_y)
        };
        match changes.last_mut() {
            Some(last) if last.0.start == change.0.end && last.1.start == change.1.end => {
                *last = (change.0.start..last.0.end, change.1.start..last.1.end);
            }
            _ => changes.push(change),
        }
        (x, y) = (before_x, before_y);
    }
    changes.reverse();
    changes
}

/// A path as Git writes it: quoted and escaped if it has unusual characters.
fn quoted(path: &str) -> String {
    let usual = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if path.bytes().all(usual) {
        return path.to_owned();
    }
    let mut out = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            byte if usual(byte) => out.push(char::from(byte)),
            byte => {
                // Writing to a string cannot fail.
                let _written = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
