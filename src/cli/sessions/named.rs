//! The names of sessions on the command line, and the short IDs that lists show.

use crate::cli::exit::Failure;
use crate::cli::term::{Look, count, cut, one_line, pad, width};
use rejoin::history::last_used;
use rejoin::index::{Listed, Summary};
use rejoin::record::header::Implementation;
use rejoin::store::{Store, Trashed};
use rejoin::sys::{SessionId, Timestamp};

/// The title of a session without one.
pub(in crate::cli) const UNTITLED: &str = "(no text)";

/// Help about an argument that names a session.
pub(in crate::cli) const SESSION: &str =
    "The session: its ID or the beginning or end of it, `last`, or a part of its title";
/// Help about an argument that names a session and may be left out in a terminal.
pub(in crate::cli) const SESSION_OR_LIST: &str = "The session: its ID or the beginning or end of it, `last`, or a part of its title; in a terminal, \
     without one, choose it from the list";
/// Help about an argument that names several sessions.
pub(super) const SESSIONS: &str =
    "The sessions: their IDs or the beginnings or ends of them, `last`, or parts of their titles";

/// The fewest characters of an ID that mean a session.
const LEAST: usize = 4;
/// The fewest characters of an ID that lists show. So many are not also looked for in titles.
const SHORT: usize = 8;
/// How many sessions are shown if a name means several.
const MOST_SHOWN: usize = 5;
/// How many columns of their titles.
const TITLE: usize = 50;
/// The name of the session that was used last.
pub(in crate::cli) const LAST: &str = "last";

/// A session that a name may mean.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) id: SessionId,
    /// The IDs by which agents know it.
    agent_ids: Vec<String>,
    title: Option<String>,
    /// When it was last used, or deleted.
    at: Option<Timestamp>,
}

impl Candidate {
    pub(super) fn listed(listed: Listed) -> Self {
        let summary = listed.summary;
        let at = Timestamp::parse(last_used(&summary));
        let agent_ids = summary.agent_ids.into_iter().map(|known| known.id);
        Self {
            id: listed.id,
            agent_ids: agent_ids.chain(summary.known_as).collect(),
            title: summary.title,
            at,
        }
    }

    /// A session that is in no list.
    pub(super) fn unlisted(id: SessionId) -> Self {
        Self {
            id,
            agent_ids: Vec::new(),
            title: None,
            at: None,
        }
    }

    pub(super) fn trashed(store: &Store, trashed: &Trashed) -> Self {
        let content = TrashedContent::of(store, trashed);
        Self {
            id: trashed.id.clone(),
            agent_ids: content.known_as.into_iter().collect(),
            title: content.title,
            at: Some(trashed.at),
        }
    }

    fn has_part(&self, text: &str) -> bool {
        // What all IDs of rejoin begin with means none of them.
        if SessionId::PREFIX.starts_with(text) {
            return false;
        }
        let of_agents = |id: &String| id.starts_with(text) || id.ends_with(text);
        is_part(&self.id, text)
            || (text.chars().count() >= LEAST && self.agent_ids.iter().any(of_agents))
    }
}

/// The meaning of a name.
#[derive(Debug)]
pub(super) enum ChosenSession<'a> {
    None,
    One(&'a SessionId),
    Several(Several<'a>),
}

/// The sessions that a name may mean, the last used first.
#[derive(Debug)]
pub(super) struct Several<'a>(Vec<&'a Candidate>);

/// The meaning of a name among sessions of which the last used come first.
pub(super) fn choose<'a>(text: &str, candidates: &'a [Candidate]) -> ChosenSession<'a> {
    let last = candidates
        .first()
        .filter(|one| text == LAST && one.at.is_some());
    if let Some(one) = last {
        return ChosenSession::One(&one.id);
    }
    // Agents that count their sessions give the same ID to several.
    let has_id = |one: &&Candidate| one.agent_ids.iter().any(|id| id == text);
    let mut exact: Vec<&Candidate> = candidates.iter().filter(has_id).collect();
    exact.dedup_by(|one, other| one.id == other.id);
    match exact[..] {
        [] => {}
        [one] => return ChosenSession::One(&one.id),
        _ => return ChosenSession::Several(Several(exact)),
    }
    let words = text.trim().to_lowercase();
    let is_title = |one: &&Candidate| {
        let title = one.title.as_ref().map(|title| title.to_lowercase());
        title.is_some_and(|title| title == words)
    };
    let has_words = |one: &Candidate| {
        let title = one.title.as_ref().map(|title| title.to_lowercase());
        !words.is_empty() && title.is_some_and(|title| title.contains(&words))
    };
    let mut found: Vec<&Candidate> = Vec::new();
    for one in candidates {
        let is_new = found.iter().all(|known| known.id != one.id);
        if is_new && (one.has_part(text) || has_words(one)) {
            found.push(one);
        }
    }
    let of_ids: Vec<_> = found.iter().filter(|one| one.has_part(text)).collect();
    if let [one] = of_ids[..]
        && text.len() >= SHORT
    {
        return ChosenSession::One(&one.id);
    }
    let mut titled = found.iter().filter(|one| is_title(one));
    if let (true, Some(one), None) = (of_ids.is_empty(), titled.next(), titled.next()) {
        return ChosenSession::One(&one.id);
    }
    match found[..] {
        [] => ChosenSession::None,
        [one] => ChosenSession::One(&one.id),
        _ => ChosenSession::Several(Several(found)),
    }
}

