//! The changes of a file, line by line.

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;

/// The lines of a change, each with its sign: ` ` for one that stays, `-` and `+` for those that go
/// and come. Lines far from the change are left out.
pub fn lines<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev());
    let after = after.take_while(same).count();
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let mut lines = Vec::new();
    let mut add = |sign: char, more: &[&'a str]| {
        lines.extend(more.iter().map(|line| (sign, *line)));
    };
    add(' ', &old[before.saturating_sub(CONTEXT)..before]);
    add('-', &old[before..old_end]);
    add('+', &new[before..new_end]);
    add(' ', &old[old_end..old.len().min(old_end + CONTEXT)]);
    lines
}
