//! Finds the line of a prompt that says what it is about.
//!
//! Clients and users put other text around prompts: code, tags such as `<previous_user_message>`,
//! rules of dashes, the paths of pictures, what is open in an editor. These make poor titles.

/// The longest tag that is removed, in bytes.
const LONGEST_TAG: usize = 256;

/// Only this many lines are examined, and at most this many tags of a line.
const MOST_LINES: usize = 64;
const MOST_TAGS: usize = 8;

/// The candidate lines of `text`, without what was put around them: first those in words, then those
/// of code, then those that are nothing but a path.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = request(text);
    let (mut words, mut code, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    let mut fence = None;
    let lines = text.split(ends_line).map(str::trim);
    for line in lines.filter(|line| !line.is_empty()).take(MOST_LINES) {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.starts_with(mark));
        match (fence, mark) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => code.push(line),
            (None, Some(mark)) => {
                let rest = line.trim_start_matches(&mark[..1]);
                match rest.split_once(mark) {
                    Some((within, behind)) => {
                        code.push(within.trim());
                        words.push(behind.trim_start_matches(&mark[..1]).trim());
                    }
                    None => fence = Some(mark),
                }
            }
            (None, None) if is_path(line) => paths.push(line),
            (None, None) => words.push(line),
        }
    }
    let lines = words.into_iter().chain(code).chain(paths);
    lines
        .map(move |line| said(without_pictures(untagged(line, text))))
        .filter(|line| {
            !line
                .chars()
                .all(|c| c.is_whitespace() || c.is_ascii_punctuation())
        })
}

/// Whether a line is in words, and has nothing around them.
pub(super) fn is_in_words(line: &str) -> bool {
    let has_fence = ["```", "~~~"].iter().any(|mark| line.starts_with(mark));
    let is_bare = !has_fence && !is_path(line) && heading(line).is_none();
    is_bare && lines(line).next() == Some(line)
}

/// The words of the user behind what an editor says of itself.
fn request(text: &str) -> &str {
    let mut behind = text.match_indices("\n## My request for ");
    let behind = behind
        .next()
        .and_then(|(at, _)| text[at + 1..].split_once('\n'));
    let words = behind.map(|(_, words)| words);
    words
        .filter(|words| !words.trim().is_empty())
        .unwrap_or(text)
}

/// The text of a heading.
pub(super) fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let text = rest
        .strip_prefix(' ')
        .filter(|_| rest.len() < line.len())?
        .trim();
    (!text.is_empty()).then_some(text)
}

/// Whether a line is nothing but the path of a file.
fn is_path(line: &str) -> bool {
    let path = line.trim_matches(['\'', '"', '`']).trim_start_matches('@');
    let drive = path.as_bytes().get(1..3);
    let is_absolute = path
        .strip_prefix('/')
        .is_some_and(|path| path.contains('/'))
        || path.starts_with("~/")
        || path.starts_with("file://")
        || matches!(drive, Some(b":\\" | b":/"));
    // A terminal escapes spaces.
    let mut pairs = path.chars().zip(path.chars().skip(1));
    is_absolute && !pairs.any(|(before, c)| c.is_whitespace() && before != '\\')
}

/// A line without the pictures that it begins with.
fn without_pictures(line: &str) -> &str {
    let mut words = line;
    loop {
        let first = words.split_whitespace().next().unwrap_or_default();
        let ends = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
        let is_picture = is_path(first) && ends.iter().any(|end| first.ends_with(end));
        let rest = if is_picture {
            &words[first.len()..]
        } else if let Some(named) = words.strip_prefix("[Image #") {
            named.split_once(']').map_or("", |(_, rest)| rest)
        } else {
            return words;
        };
        if rest.trim().is_empty() {
            return line;
        }
        words = rest.trim();
    }
}

pub(super) fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
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
            ("```rust\nfn main() {}\n```\nwhy?", Some("why?")),
            ("```rust\nfn main() {}\n```", Some("fn main() {}")),
            ("```rust\nfn main() {}", Some("fn main() {}")),
            ("~~~~\n\n~~~~\nwhy?", Some("why?")),
            ("```let x = 1;``` what is it?", Some("what is it?")),
            ("```let x = 1;```", Some("let x = 1;")),
            ("/srv/a.png\nwhat is it?", Some("what is it?")),
            (
                "'/srv/my\\ a.png' what is it?",
                Some("'/srv/my\\ a.png' what is it?"),
            ),
            ("/srv/a.png what is it?", Some("what is it?")),
            ("[Image #1] what is it?", Some("what is it?")),
            ("/srv/a.png", Some("/srv/a.png")),
            ("C:\\a\\b.rs\n~/c\nfile:///d\nand?", Some("and?")),
            (
                "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\nWhy?",
                Some("Why?"),
            ),
            ("a\n## My request for Codex:\n", Some("a")),
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
