//! Distinguishes sessions with the same title in the same folder.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::record::title::kept_words;
use crate::sys::SessionId;
use crate::text::shortened;

use super::backend::{CatalogBackend, ListError, Listed};

/// How many characters of the title are shown in front of what distinguishes it, so that this is seen in a
/// narrow column, too.
const TITLE: usize = 28;

/// How many characters are shown of the words that distinguish it.
const WORDS: usize = 46;

/// How many sessions with the same title in the same folder are distinguished.
pub(super) const MOST_NAMESAKES: usize = 10_000;

/// A session with a title that others in its folder may have, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Namesake {
    /// The session.
    pub(super) id: SessionId,
    /// The first words of its first prompt.
    pub(super) words: String,
    /// Whether a client has set the title, which is shown as it is.
    pub(super) is_title_set: bool,
}

/// Adds to the titles of these sessions what distinguishes them from older ones with the same title and folder.
pub(super) fn distinguish<'a>(
    backend: &dyn CatalogBackend,
    since: Option<&str>,
    sessions: impl Iterator<Item = &'a mut Listed>,
) -> Result<(), ListError> {
    let mut titled = BTreeMap::<(String, String), Vec<&mut Listed>>::new();
    for listed in sessions {
        if let Some(title) = &listed.summary.title {
            let key = (listed.summary.cwd.clone(), title.clone());
            titled.entry(key).or_default().push(listed);
        }
    }
    let keys: Vec<_> = titled.keys().collect();
    if keys.is_empty() {
        return Ok(());
    }
    let namesakes = backend.namesakes(&keys, since)?;
    for (((_, title), sessions), namesakes) in titled.into_iter().zip(namesakes) {
        let mut listed: HashMap<_, _> = sessions
            .into_iter()
            .map(|listed| (listed.id.clone(), listed))
            .collect();
        for (namesake, title) in namesakes.iter().zip(titles(&title, &namesakes)) {
            if let Some(listed) = listed.get_mut(&namesake.id) {
                // What is kept of the words is not trusted.
                listed.summary.title = Some(kept_words(title));
            }
        }
    }
    Ok(())
}

/// The titles to be shown of sessions with the same title, the oldest first. The oldest has the title as it is. The
/// others have behind it the words of their prompt that differ from those of the older ones, or else a
/// number. So no title changes when another session is made.
fn titles(title: &str, namesakes: &[Namesake]) -> Vec<String> {
    let (mut words, mut given) = (BTreeSet::<&str>::new(), HashSet::new());
    let mut titles = Vec::new();
    // No smaller number is left: those that were given stay so.
    let (mut number, beginning) = (2, shortened(title, TITLE));
    for namesake in namesakes {
        let own = namesake.words.as_str();
        let is_plain = namesake.is_title_set || words.is_empty();
        let difference = (!is_plain).then(|| difference(own, &words));
        let mut shown = match difference {
            None => title.to_owned(),
            Some(words) => format!("{beginning} · {}", shortened(words, WORDS)),
        };
        if let Some(words) = difference
            && (words.is_empty() || given.contains(&shown))
        {
            let numbered = |number| format!("{beginning} ({number})");
            shown = numbered(number);
            while given.contains(&shown) {
                number += 1;
                shown = numbered(number);
            }
        }
        words.insert(own);
        given.insert(shown.clone());
        titles.push(shown);
    }
    titles
}

/// The rest of these words from the first one on that no other text has in its place.
fn difference<'a>(words: &'a str, others: &BTreeSet<&str>) -> &'a str {
    let common = |other: &&str| {
        let pairs = words.bytes().zip(other.bytes());
        let equal = pairs.take_while(|(a, b)| a == b).count();
        words.floor_char_boundary(equal)
    };
    // The text with the longest common beginning is next to it.
    let neighbours = [
        others.range(..=words).next_back(),
        others.range(words..).next(),
    ];
    let common = neighbours
        .into_iter()
        .flatten()
        .map(common)
        .max()
        .unwrap_or(0);
    let rest = &words[common..];
    if rest.is_empty() || rest.starts_with(' ') {
        return rest.trim();
    }
    // From the beginning of the word.
    let begin = words[..common].rfind(' ').map_or(0, |at| at + 1);
    words[begin..].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namesake(number: u32, words: &str) -> Namesake {
        let id = format!("sess_01a1fd7e-723f-7441-b725-{number:012}");
        Namesake {
            id: SessionId::parse(&id).unwrap(),
            words: words.to_owned(),
            is_title_set: false,
        }
    }

    fn shown(title: &str, all: &[&str]) -> Vec<String> {
        let namesakes = (1..)
            .zip(all)
            .map(|(number, words)| namesake(number, words));
        titles(title, &namesakes.collect::<Vec<_>>())
    }

    #[test]
    fn the_words_that_differ_are_behind_the_title() {
        let plan = "Fix the following: the parser drops";
        let all = [
            format!("{plan} a comma"),
            format!("{plan} a colon"),
            format!("{plan} a comma"),
            plan.to_owned(),
            format!("{plan} a comma at the end"),
        ];
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        assert_eq!(
            shown("Fix the following:", &all),
            [
                "Fix the following:",
                "Fix the following: · colon",
                "Fix the following: (2)",
                "Fix the following: (3)",
                "Fix the following: · at the end",
            ]
        );
    }

    #[test]
    fn a_title_of_the_agent_is_followed_by_the_prompt() {
        assert_eq!(
            shown("Greeting", &["hello", "good morning", "hello", ""]),
            [
                "Greeting",
                "Greeting · good morning",
                "Greeting (2)",
                "Greeting (3)"
            ]
        );
        let long = "Look at the following files and tell me what they have in common";
        let shown = shown(long, &["", "x y", ""]);
        assert_eq!(shown[1], "Look at the following files… · x y");
        assert_eq!(shown[2], "Look at the following files… (2)");
    }

    #[test]
    fn a_title_that_a_client_has_set_is_shown_as_it_is() {
        let mut all = [1, 2, 3].map(|number| namesake(number, "a b"));
        all[1].is_title_set = true;
        assert_eq!(titles("T", &all), ["T", "T", "T (2)"]);
    }

    #[test]
    fn many_that_nothing_distinguishes_take_no_time() {
        let all = vec!["Summarize the log"; 20_000];
        let shown = shown("Summarize the log", &all);
        assert_eq!(shown[0], "Summarize the log");
        assert_eq!(shown[19_999], "Summarize the log (20000)");
    }

    proptest::proptest! {
        #[test]
        fn titles_differ_and_stay(all in proptest::collection::vec("[ab ]{0,6}", 1..12)) {
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            let titles = shown("T", &all);
            let different: HashSet<_> = titles.iter().collect();
            proptest::prop_assert_eq!(different.len(), titles.len());
            let fewer = shown("T", &all[..all.len() - 1]);
            proptest::prop_assert_eq!(&titles[..fewer.len()], &fewer[..]);
        }
    }
}
