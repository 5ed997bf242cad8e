//! A command's captured output as text.
//!
//! Replays use it in place of a terminal that no longer exists; clients without terminals get it.

use std::fmt::Write as _;

use serde_json::json;

/// The most bytes of output that are kept of one terminal. Of longer output the beginning and the
/// end are kept, half of the limit each.
pub const OUTPUT_LIMIT: usize = 256 * 1024;

/// How a terminal's command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it exited.
    pub code: Option<u32>,
    /// The signal that ended it, if one did.
    pub signal: Option<String>,
}

/// The content item of a tool call that replaces a terminal. `truncated` says that the terminal
/// itself discarded the beginning; without an `exit` it is not known how the command ended.
pub(super) fn item(output: &str, truncated: bool, exit: Option<&Exit>) -> String {
    let text = text(output, truncated, exit);
    json!({ "type": "content", "content": { "type": "text", "text": text } }).to_string()
}

/// The output and the end of a command as plain text. `truncated` says that the beginning of the
/// output is missing; without an `exit` it is not known how the command ended.
pub(super) fn text(output: &str, truncated: bool, exit: Option<&Exit>) -> String {
    let mut text = shown(output, truncated);
    _ = match exit {
        Some(Exit {
            signal: Some(signal),
            ..
        }) => write!(text, "[ended by signal {signal}]"),
        Some(Exit {
            code: Some(code), ..
        }) => write!(text, "[exited with code {code}]"),
        _ => write!(text, "[how it ended is not known]"),
    };
    text
}

/// The output of a command that is still running, as plain text.
pub(super) fn so_far(output: &str, truncated: bool) -> String {
    let mut text = shown(output, truncated);
    text.push_str("[still running]");
    text
}

fn shown(output: &str, truncated: bool) -> String {
    let mut text = String::new();
    if truncated {
        text.push_str("[the beginning of the output was not kept]\n");
    }
    if output.is_empty() {
        text.push_str("[no output]\n");
    } else {
        let (head, tail) = halves(output);
        let fence = fence(output);
        // Writing to a string cannot fail.
        _ = writeln!(text, "{fence}console");
        line(&mut text, head);
        if let Some(tail) = tail {
            let left_out = output.len() - head.len() - tail.len();
            _ = writeln!(text, "[… {left_out} bytes of output left out …]");
            line(&mut text, tail);
        }
        _ = writeln!(text, "{fence}");
    }
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push('\n');
    }
}

/// Splits output that is too long to be kept whole into its beginning and its end.
fn halves(output: &str) -> (&str, Option<&str>) {
    if output.len() <= OUTPUT_LIMIT {
        return (output, None);
    }
    let head = output.floor_char_boundary(OUTPUT_LIMIT / 2);
    let tail = output.ceil_char_boundary(output.len() - OUTPUT_LIMIT / 2);
    (&output[..head], Some(&output[tail..]))
}

/// A code fence that the output cannot close: longer than any run of back quotes in it.
fn fence(output: &str) -> String {
    let runs = output.split(|letter| letter != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or(0).max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_are_shown() {
        let exited = |code| Exit {
            code: Some(code),
            signal: None,
        };
        let killed = Exit {
            code: None,
            signal: Some("SIGTERM".to_owned()),
        };
        for (output, truncated, exit, expected) in [
            (
                "a\n",
                false,
                Some(&exited(0)),
                "```console\na\n```\n[exited with code 0]",
            ),
            (
                "a",
                true,
                Some(&killed),
                "[the beginning of the output was not kept]\n```console\na\n```\n[ended by signal SIGTERM]",
            ),
            ("", false, None, "[no output]\n[how it ended is not known]"),
            (
                "````\n`",
                false,
                Some(&Exit::default()),
                "`````console\n````\n`\n`````\n[how it ended is not known]",
            ),
        ] {
            assert_eq!(text(output, truncated, exit), expected);
        }
        let item: serde_json::Value =
            serde_json::from_str(&item("\u{1b}[0m\"", false, None)).unwrap();
        assert_eq!(item["type"], "content");
        assert_eq!(item["content"]["text"], text("\u{1b}[0m\"", false, None));
    }

    #[test]
    fn a_long_output_loses_its_middle() {
        for (letter, size) in [("a", 1), ("é", 2), ("日", 3), ("😀", 4)] {
            let fits = letter.repeat(OUTPUT_LIMIT / size);
            assert!(text(&fits, false, None).contains(&fits));
            let long = format!("begin{}end", letter.repeat(OUTPUT_LIMIT / size));
            let shown = text(&long, false, None);
            let kept = shown.matches(letter).count() * size;
            assert!(
                kept <= OUTPUT_LIMIT && kept + 16 > OUTPUT_LIMIT - 8,
                "{letter}"
            );
            assert!(shown.starts_with("```console\nbegin"));
            assert!(shown.contains("end\n```\n"));
            let stated: usize = shown
                .split_once("[… ")
                .unwrap()
                .1
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            let lost = long.matches(letter).count() - shown.matches(letter).count();
            // The letters of `console` and of the remarks are not output.
            if letter != "a" {
                assert_eq!(stated, lost * size);
            }
        }
    }
}
