//! Cuts Rust source into the few tokens that the rules about imports need.
//!
//! Comments are gone from the result and strings stand apart, since words in prose are no imports;
//! what is only compiled for tests can be left out, since tests may import what they like.

/// A piece of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// A string literal without prefix, as it is written between its quotes.
    Text(String),
    /// `::`.
    Sep,
    /// Any other character that is not white space.
    Mark(char),
}

impl Token {
    /// Whether this is the word `text`.
    pub(crate) fn is_word(&self, text: &str) -> bool {
        matches!(self, Self::Word(word) if word == text)
    }

    /// The word, if it is one.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The tokens of a file, without comments, characters and strings of other kinds.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        at += match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['"', ..] => {
                let len = string(rest).min(rest.len());
                let text = rest[1..len].iter().collect::<String>();
                out.push(Token::Text(text.trim_end_matches('"').to_owned()));
                len
            }
            ['\'', ..] => char_or_lifetime(rest),
            [':', ':', ..] => {
                out.push(Token::Sep);
                2
            }
            [c, ..] if c.is_alphanumeric() || *c == '_' => word(rest, &mut out),
            [c, ..] => {
                if !c.is_whitespace() {
                    out.push(Token::Mark(*c));
                }
                1
            }
            [] => 1,
        };
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[char], hashes: usize) -> usize {
    let mut at = hashes + 1;
    while at < rest.len() {
        let closing = rest[at] == '"'
            && rest.len() > at + hashes
            && rest[at + 1..=at + hashes].iter().all(|c| *c == '#');
        if closing {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}

fn char_or_lifetime(rest: &[char]) -> usize {
    match rest {
        // '\n', '\'' and '\u{1f}': the first quote from the third character on ends it.
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|c| *c == '\'').map_or(3, |at| at + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

fn word(rest: &[char], out: &mut Vec<Token>) -> usize {
    let len = rest
        .iter()
        .position(|c| !c.is_alphanumeric() && *c != '_')
        .unwrap_or(rest.len());
    let text: String = rest[..len].iter().collect();
    let hashes = rest[len..].iter().take_while(|c| **c == '#').count();
    if matches!(text.as_str(), "r" | "br" | "cr") {
        match rest.get(len + hashes) {
            Some('"') => return len + raw_string(&rest[len..], hashes),
            // A raw identifier: its name follows.
            Some(_) if hashes == 1 && text == "r" => return len + 1,
            _ => {}
        }
    }
    if matches!(text.as_str(), "b" | "c") && rest.get(len) == Some(&'"') {
        return len + string(&rest[len..]);
    }
    out.push(Token::Word(text));
    len
}

/// A module that a file declares for its tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestModule {
    /// Its name.
    pub(crate) name: String,
    /// The file that a `#[path]` names.
    pub(crate) file: Option<String>,
}

/// The tokens that are compiled without `cfg(test)`, and the modules that only tests have.
pub(crate) fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<TestModule>) {
    let mut kept = Vec::new();
    let mut test_modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = test_attribute(&tokens[at..]) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        at += end;
        let item = &tokens[at..at + item_len(&tokens[at..])];
        test_modules.extend(declared_module(item));
        at += item.len();
    }
    (kept, test_modules)
}

/// The length of `#[cfg(test)]` or `#[cfg(all(test, …))]` if the tokens begin with it.
fn test_attribute(tokens: &[Token]) -> Option<usize> {
    let opening = [Token::Mark('#'), Token::Mark('[')];
    if !tokens.starts_with(&opening) || !tokens.get(2)?.is_word("cfg") {
        return None;
    }
    let len = group_len(&tokens[1..]) + 1;
    let attribute = &tokens[3..len];
    let plain = attribute.get(1)?.is_word("test");
    let all = attribute.get(1)?.is_word("all") && attribute.iter().any(|t| t.is_word("test"));
    (plain || all).then_some(len)
}

/// The length of a bracketed group that the tokens begin with.
fn group_len(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The length of the item that the tokens begin with, its attributes included.
fn item_len(tokens: &[Token]) -> usize {
    let mut at = 0;
    let mut is_use = false;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') if !is_use => return at + group_len(&tokens[at..]),
            Token::Mark('(' | '[' | '{') => at += group_len(&tokens[at..]),
            token => {
                is_use |= token.is_word("use");
                at += 1;
            }
        }
    }
    tokens.len()
}

/// The module in `mod name;`, perhaps with a `#[path]` before it.
fn declared_module(item: &[Token]) -> Option<TestModule> {
    let [
        attributes @ ..,
        keyword,
        Token::Word(name),
        Token::Mark(';'),
    ] = item
    else {
        return None;
    };
    let file = attributes.windows(3).find_map(|window| match window {
        [path, Token::Mark('='), Token::Text(file)] if path.is_word("path") => Some(file),
        _ => None,
    });
    keyword.is_word("mod").then(|| TestModule {
        name: name.clone(),
        file: file.cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> String {
        let found = tokens(source);
        let texts: Vec<String> = found
            .iter()
            .map(|token| match token {
                Token::Word(word) => word.clone(),
                Token::Text(text) => format!("<{text}>"),
                Token::Sep => "::".to_owned(),
                Token::Mark(mark) => mark.to_string(),
            })
            .collect();
        texts.join(" ")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        for (source, expected) in [
            ("a // crate::x\nb", "a b"),
            ("a /* one /* two */ still */ b", "a b"),
            (r#"a("crate::x \" //", b)"#, r#"a ( <crate::x \" //> , b )"#),
            ("a(\"not closed", "a ( <not closed>"),
            (r##"a(r#"quote " and // "#, b)"##, "a ( , b )"),
            ("a(b\"//\", c\"//\", br\"//\", d)", "a ( , , , d )"),
            (
                "f::<'a>('\"', '\\'', '\\u{27}', b'x')",
                "f :: < a > ( , , , b )",
            ),
            ("r#type::x", "type :: x"),
        ] {
            assert_eq!(words(source), expected, "{source}");
        }
    }

    #[test]
    fn what_only_tests_have_is_left_out() {
        let source = "
            #[cfg(test)] use a::{b, c};
            #[cfg(test)] #[path = \"x.rs\"] mod fakes;
            #[cfg(test)] pub mod tools;
            use kept::one;
            #[cfg(all(test, unix))] fn f(x: [u8; 2]) { g({}); }
            #[cfg(not(test))] use kept::two;
            #[cfg(test)] mod tests { use crate::up::x; fn t() {} }
            fn kept_three() {}";
        let (kept, modules) = without_tests(&tokens(source));
        let kept: Vec<&str> = kept.iter().filter_map(Token::word).collect();
        let expected = [
            "use",
            "kept",
            "one",
            "cfg",
            "not",
            "test",
            "use",
            "kept",
            "two",
            "fn",
            "kept_three",
        ];
        assert_eq!(kept, expected);
        let modules: Vec<_> = modules
            .iter()
            .map(|module| (module.name.as_str(), module.file.as_deref()))
            .collect();
        assert_eq!(modules, [("fakes", Some("x.rs")), ("tools", None)]);
    }
}
