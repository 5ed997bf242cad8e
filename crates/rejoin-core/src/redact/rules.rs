//! Which texts are keys and tokens: the rules of gitleaks, and those of `kinds.rs`.
//!
//! A rule has keywords, one of which is in every text that it finds something in. So a text is
//! searched once for all keywords, and only the rules of those that are in it are compiled and run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::bytes::{Captures, Regex, RegexBuilder};
use serde::Deserialize;

use super::kinds;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundSecret {
    /// The range of the secret in the text.
    pub(super) at: Range<usize>,
    /// The rule that found it.
    pub(super) rule: &'static str,
}

/// All rules.
pub(super) static RULES: LazyLock<Rules> = LazyLock::new(Rules::read);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleFile {
    allowed_secrets: Vec<String>,
    rules: Vec<Rule>,
}

/// How patterns of gitleaks end: a key is followed by white space, a quotation mark or a semicolon.
const GITLEAKS_END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;

/// The characters that may follow a key with letters of its own in a conversation: all that are no
/// part of it.
const ANY_END: &str = r"(?:[^\w-]|$)";

/// A rule.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    id: String,
    pattern: String,
    keywords: Vec<String>,
    /// A secret has more than this many bits for each byte.
    #[serde(default)]
    entropy: f64,
    /// The part of a match that is the secret; the first one by default.
    group: Option<usize>,
    /// Secrets and matches that are none.
    #[serde(default)]
    allowed_secrets: Vec<String>,
    #[serde(default)]
    allowed_matches: Vec<String>,
    /// Words that no secret has.
    #[serde(default)]
    stopwords: Vec<String>,
    /// The secret is a user and a password in base64.
    #[serde(skip)]
    is_login: bool,
    #[serde(skip)]
    compiled: OnceLock<Compiled>,
}

/// The patterns of a rule.
#[derive(Debug)]
struct Compiled {
    pattern: Regex,
    allowed_secrets: Vec<Regex>,
    allowed_matches: Vec<Regex>,
    stopwords: Option<AhoCorasick>,
}

/// The rules and their keywords.
#[derive(Debug)]
pub(super) struct Rules {
    all: Vec<Rule>,
    /// Secrets that are none for any rule, such as the name of a variable.
    allowed_secrets: Vec<Regex>,
    keywords: AhoCorasick,
    /// The rules of each keyword.
    of_keyword: Vec<Vec<usize>>,
}

impl Rules {
    fn read() -> Self {
        let file = serde_json::from_str(include_str!("gitleaks.json"));
        let mut file: RuleFile = file.expect("the file is a part of the program, and tested");
        for rule in &mut file.rules {
            let has_letters = [r"\b(", r"(?i)\b("]
                .iter()
                .any(|start| rule.pattern.starts_with(start));
            if let Some(key) = rule
                .pattern
                .strip_suffix(GITLEAKS_END)
                .filter(|_| has_letters)
            {
                rule.pattern = format!("{key}{ANY_END}");
            }
        }
        // The rule for anything stays the last one.
        let anything = file.rules.pop();
        file.rules.extend(kinds::rules());
        file.rules.extend(anything);
        let mut of_keyword: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, rule) in file.rules.iter().enumerate() {
            for keyword in &rule.keywords {
                of_keyword.entry(keyword).or_default().push(at);
            }
        }
        Self {
            keywords: words(of_keyword.keys()),
            of_keyword: of_keyword.into_values().collect(),
            allowed_secrets: file.allowed_secrets.iter().map(|it| compiled(it)).collect(),
            all: file.rules,
        }
    }

    /// The names of the rules.
    pub(super) fn ids(&'static self) -> BTreeSet<&'static str> {
        self.all.iter().map(|rule| rule.id.as_str()).collect()
    }

    /// Whether a text has a keyword of some rule.
    pub(super) fn has_keyword(&self, text: &str) -> bool {
        self.keywords.is_match(text)
    }

    /// The secrets in a text, in order, none within another.
    pub(super) fn find(&'static self, text: &str) -> Vec<FoundSecret> {
        if !self.has_keyword(text) {
            return Vec::new();
        }
        let mut is_candidate = vec![false; self.all.len()];
        for keyword in self.keywords.find_overlapping_iter(text) {
            for rule in &self.of_keyword[keyword.pattern().as_usize()] {
                is_candidate[*rule] = true;
            }
        }
        let mut found = Vec::new();
        let candidates = self.all.iter().zip(is_candidate);
        for (rule, _) in candidates.filter(|(_, is_candidate)| *is_candidate) {
            self.apply(rule, text, &mut found);
        }
        // Where two overlap, what both cover is masked once. The rule for anything comes last in the
        // file, so it gives way to those of vendors.
        found.sort_by_key(|found| found.at.start);
        found.dedup_by(|next, kept| {
            let overlap = next.at.start < kept.at.end;
            if overlap {
                kept.at.end = kept.at.end.max(next.at.end);
            }
            overlap
        });
        found
    }

    fn apply(&self, rule: &'static Rule, text: &str, found: &mut Vec<FoundSecret>) {
        let patterns = rule.compiled.get_or_init(|| rule.compile());
        for captures in patterns.pattern.captures_iter(text.as_bytes()) {
            let Some((at, whole)) = secret(rule, &captures) else {
                continue;
            };
            let secret = &text.as_bytes()[at.clone()];
            let is_allowed =
                |patterns: &[Regex], of: &[u8]| patterns.iter().any(|it| it.is_match(of));
            let has_stopword = || {
                let stopwords = patterns.stopwords.as_ref();
                stopwords.is_some_and(|stopwords| stopwords.is_match(secret))
            };
            if entropy(secret) <= rule.entropy
                || rule.is_login && !is_login(secret)
                || is_allowed(&self.allowed_secrets, secret)
                || is_allowed(&patterns.allowed_secrets, secret)
                || is_allowed(&patterns.allowed_matches, whole)
                || has_stopword()
            {
                continue;
            }
            // Patterns match bytes.
            let at = text.floor_char_boundary(at.start)..text.ceil_char_boundary(at.end);
            found.push(FoundSecret { at, rule: &rule.id });
        }
    }
}

