//! The title of a session: the one that its agent set, or else the beginning of its first prompt.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::percent_decode_str;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::first_words::{self, ends_line, heading};
use crate::json::Object;
use crate::protocol::UpdateKind;
use crate::text;

/// The longest title, in characters, its ellipsis included.
pub const MAX_CHARS: usize = 80;

/// How many characters a long title may lose so that it ends with a whole word.
const WORD: usize = 20;

/// How much is kept of a prompt, in characters.
pub const MAX_WORDS: usize = 240;

/// How many characters a title has at least that a tool has cut off a prompt.
const CUT: usize = 24;

/// A title as one line, in the form to be shown. `None` if it has no visible character.
pub fn plain(text: &str) -> Option<String> {
    if is_plain(text, MAX_CHARS) {
        return Some(text.to_owned());
    }
    first_line(text)
}

/// Whether a text of at most so many characters is on one line and in the form to be shown, as nearly all
/// that were kept are: a list looks at each.
fn is_plain(text: &str, most: usize) -> bool {
    let bytes = text.as_bytes();
    let is_trimmed = !bytes.is_empty() && !bytes.starts_with(b" ") && !bytes.ends_with(b" ");
    is_trimmed
        && bytes.len() <= most
        && bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && bytes.windows(2).all(|pair| pair != b"  ")
}

/// The beginning of a text as one line, with line breaks replaced by single spaces. `None` if it
/// has no visible character.
pub fn line_of(text: &str) -> Option<String> {
    let line = one_line(text.chars());
    (!line.is_empty()).then(|| shorten(line))
}

/// The title that an `info` record with this payload sets: `None` if it does not change the title,
/// and `Some(None)` if it removes the one that the agent set.
pub fn named(payload: &str) -> Option<Option<String>> {
    // Nearly all payloads are about something else.
    memchr::memmem::find(
        payload.as_bytes(),
        UpdateKind::SessionInfo.name().as_bytes(),
    )?;
    let mut update: BTreeMap<&str, &RawValue> = serde_json::from_str(payload).ok()?;
    if !update.contains_key("sessionUpdate") {
        update = serde_json::from_str(update.get("update")?.get()).ok()?;
    }
    let name: &str = serde_json::from_str(update.get("sessionUpdate")?.get()).ok()?;
    if name != UpdateKind::SessionInfo.name() {
        return None;
    }
    let title: Option<LossyString> = serde_json::from_str(update.get("title")?.get()).ok()?;
    Some(title.and_then(|title| first_line(&title.0)))
}

/// The `session_info_update` that gives a session this title.
pub fn update(title: &str) -> String {
    Object::new()
        .string("sessionUpdate", UpdateKind::SessionInfo.name())
        .string("title", title)
        .end()
}

/// Names that tools give conversations for want of a title, perhaps with a number or a time behind them.
const PLACEHOLDERS: [&str; 12] = [
    "New session",
    "Child session",
    "CLI session",
    "ACP session",
    "Untitled session",
    "New chat",
    "New thread",
    "New agent",
    "New conversation",
    "New task",
    "Untitled chat",
    "Untitled",
];

/// Whether a title is nothing but a name for want of one.
fn is_placeholder(title: &str) -> bool {
    let title = title.trim().to_lowercase();
    let is_number = |c: char| c.is_ascii_digit() || c.is_ascii_punctuation() || c.is_whitespace();
    // A time has two letters among its numbers.
    let is_time = |rest: &str| {
        let (rest, marks) = (
            rest.replace(['t', 'z'], ""),
            rest.matches(['t', 'z']).count(),
        );
        marks <= 2 && rest.chars().all(is_number)
    };
    PLACEHOLDERS.iter().any(|name| {
        let rest = title.strip_prefix(&name.to_lowercase());
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with([' ', '-', ':', '(', '#']) && is_time(rest)
        })
    })
}

/// A title that a tool or an agent has given a conversation, in the form to be shown. `None` if it says nothing,
/// so that one that is made of the first prompt is better: if it is only a name for want of a title or a command,
/// or has a path, a fence, a tag or a mark of a heading in front.
pub fn given(title: &str) -> Option<String> {
    let is_saying = |line: &String| !is_placeholder(line) && !says_nothing(line);
    plain(title).filter(is_saying)
}