impl Several<'_> {
    /// Why none of them was chosen.
    pub(super) fn failure(self, text: &str, all: &[Candidate], now: Timestamp) -> Failure {
        let (message, hint) = self.explained(text, all, now, &Look::messages());
        Failure::usage(message).hint(hint)
    }

    pub(super) fn explained(
        self,
        text: &str,
        all: &[Candidate],
        now: Timestamp,
        look: &Look,
    ) -> (String, String) {
        let Self(found) = self;
        let short = ShortIds::of(all.iter().map(|one| &one.id));
        let rows = found.iter().take(MOST_SHOWN).map(|one| {
            let when = one.at.map_or(String::new(), |at| look.when(at, now));
            let title = one_line(one.title.as_deref().unwrap_or(UNTITLED));
            (title, short.id(&one.id), when)
        });
        let rows: Vec<_> = rows.collect();
        // Two columns before each row, and between its parts.
        let others = rows.iter().map(|(_, id, when)| 6 + id.len() + when.len());
        let room = look.width.saturating_sub(others.max().unwrap_or(0));
        let room = room.min(TITLE);
        let wide = rows.iter().map(|(title, _, _)| width(title).min(room));
        let wide = wide.max().unwrap_or(0);
        let mut message = format!("{} could be {text:?}:", count(found.len(), "session"));
        for (title, id, when) in &rows {
            let title = pad(&cut(title, wide), wide);
            let row = format!("  {title}  {id}  {when}");
            message.extend(["\n", row.trim_end()]);
        }
        if found.len() > rows.len() {
            let more = format!("\n  … and {} more", found.len() - rows.len());
            message.push_str(&more);
        }
        let id = rows.first().map_or("", |(_, id, _)| id);
        (
            message,
            format!("use an ID, such as {id}, or more of the title"),
        )
    }
}

/// The session of which this is a part of the ID that no other one has, and so long that it is not
/// likely to be anything else.
pub(super) fn unique_part<'a>(
    ids: impl IntoIterator<Item = &'a SessionId>,
    text: &str,
) -> Option<&'a SessionId> {
    let mut found = ids.into_iter().filter(|id| is_part(id, text));
    let first = found.next().filter(|_| text.len() >= SHORT)?;
    found.all(|other| other == first).then_some(first)
}

/// Whether an ID begins or ends with this, or its short form begins with it.
fn is_part(id: &SessionId, text: &str) -> bool {
    let digits = id.digits();
    text.len() >= LEAST
        && (id.as_str().starts_with(text) && text.len() > id.as_str().len() - digits.len()
            || digits.starts_with(text)
            || digits.ends_with(text)
            || ShortIds(SHORT).id(id).starts_with(text))
}

/// The content of a session in the trash; empty if its log cannot be read.
#[derive(Debug, Default)]
pub(in crate::cli) struct TrashedContent {
    pub(in crate::cli) title: Option<String>,
    pub(super) agent: String,
    pub(super) cwd: String,
    /// The ID by which an agent knew it.
    pub(super) known_as: Option<String>,
}

impl TrashedContent {
    /// Reads all of the log: titles may be given at any time.
    pub(in crate::cli) fn of(store: &Store, trashed: &Trashed) -> Self {
        let Ok(mut reader) = store.read_trashed(trashed) else {
            return Self::default();
        };
        let header = reader.header();
        Self {
            agent: Implementation::shown(&header.engine.name).to_owned(),
            cwd: header.workspace.cwd.clone(),
            known_as: header.known_as.clone(),
            title: reader.scan().ok().and_then(|scan| Summary::of(&scan).title),
        }
    }
}

/// The short forms of IDs: their ends, so long that all are different.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct ShortIds(usize);