impl Rule {
    /// A rule with these keywords, whose secret is the first part of the pattern.
    pub(super) fn new(id: &str, keywords: &[&str], pattern: &str) -> Self {
        Self {
            id: id.to_owned(),
            pattern: pattern.to_owned(),
            keywords: keywords.iter().map(|&keyword| keyword.to_owned()).collect(),
            entropy: 0.0,
            group: None,
            allowed_secrets: Vec::new(),
            allowed_matches: Vec::new(),
            stopwords: Vec::new(),
            is_login: false,
            compiled: OnceLock::new(),
        }
    }

    /// A rule whose secrets have more than this many bits for each byte.
    pub(super) fn with_entropy(self, entropy: f64) -> Self {
        Self { entropy, ..self }
    }

    /// A rule for which secrets of these patterns are none.
    pub(super) fn allowing(mut self, patterns: &[&str]) -> Self {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned());
        self.allowed_secrets.extend(patterns);
        self
    }

    /// A rule whose secrets are a user and a password in base64.
    pub(super) fn of_logins(self) -> Self {
        Self {
            is_login: true,
            ..self
        }
    }

    fn compile(&self) -> Compiled {
        let all = |patterns: &[String]| patterns.iter().map(|it| compiled(it)).collect();
        Compiled {
            pattern: compiled(&self.pattern),
            allowed_secrets: all(&self.allowed_secrets),
            allowed_matches: all(&self.allowed_matches),
            stopwords: (!self.stopwords.is_empty()).then(|| words(&self.stopwords)),
        }
    }
}

/// A pattern as gitleaks has it, whose letters and digits are those of ASCII.
fn compiled(pattern: &str) -> Regex {
    let pattern = RegexBuilder::new(pattern).unicode(false).build();
    pattern.expect("the patterns are a part of the program, and tested")
}

/// Finds any of these words, in any case.
fn words(words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> AhoCorasick {
    let words = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words);
    words.expect("the words are a part of the program, and tested")
}

/// Where the secret of a match is, and the match.
fn secret<'a>(rule: &Rule, captures: &Captures<'a>) -> Option<(Range<usize>, &'a [u8])> {
    let whole = captures.get(0)?;
    let part = match rule.group {
        Some(group) => captures.get(group),
        None => captures
            .iter()
            .skip(1)
            .flatten()
            .find(|part| !part.is_empty()),
    };
    Some((part.unwrap_or(whole).range(), whole.as_bytes()))
}

/// Whether a text is a user and a password in base64.
fn is_login(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=');
    let text = &text[..end.map_or(0, |end| end + 1)];
    let decoded = STANDARD_NO_PAD.decode(text).unwrap_or_default();
    let login = std::str::from_utf8(&decoded).unwrap_or_default();
    let is_shown = login.chars().all(|c| !c.is_control());
    let password = login.split_once(':').map(|(_, password)| password);
    is_shown && password.is_some_and(|password| !password.is_empty())
}

/// How many bits of information a byte of a text has (Shannon).
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "no secret has 2^52 bytes")]
    let len = text.len() as f64;
    let counts = counts.into_iter().filter(|count| *count > 0);
    counts
        .map(|count| {
            let share = f64::from(count) / len;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles() {
        let rules = &RULES.all;
        assert!(rules.len() > 280);
        for rule in rules {
            let compiled = rule.compile();
            assert!(
                rule.group.unwrap_or(0) < compiled.pattern.captures_len(),
                "{}",
                rule.id
            );
            assert!(!rule.keywords.is_empty(), "{}", rule.id);
        }
    }

    #[test]
    fn entropy_is_in_bits() {
        assert!(entropy(b"aaaa") < f64::EPSILON);
        assert!((entropy(b"abcd") - 2.0).abs() < f64::EPSILON);
    }
}