/// Whether a title is nothing but the beginning of a prompt with this payload. White space and capitals make no
/// difference. A short one is so only if it says that it was cut, or is the title that is made of the prompt
/// here: somebody may have named a conversation after a word of it.
pub fn is_beginning(title: &str, payload: &str) -> bool {
    let made = MadeTitle::of(payload);
    let blocks = blocks(payload).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| block.text.as_ref());
    made.is_some_and(|made| made.is_like(title)) || begins(title, texts.map(|text| &*text.0))
}

/// Whether these texts begin with a title that was cut off them.
fn begins<'a>(title: &str, texts: impl Iterator<Item = &'a str>) -> bool {
    fn folded(text: &str) -> impl Iterator<Item = char> {
        let text = text.chars().filter(|c| !c.is_whitespace());
        text.flat_map(char::to_lowercase)
    }
    let whole = title.trim().trim_end_matches(['…', '.']);
    let is_cut = whole.len() < title.trim().len() || whole.chars().count() >= CUT;
    let mut texts = texts.flat_map(folded);
    is_cut && folded(whole).all(|c| texts.next() == Some(c))
}

/// The title for a session whose first `prompt` record has this payload: one line of visible
/// characters. `None` if the prompt has no usable text.
pub fn title(payload: &str) -> Option<String> {
    MadeTitle::of(payload).map(|made| made.title)
}

/// The title that is made of a prompt, for a session that nobody has given one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeTitle {
    /// The title.
    pub title: String,
    /// The prompt's first words on one line, which may distinguish it from another one with the same title.
    pub words: String,
}

impl MadeTitle {
    /// Of a `prompt` record with this payload. `None` if the prompt has no usable text.
    pub fn of(payload: &str) -> Option<Self> {
        let blocks = blocks(payload)?;
        let texts = blocks.iter().filter(|block| block.kind.0 == "text");
        let mut texts = texts.filter_map(|block| block.text.as_ref());
        let text = texts.find_map(|LossyString(text)| Some((of_text(text)?, text)));
        let (title, words) = match text {
            Some((title, text)) => (title, words(text)),
            None => (of_other(&blocks)?, String::new()),
        };
        Some(Self { title, words })
    }

    /// Whether another title says the same, or was cut off the same words.
    pub fn is_like(&self, title: &str) -> bool {
        title == self.title || begins(title, std::iter::once(&*self.words))
    }

    /// Takes the title of a prompt with this payload, if there was none so far that says anything about the
    /// session.
    pub fn take(known: &mut Option<Self>, payload: &str) {
        let is_poor = |made: &Self| says_nothing(&made.title);
        if known.as_ref().is_none_or(is_poor)
            && let Some(made) = Self::of(payload)
            && (known.is_none() || !is_poor(&made))
        {
            *known = Some(made);
        }
    }
}

/// A title of what is there in place of text.
fn of_other(blocks: &[TitleBlock]) -> Option<String> {
    let of_type = |name| {
        blocks
            .iter()
            .filter(move |block: &&TitleBlock| block.kind.0 == name)
    };

    let link = || {
        of_type("resource_link").find_map(|block| {
            let mut named = [&block.title, &block.name].into_iter().flatten();
            named
                .find_map(|name| first_line(&name.0))
                .or_else(|| last_segment(&block.uri.as_ref()?.0))
        })
    };
    let resource = || {
        of_type("resource").find_map(|block| {
            let resource = block.resource.as_ref()?;
            last_segment(&resource.uri.as_ref()?.0)
        })
    };
    let media = || {
        let named = [("image", "[image]"), ("audio", "[audio]")];
        let found = named
            .into_iter()
            .find(|(name, _)| of_type(name).next().is_some());
        found.map(|(_, title)| title.to_owned())
    };
    link().or_else(resource).or_else(media)
}

/// The readable blocks of a prompt: one that is unreadable must not hide the others.
fn blocks(payload: &str) -> Option<Vec<TitleBlock>> {
    let params: Params<'_> = serde_json::from_str(payload).ok()?;
    let blocks = params.prompt.iter();
    let blocks = blocks.filter_map(|block| serde_json::from_str(block.get()).ok());
    Some(blocks.collect())
}

