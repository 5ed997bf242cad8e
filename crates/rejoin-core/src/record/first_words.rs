//! Finds the line of a prompt that says what it is about.
//!
//! Clients and users wrap prompts in other text: code fences, tags such as
//! `<previous_user_message>`, rules of dashes. These make poor titles.

/// The longest tag that is removed, in bytes.
const LONGEST_TAG: usize = 256;

/// Only this many lines are examined, and at most this many tags of a line.
const MOST_LINES: usize = 64;
const MOST_TAGS: usize = 8;

/// The candidate lines of `text`, without what was wrapped around them.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split(ends_line).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty()).take(MOST_LINES);
    lines
        .map(move |line| said(untagged(unfenced(line), text)))
        .filter(|line| {
            !line
                .chars()
                .all(|c| c.is_whitespace() || c.is_ascii_punctuation())
        })
}

pub(super) fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A line without the fence that it begins with. Empty for one that only opens or closes code.
fn unfenced(line: &str) -> &str {
    for fence in ["```", "~~~"] {
        if let Some(rest) = line.strip_prefix(fence) {
            let rest = rest.trim_start_matches(['`', '~']);
            return rest.split_once(fence).map_or("", |(code, _)| code).trim();
        }
    }
    line
}

/// A line without leading tags and their end tags. A `<T>` without an end tag stays.
fn untagged<'a>(line: &'a str, text: &str) -> &'a str {
    let mut line = line;
    for _ in 0..MOST_TAGS {
        let Some((name, rest)) = leading_tag(line) else {
            break;
        };
        let rest = rest.trim();
        let end = format!("</{name}>");
        line = match rest.split_once(end.as_str()) {
            _ if name.starts_with('/') || rest.is_empty() => rest,
            Some((within, behind)) if within.trim().is_empty() => behind.trim(),
            Some((within, _)) => within.trim(),
            // The end tag is on another line.
            None if text.contains(&end) => rest,
            None => return line,
        };
    }
    match line.rfind("</") {
        // The end of a tag from another line.
        Some(at) if at > 0 && leading_tag(&line[at..]).is_some_and(|(_, rest)| rest.is_empty()) => {
            line[..at].trim()
        }
        _ => line,
    }
}

/// The name of the tag that a line begins with, including the slash of an end tag, and what follows
/// the tag.
fn leading_tag(line: &str) -> Option<(&str, &str)> {
    let body = line.strip_prefix('<')?;
    let end = body
        .bytes()
        .take(LONGEST_TAG)
        .position(|byte| byte == b'>')?;
    let tag = &body[..end];
    let name = tag.split([' ', '\t']).next()?;
    let name = name.strip_suffix('/').unwrap_or(name);
    let mut letters = name.strip_prefix('/').unwrap_or(name).chars();
    let is_name = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.'));
    // A URL in angle brackets is not a tag.
    (is_name && !tag.contains("://") && !tag.contains('<')).then(|| (name, &body[end + 1..]))
}

/// The text that a command prints, if printing is all it does.
fn said(line: &str) -> &str {
    match line.strip_prefix("/echo ") {
        Some(said) if !said.trim().is_empty() => said.trim(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_a_prompt_is_taken_off() {
        for (text, expected) in [
            ("Fix it", Some("Fix it")),
            ("```rust\nfn main() {}\n```\nwhy?", Some("fn main() {}")),
            ("~~~~\n\n~~~~\nwhy?", Some("why?")),
            ("```let x = 1;``` what is it?", Some("let x = 1;")),
            ("---\n***\nFix it", Some("Fix it")),
            (
                "<previous_user_message>My name is Ada</previous_user_message>",
                Some("My name is Ada"),
            ),
            ("<a>\n<b key=\"v\">Fix\n</b></a>", Some("Fix")),
            ("<a>Fix\nit</a>", Some("Fix")),
            ("<a>\n```\n</a>\nit</a>", Some("it")),
            ("<a></a>Fix it", Some("Fix it")),
            ("<img/>Fix it", Some("<img/>Fix it")),
            ("<T> is generic", Some("<T> is generic")),
            ("Vec<String> fails", Some("Vec<String> fails")),
            ("a < b > c", Some("a < b > c")),
            ("<https://a.example>", Some("<https://a.example>")),
            ("/echo hello", Some("hello")),
            ("/echo", Some("/echo")),
            ("/echo  \n/help", Some("/echo")),
            ("/recall 2", Some("/recall 2")),
            ("/echoes of it", Some("/echoes of it")),
            ("👍\nthanks", Some("👍")),
            ("```\n```", None),
            ("<a></a>", None),
            ("", None),
            ("?!", None),
        ] {
            assert_eq!(lines(text).next(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_megabyte_of_tags_takes_no_time() {
        for unit in ["<a>", "<a", "</a>", "```", "<a></a>", "<"] {
            let text = unit.repeat((1 << 20) / unit.len());
            lines(&text).for_each(drop);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_lines_or_none(text in "[<>/a` \n~-]{0,40}") {
            for line in lines(&text) {
                proptest::prop_assert_eq!(line.trim(), line);
                proptest::prop_assert!(text.contains(line));
            }
        }
    }
}