impl ShortIds {
    /// The length of the short forms that distinguishes these IDs.
    pub(in crate::cli) fn of<'a>(ids: impl IntoIterator<Item = &'a SessionId>) -> Self {
        let mut ids: Vec<&str> = ids.into_iter().map(SessionId::as_str).collect();
        ids.sort_unstable_by(|a, b| a.bytes().rev().cmp(b.bytes().rev()));
        ids.dedup();
        let alike = ids.windows(2).map(|two| {
            let pairs = two[0].bytes().rev().zip(two[1].bytes().rev());
            pairs.take_while(|(a, b)| a == b).count() + 1
        });
        Self(alike.max().unwrap_or(0).max(SHORT))
    }

    /// The short form of an ID.
    pub(in crate::cli) fn id(self, id: &SessionId) -> String {
        let digits = id.digits();
        digits[digits.len().saturating_sub(self.0)..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin::sys::Zone;

    fn candidate(id: &str, agent_id: &str, title: &str) -> Candidate {
        Candidate {
            id: SessionId::parse(&format!("sess_01902f3c-7b1e-7c3a-8f00-{id}")).unwrap(),
            agent_ids: vec![agent_id.to_owned()],
            title: Some(title.to_owned()),
            at: Timestamp::parse("2026-11-23T14:00:00Z"),
        }
    }

    fn candidates() -> Vec<Candidate> {
        vec![
            candidate("1111aaaabbbb", "ses-0001", "Fix the cache"),
            candidate(
                "2222aaaacccc",
                "ses-0002",
                "fix the Cache eviction\u{1b}[2J",
            ),
            candidate("3333cafedddd", "sess_0009", "Order in the cafedddd"),
            candidate("4444aaaaeeee", "5555", "修复缓存"),
        ]
    }

    /// The numbers of the candidates.
    fn chosen(text: &str) -> Vec<usize> {
        let candidates = candidates();
        let number = |id: &SessionId| candidates.iter().position(|one| one.id == *id).unwrap();
        match choose(text, &candidates) {
            ChosenSession::None => Vec::new(),
            ChosenSession::One(id) => vec![number(id)],
            ChosenSession::Several(Several(found)) => {
                found.iter().map(|one| number(&one.id)).collect()
            }
        }
    }

    #[test]
    fn a_name_means_one_session_several_or_none() {
        for (text, meant) in [
            ("last", &[0][..]),
            ("bbbb", &[0]),
            ("aaaabbbb", &[0]),
            ("8f00-4444aaaaeeee", &[3]),
            ("bbb", &[]),
            ("sess_", &[]),
            ("sess_01902f3c-7b1e-7c3a-8f00-22", &[1]),
            ("01902f3c-7b1e-7c3a-8f00-3", &[2]),
            ("01902f3c", &[0, 1, 2, 3]),
            ("sess_0190", &[0, 1, 2, 3]),
            ("ses-0002", &[1]),
            ("0002", &[1]),
            ("ses-", &[0, 1]),
            ("5555", &[3]),
            // The whole title, although another one contains it.
            ("fix the cache", &[0]),
            (" Fix THE ", &[0, 1]),
            ("缓存", &[3]),
            // What lists show means the session that they show.
            ("cafedddd", &[2]),
            ("", &[]),
            (" ", &[]),
            ("nothing", &[]),
        ] {
            assert_eq!(chosen(text), meant, "{text:?}");
        }
    }

    #[test]
    fn a_part_of_an_id_may_also_be_of_another_title() {
        let candidates = [
            candidate("1111aaaacafe", "a", "one"),
            candidate("2222aaaabbbb", "b", "in the cafe"),
        ];
        let several = choose("cafe", &candidates);
        assert!(matches!(several, ChosenSession::Several(Several(found)) if found.len() == 2));
    }

    #[test]
    fn an_id_that_agents_gave_twice_is_not_clear() {
        let candidates = [
            candidate("1111aaaacafe", "same", "one"),
            candidate("2222aaaabbbb", "same", "two"),
            candidate("3333aaaadddd", "last", "three"),
        ];
        let several = choose("same", &candidates);
        assert!(matches!(several, ChosenSession::Several(Several(found)) if found.len() == 2));
        let last = choose("last", &candidates);
        assert!(matches!(last, ChosenSession::One(id) if *id == candidates[0].id));
    }

    #[test]
    fn several_sessions_are_listed() {
        let candidates = candidates();
        let ChosenSession::Several(several) = choose("fix", &candidates) else {
            panic!("there are two");
        };
        let look = Look {
            terminal: true,
            colour: false,
            width: 48,
            zone: Zone::Ahead(0),
            home: None,
        };
        let now = Timestamp::parse("2026-11-23T14:03:00Z").unwrap();
        let (message, hint) = several.explained("fix", &candidates, now, &look);
        assert_eq!(
            message,
            "2 sessions could be \"fix\":\n  \
             Fix the cache              aaaabbbb  3 min ago\n  \
             fix the Cache eviction\\u…  aaaacccc  3 min ago"
        );
        assert_eq!(hint, "use an ID, such as aaaabbbb, or more of the title");
    }

    #[test]
    fn short_ids_are_as_long_as_it_takes() {
        let ids = |ids: &[&str]| -> Vec<SessionId> {
            ids.iter().map(|id| candidate(id, "", "").id).collect()
        };
        let few = ids(&["000000000001", "000000000002"]);
        assert_eq!(ShortIds::of(&few).id(&few[0]), "00000001");
        let alike = ids(&["120000000001", "220000000001", "000000000009"]);
        assert_eq!(ShortIds::of(&alike).id(&alike[0]), "120000000001");
        let same = ids(&["000000000001", "000000000001"]);
        assert_eq!(ShortIds::of(&same).id(&same[0]), "00000001");
        assert_eq!(ShortIds::of([]).id(&few[1]), "00000002");
    }
}