#[derive(serde::Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    prompt: Vec<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct TitleBlock {
    #[serde(rename = "type")]
    kind: LossyString,
    text: Option<LossyString>,
    title: Option<LossyString>,
    name: Option<LossyString>,
    uri: Option<LossyString>,
    resource: Option<TitleResource>,
}

#[derive(serde::Deserialize)]
struct TitleResource {
    uri: Option<LossyString>,
}

/// A JSON string. A lone surrogate, which JSON allows and a `String` does not, becomes a
/// replacement character.
struct LossyString(String);

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesOfString;
        impl Visitor<'_> for BytesOfString {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                Ok(LossyString(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(BytesOfString)
    }
}

/// The first meaningful line of a prompt with this text, in the form of a title.
pub fn of_text(text: &str) -> Option<String> {
    let plain = |line: &str| first_line(heading(line).unwrap_or(line));
    let mut meant = first_words::lines(text);
    let mut next = || meant.find_map(|line| Some((line, plain(line)?)));
    let Some((line, title)) = next() else {
        return first_line(text);
    };
    // Such a line only leads to what is meant, such as the heading of a plan.
    if line.ends_with(':')
        && let Some((behind, meant)) = next()
    {
        return match heading(behind) {
            Some(_) => Some(meant),
            None => first_line(&format!("{title} {meant}")),
        };
    }
    Some(title)
}

/// The beginning of what a text says, on one line.
fn words(text: &str) -> String {
    visible_words(first_words::lines(text).flat_map(|line| line.chars().chain([' '])))
}

/// The beginning of a text on one line, in the form to be shown.
fn visible_words(text: impl Iterator<Item = char>) -> String {
    let visible = text.filter(|c| c.is_whitespace() || !is_invisible(*c));
    text::one_line(visible).take(MAX_WORDS).collect()
}

/// What was kept of `visible_words`, in that form, whatever has become of it.
pub fn kept_words(words: String) -> String {
    if is_plain(&words, MAX_WORDS) {
        return words;
    }
    visible_words(words.chars())
}

/// Whether a title says nothing about a session: it is only a command such as `/mode`, a path, a fence, a tag or
/// punctuation.
pub fn says_nothing(title: &str) -> bool {
    is_command(title) || !first_words::is_in_words(title)
}

fn is_command(title: &str) -> bool {
    let name = title.strip_prefix('/');
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    name.is_some_and(|name| !name.is_empty() && name.chars().all(is_of_name))
}

/// The first line of `text` with a visible character, in the form of a title.
fn first_line(text: &str) -> Option<String> {
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        let line = one_line(chars.by_ref().take_while(|c| !ends_line(*c)));
        // Joiners are kept between characters, which they shape, but are invisible on their own.
        if line.chars().any(|c| !is_joiner(c)) {
            return Some(shorten(line));
        }
    }
    None
}

/// The visible characters on one line. Reads no more than needed to know that the line is too long,
/// since a line may have megabytes.
fn one_line(chars: impl Iterator<Item = char>) -> String {
    let visible = chars.filter(|c| c.is_whitespace() || !is_invisible(*c));
    text::one_line(visible).take(MAX_CHARS + 1).collect()
}

fn shorten(line: String) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= MAX_CHARS {
        return line;
    }
    let room = MAX_CHARS - 1;
    let mut end = room;
    while end > room - WORD && !chars[end].is_whitespace() {
        end -= 1;
    }
    if !chars[end].is_whitespace() {
        // The text is one long word or has a script without spaces. Modifiers are removed together
        // with the character before them.
        end = room;
        while end > room - WORD && (extends(chars[end]) || is_joiner(chars[end - 1])) {
            end -= 1;
        }
    }
    let kept: String = chars[..end].iter().collect();
    format!("{}…", kept.trim_end())
}

/// Characters that are invisible and change how others are shown: controls, directions, marks,
/// fillers, tags. Titles are listed next to other text, which they must not affect.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Joins or separates the characters around it: emoji and several scripts need it.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Modifies the character before it: combining marks, variation selectors, skin tones.
fn extends(c: char) -> bool {
    is_joiner(c)
        || matches!(c, '\u{300}'..='\u{36f}' | '\u{20d0}'..='\u{20f0}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}')
}

