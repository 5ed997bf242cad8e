//! Tests of patches: their form, and that they turn the old text into the new one.

use proptest::prelude::*;

use super::*;

/// Applies a patch, as far as we write such patches.
fn apply(old: &str, patch: &str) -> String {
    let old_lines = lines(old);
    let mut out = String::new();
    let mut at = 0;
    let body = patch
        .split_inclusive('\n')
        .skip_while(|line| !line.starts_with("@@"));
    let mut last = "";
    for line in body {
        let (sign, text) = line.split_at(1);
        match sign {
            "@" => {
                let place = text
                    .split([' ', ','])
                    .nth(1)
                    .unwrap()
                    .trim_start_matches('-');
                let mut start: usize = place.parse().unwrap();
                // The line before, if the hunk has no lines of the old text.
                start -= usize::from(!text.contains(",0 +"));
                while at < start {
                    out.push_str(old_lines[at]);
                    at += 1;
                }
            }
            " " | "-" => {
                let whole = old_lines[at];
                assert_eq!(whole.trim_end_matches('\n'), text.trim_end_matches('\n'));
                if sign == " " {
                    out.push_str(whole);
                }
                at += 1;
            }
            "+" => out.push_str(text),
            // The line of the old text was taken as it is.
            "\\" if last == "+" => {
                out.pop();
            }
            "\\" => {}
            _ => panic!("{line}"),
        }
        last = sign;
    }
    out.extend(old_lines[at..].iter().copied());
    out
}

/// A text with a number on each line.
fn numbers(range: std::ops::RangeInclusive<u32>) -> String {
    let lines: Vec<_> = range.map(|n| n.to_string()).collect();
    lines.join("\n") + "\n"
}

#[test]
fn a_patch_is_what_git_writes() {
    let old = numbers(1..=20);
    let new = old
        .replace("5\n", "five\n")
        .replace("\n18\n", "\n18\nmore\n");
    let expected = "diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n\
        @@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
        @@ -12,9 +12,10 @@\n 12\n 13\n 14\n-15\n+1five\n 16\n 17\n 18\n+more\n 19\n 20\n";
    assert_eq!(patch("/w/a", Some(&old), &new).as_deref(), Some(expected));
}

#[test]
fn ends_without_a_line_break_are_told() {
    let expected = "diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n\
        \\ No newline at end of file\n+x\n";
    assert_eq!(patch("/a", Some("x"), "x\n").as_deref(), Some(expected));
    let expected = "diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +0,0 @@\n-x\n";
    assert_eq!(patch("/a", Some("x\n"), "").as_deref(), Some(expected));
    assert_eq!(patch("/a", Some("x"), "x"), None);
}

#[test]
fn new_files_come_from_nowhere() {
    let expected = "diff --git /a b /a b\nnew file mode 100644\n--- /dev/null\n+++ /a b\t\n\
        @@ -0,0 +1,2 @@\n+1\n+2\n";
    assert_eq!(patch("/a b", None, "1\n2\n").as_deref(), Some(expected));
    let empty = "diff --git /a /a\nnew file mode 100644\n";
    assert_eq!(patch("/a", None, "").as_deref(), Some(empty));
}

#[test]
fn unusual_paths_are_quoted() {
    assert_eq!(quoted("/a b/c'd"), "/a b/c'd");
    assert_eq!(quoted("C:\\é\n\"\u{1}"), r#""C:\\\303\251\n\"\001""#);
}

#[test]
fn very_different_texts_are_one_change() {
    let (old, new) = (numbers(0..=400), numbers(1000..=1400));
    let patch = patch("/a", Some(&old), &new).unwrap();
    assert_eq!(patch.matches("@@ -").count(), 1);
    assert_eq!(apply(&old, &patch), new);
}

proptest! {
    #[test]
    fn a_patch_makes_the_new_text_of_the_old_one(
        old in "([abc]\n){0,24}[ab]{0,2}",
        new in "([abc]\n){0,24}[ab]{0,2}",
    ) {
        if let Some(patch) = patch("/a", Some(&old), &new) {
            prop_assert_eq!(apply(&old, &patch), new, "{}", patch);
        } else {
            prop_assert_eq!(old, new);
        }
    }
}