/// The display name of the file at a URI.
fn last_segment(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next()?;
    let segment = path.trim_end_matches('/').rsplit('/').next()?;
    first_line(&percent_decode_str(segment).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_prompt(text: &str) -> Option<String> {
        title(&json!({"prompt": [{"type": "text", "text": text}]}).to_string())
    }

    #[test]
    fn the_first_line_with_anything_to_see() {
        let family = "👩‍👩‍👧‍👦 emoji 🏳️‍🌈";
        for (text, expected) in [
            ("Fix the parser", Some("Fix the parser")),
            (
                "\r\n\t \r\nFix   the\tparser  \r\nsoon",
                Some("Fix the parser"),
            ),
            ("one\u{2028}two", Some("one")),
            ("one\rtwo", Some("one")),
            ("a\u{a0}\u{3000} b", Some("a b")),
            ("/recall 2", Some("/recall 2")),
            ("```rust\nfn main() {}\n```", Some("fn main() {}")),
            (
                "Implement the following plan:\n\n# Add it\n\n1. a",
                Some("Add it"),
            ),
            (
                "It fails when running:\n```\ncargo test\n```",
                Some("It fails when running: cargo test"),
            ),
            ("And now:", Some("And now:")),
            ("## A heading\nand more", Some("A heading")),
            ("#1 fails", Some("#1 fails")),
            ("<a>My name\nis Ada</a>", Some("My name")),
            ("```\n```", Some("```")),
            ("?", Some("?")),
            (family, Some(family)),
            ("می\u{200c}خواهم", Some("می\u{200c}خواهم")),
            ("שלום עולם", Some("שלום עולם")),
            (
                "\u{202e}txt.exe\u{202c} \u{2066}x\u{2069}",
                Some("txt.exe x"),
            ),
            ("a\u{0}b\u{1b}[31mc\u{9b}d\u{7f}", Some("ab[31mcd")),
            ("\u{feff}\u{200b}hi\u{e0041}\u{2060}", Some("hi")),
            ("\u{200d}\u{200b}\n \u{202e} \nseen", Some("seen")),
            ("", None),
            (" \n\u{200b}\n\u{0}", None),
        ] {
            assert_eq!(of_prompt(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_a_title_only_for_want_of_a_better_one() {
        let prompt = |text: &str| json!({"prompt": [{"type": "text", "text": text}]}).to_string();
        let mut made = None;
        for (text, expected) in [
            (" ", None),
            ("/mode", Some("/mode")),
            ("/help", Some("/mode")),
            ("/srv/hives/a.txt", Some("/mode")),
            ("```\n```", Some("/mode")),
            ("<a></a>", Some("/mode")),
            ("?!", Some("/mode")),
            ("Count them", Some("Count them")),
            ("And these", Some("Count them")),
        ] {
            MadeTitle::take(&mut made, &prompt(text));
            let title = made.as_ref().map(|made| made.title.as_str());
            assert_eq!(title, expected, "{text}");
        }
    }

    #[test]
    fn long_lines_end_with_a_word_where_they_can() {
        let fits = "x".repeat(MAX_CHARS);
        assert_eq!(of_prompt(&fits), Some(fits));

        let words = "word ".repeat(100);
        let expected = format!("{}…", "word ".repeat(16).trim_end());
        assert_eq!(of_prompt(&words), Some(expected));

        let hard = "é".repeat(100);
        assert_eq!(of_prompt(&hard), Some(format!("{}…", "é".repeat(79))));

        // The cut would be between a letter and its accent, or inside an emoji family.
        let accents = format!("{}{}", "x".repeat(78), "e\u{301}".repeat(10));
        assert_eq!(of_prompt(&accents), Some(format!("{}…", "x".repeat(78))));
        let families = format!("{}{}", "x".repeat(76), "👩‍👩‍👧‍👦".repeat(3));
        assert_eq!(of_prompt(&families), Some(format!("{}…", "x".repeat(76))));
    }

    #[test]
    fn a_megabyte_is_no_matter() {
        for unit in ["x", "\n", "\u{200b}", " ", "e\u{301}", "\u{200d}", "日本"] {
            let text = unit.repeat((1 << 20) / unit.len());
            if let Some(title) = of_prompt(&text) {
                let count = title.chars().count();
                assert!((1..=MAX_CHARS).contains(&count), "{unit:?}: {count}");
            }
        }
    }

    #[test]
    fn what_stands_in_for_text() {
        let blank = json!({"type": "text", "text": " \n"});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
        let link = |title: Option<&str>, name: &str| {
            json!({"type": "resource_link", "title": title, "name": name,
                "uri": "file:///a/b%20c.rs"})
        };
        let resource =
            |uri: &str| json!({"type": "resource", "resource": {"uri": uri, "text": "t"}});
        for (blocks, expected) in [
            (json!([image, audio]), Some("[image]")),
            (json!([audio]), Some("[audio]")),
            (json!([blank, image, link(Some("T"), "n")]), Some("T")),
            (json!([link(None, "n\u{202e}ame")]), Some("name")),
            (json!([link(Some(" "), "")]), Some("b c.rs")),
            (
                json!([image, resource("file:///a/My%20F.rs?x=/y#/z")]),
                Some("My F.rs"),
            ),
            (json!([resource("file:///src/")]), Some("src")),
            (json!([resource("100%")]), Some("100%")),
            (json!([resource("a%2"), link(None, "n")]), Some("n")),
            (json!([resource("x%E2%82%AC%zz%")]), Some("x€%zz%")),
            (json!([resource("///"), audio]), Some("[audio]")),
            (json!([image, {"type": "text", "text": "t"}]), Some("t")),
            (
                json!([blank, {"type": "text", "text": "second"}]),
                Some("second"),
            ),
            (
                json!([{"type": "hologram"}, 7, null, {"type": "text"}]),
                None,
            ),
            (
                json!([{"type": "text", "text": 7}, {"type": "text", "text": "t"}]),
                Some("t"),
            ),
            (json!([]), None),
        ] {
            let payload = json!({"prompt": blocks, "_meta": {"n": 1}}).to_string();
            assert_eq!(title(&payload).as_deref(), expected, "{payload}");
        }
    }

    #[test]
    fn odd_payloads() {
        for bad in ["", "{}", "[]", "null", r#"{"prompt":7}"#, r#"{"prompt":[{"#] {
            assert_eq!(title(bad), None, "{bad}");
        }
        let lone = r#"{"prompt":[{"type":"text","text":"a\ud83d b"}]}"#;
        let lone = title(lone).unwrap();
        assert!(lone.starts_with('a') && lone.ends_with(" b"), "{lone}");
    }

    #[test]
    fn an_agent_may_name_its_session() {
        let info = |title: &str| format!(r#"{{"sessionUpdate":"session_info_update"{title}}}"#);
        for (payload, expected) in [
            (info(r#","title":" Fix\tit \nsoon""#), Some(Some("Fix it"))),
            (
                info(r#","title":"\ud83dx""#),
                Some(Some("\u{fffd}\u{fffd}\u{fffd}x")),
            ),
            (info(r#","title":null"#), Some(None)),
            (info(r#","title":" ""#), Some(None)),
            (info(r#","title":7"#), None),
            (info(""), None),
            (
                format!(r#"{{"_meta":{{}},"update":{}}}"#, info(r#","title":"T""#)),
                Some(Some("T")),
            ),
            (
                r#"{"sessionUpdate":"usage_update","title":"session_info_update"}"#.to_owned(),
                None,
            ),
            (r#"{"update":"session_info_update"}"#.to_owned(), None),
            (r#"{"title":"T"}"#.to_owned(), None),
            ("session_info_update".to_owned(), None),
        ] {
            let found = named(&payload);
            assert_eq!(found.as_ref().map(Option::as_deref), expected, "{payload}");
        }
        let long = info(&format!(r#","title":"{}""#, "word ".repeat(100_000)));
        let named = named(&long).unwrap().unwrap();
        assert!(named.chars().count() <= MAX_CHARS);
    }

    proptest::proptest! {
        #[test]
        fn any_title_is_one_short_visible_line(text: String) {
            if let Some(title) = of_prompt(&text) {
                assert!((1..=MAX_CHARS).contains(&title.chars().count()));
                assert!(!title.chars().any(|c| is_invisible(c) || ends_line(c)));
                assert_eq!(title.trim(), title);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_kept_is_in_the_form_to_be_shown(text in "[a-c .\\t\u{ad}é]{0,90}") {
            proptest::prop_assert_eq!(plain(&text), first_line(&text));
            let words = visible_words(text.chars());
            proptest::prop_assert_eq!(kept_words(text), words);
        }
    }
}
