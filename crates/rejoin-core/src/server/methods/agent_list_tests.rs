//! Merging a page of ours and a page of the agent's.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::{BoxFuture, Caller, InitializeOutcome, Introduction};
use crate::index::Summary;
use crate::sys::ids::RandomIds;
use crate::sys::{Ids, SessionId};
use crate::transport::ClientConnection;

/// The beginning that makes a path absolute.
const DRIVE: &str = if cfg!(windows) { "C:" } else { "" };

fn time(n: i64) -> String {
    Timestamp::from_millis(n * 1000).to_string()
}

fn listed(n: i64) -> Listed {
    Listed {
        id: RandomIds.session(),
        summary: Summary {
            updated_at: Some(time(n)),
            ..Summary::default()
        },
        snippet: None,
        tool_branch: None,
        is_pinned: false,
    }
}

fn info(id: &str, updated_at: &str) -> String {
    format!(r#"{{"sessionId":"{id}","cwd":"{DRIVE}/w","updatedAt":"{updated_at}"}}"#)
}

fn request(limit: usize) -> ListRequest {
    ListRequest {
        filter: Filter::default(),
        cursor: None,
        limit,
        counted: false,
        form: RowForm::default(),
    }
}

/// Where our page begins, as the catalog would have it.
fn our_page(ours: &[Listed], place: &ListPosition, request: &ListRequest) -> SessionPage {
    let after = |cursor: &String| {
        let found =
            |listed: &Listed| cursor_after(&listed.id, &listed.summary, &request.filter) == *cursor;
        ours.iter().position(found).unwrap() + 1
    };
    let from = match &place.ours {
        Side::Start => 0,
        Side::At(cursor) => after(cursor),
        Side::Done => return SessionPage::default(),
    };
    let sessions: Vec<_> = ours[from..].iter().take(request.limit).cloned().collect();
    let more = from + sessions.len() < ours.len();
    SessionPage {
        next_cursor: more.then(|| "more".to_owned()),
        sessions,
        ..SessionPage::default()
    }
}

fn their_page(pages: &[Vec<String>], place: &ListPosition, request: &ListRequest) -> AgentPage {
    let here = match &place.theirs {
        Side::Start => Theirs::default(),
        Side::At(theirs) => theirs.clone(),
        Side::Done => return AgentPage::default(),
    };
    let at = here.cursor.as_ref().map_or(0, |at| at.parse().unwrap());
    let page = Foreign {
        source: "agent".to_owned(),
        sessions: pages[at].clone(),
        next_cursor: None,
    };
    let more = at + 1 < pages.len();
    AgentPage {
        source: "agent".to_owned(),
        entries: entries(&page, &request.filter, here.after.as_ref()),
        here,
        next: more.then(|| Theirs {
            cursor: Some((at + 1).to_string()),
            after: None,
        }),
        pages: 1,
        ..AgentPage::default()
    }
}

#[test]
fn all_pages_together_are_all_sessions_and_each_is_sorted() {
    for (count, limit, size) in [(0, 1, 1), (1, 1, 2), (5, 2, 3), (7, 3, 1), (4, 100, 2)] {
        let ours: Vec<_> = (0..count).map(|n| listed(100 - 2 * n)).collect();
        // Some at the same time as ours, some without a time, in an order of the agent's own.
        let theirs: Vec<_> = (0..count)
            .map(|n| match n % 3 {
                0 => info(&format!("f{n}"), ""),
                1 => info(&format!("f{n}"), &time(80 + 3 * n)),
                _ => info(&format!("f{n}"), &time(100 - 2 * n)),
            })
            .collect();
        let mut pages: Vec<_> = theirs.chunks(size).map(<[_]>::to_vec).collect();
        pages.push(Vec::new());
        let mut request = request(limit);
        let mut found = BTreeSet::new();
        let mut cursors = BTreeSet::new();
        loop {
            let place = match &request.cursor {
                None => ListPosition {
                    page: 0,
                    ours: Side::Start,
                    theirs: Side::Start,
                    count: None,
                },
                Some(cursor) => {
                    let text = unseal(cursor, &request.filter).unwrap();
                    serde_json::from_str(&text).unwrap()
                }
            };
            let ours = our_page(&ours, &place, &request);
            let others = their_page(&pages, &place, &request);
            let merged = merge(&request, place, ours, others);
            assert!(merged.sessions.len() <= limit);
            let mut times = Vec::new();
            for one in merged.sessions {
                let (time, id) = match one {
                    One::Ours(listed) => {
                        (listed.summary.updated_at.unwrap(), listed.id.to_string())
                    }
                    One::Theirs(text) => entry("agent", &text, &request.filter).unwrap().key,
                };
                times.push(time);
                assert!(found.insert(id.clone()), "{id} is there twice");
            }
            times.reverse();
            assert!(times.is_sorted(), "{times:?}");
            match merged.next {
                Some(cursor) => assert!(cursors.insert(cursor.clone()), "a cursor repeats"),
                None => break,
            }
            request.cursor = cursors
                .iter()
                .max_by_key(|cursor| cursor_page(cursor))
                .cloned();
        }
        assert_eq!(found.len(), 2 * ours.len());
    }
}

fn cursor_page(cursor: &str) -> u32 {
    let text = unseal(cursor, &Filter::default()).unwrap();
    serde_json::from_str::<ListPosition>(&text).unwrap().page
}

#[test]
fn entries_that_are_no_use_are_left_out() {
    let long = "x".repeat(257);
    for (text, key) in [
        (
            r#" {"sessionId":"a/../b c\u00e9","cwd":"/w"}"#,
            Some(("", "a/../b cé")),
        ),
        (
            r#"{"sessionId":"a","cwd":"/w/","updatedAt":"2026-01-02T03:04:05+01:00"}"#,
            Some(("2026-01-02T02:04:05.000Z", "a")),
        ),
        (
            r#"{"sessionId":"a","cwd":"/w","updatedAt":"yesterday"}"#,
            Some(("", "a")),
        ),
        (r#"{"sessionId":"a","cwd":"w"}"#, None),
        (r#"{"sessionId":"a"}"#, None),
        (r#"{"sessionId":"a","cwd":"/other"}"#, None),
        (r#"{"sessionId":"","cwd":"/w"}"#, None),
        (r#"{"sessionId":7,"cwd":"/w"}"#, None),
        (r#"{"cwd":"/w"}"#, None),
        (&info(&long, ""), None),
        ("7", None),
        ("", None),
    ] {
        let filter = Filter {
            cwd: Some(path::normalize(&format!("{DRIVE}/w"))),
            ..Filter::default()
        };
        let text = text.replace(r#""cwd":"/"#, &format!(r#""cwd":"{DRIVE}/"#));
        let found = entry("agent", &text, &filter).map(|entry| entry.key);
        let key = key.map(|(time, id)| (time.to_owned(), id.to_owned()));
        assert_eq!(found, key, "{text}");
    }
    let page = Foreign {
        sessions: vec![
            info("a", &time(1)),
            info("b", &time(2)),
            info("a", &time(3)),
        ],
        ..Foreign::default()
    };
    let once = entries(&page, &Filter::default(), None);
    let ids: Vec<_> = once.iter().map(|entry| entry.key.1.as_str()).collect();
    assert_eq!(ids, ["b", "a"]);
}

#[test]
fn an_agent_that_fails_takes_nothing_of_ours_with_it() {
    let ours: Vec<_> = (0..3).map(|n| listed(10 - n)).collect();
    let start = ListPosition {
        page: 0,
        ours: Side::Start,
        theirs: Side::Start,
        count: None,
    };
    let request = request(2);
    let failed = AgentPage::default().without(&EngineError::internal("it is broken"));
    let page = our_page(&ours, &start, &request);
    let merged = merge(&request, start, page, failed);
    assert_eq!(merged.sessions.len(), 2);
    assert_eq!(merged.error.as_deref(), Some("it is broken"));
    let text = unseal(&merged.next.unwrap(), &request.filter).unwrap();
    let next: ListPosition = serde_json::from_str(&text).unwrap();
    assert_eq!(next.theirs, Side::Done, "it is not asked again");
    assert!(matches!(next.ours, Side::At(_)));
}

#[test]
fn an_agents_cursor_that_is_too_long_ends_its_list_only() {
    let ours: Vec<_> = (0..3).map(|n| listed(10 - n)).collect();
    let start = ListPosition {
        page: 0,
        ours: Side::Start,
        theirs: Side::Start,
        count: None,
    };
    for (limit, more) in [(2, true), (3, false)] {
        let request = request(limit);
        let long = AgentPage {
            next: Some(Theirs {
                cursor: Some("x".repeat(20_000)),
                after: None,
            }),
            ..AgentPage::default()
        };
        let page = our_page(&ours, &start, &request);
        let merged = merge(&request, start.clone(), page, long);
        assert_eq!(merged.next.is_some(), more);
        assert_eq!(
            merged.error.as_deref(),
            Some("the agent's cursor is too long")
        );
    }
}

#[test]
fn a_session_goes_by_the_agents_id_only_with_the_agent_that_made_it() {
    let listed = Listed {
        id: SessionId::of_foreign("agent", "a b"),
        summary: Summary {
            known_as: Some("a b".to_owned()),
            ..Summary::default()
        },
        snippet: None,
        tool_branch: None,
        is_pinned: false,
    };
    let own = listed.id.to_string();
    for (agent, name) in [
        (&["agent"][..], "a b"),
        (&["new", "agent"], "a b"),
        (&["other"], own.as_str()),
        (&[], own.as_str()),
    ] {
        let agent: Vec<_> = agent.iter().map(|&name| name.to_owned()).collect();
        let form = RowForm {
            agent,
            ..RowForm::default()
        };
        assert_eq!(form.row(None, listed.clone())["sessionId"], name);
    }
}

/// An agent that lists its pages in circles, or never.
#[derive(Debug)]
struct Odd {
    pages: usize,
    hangs: bool,
    asked: AtomicUsize,
}

impl Upstream for Odd {
    fn connect(&self, _: Arc<ClientConnection>) {}

    fn initialize(&self, _: Introduction) -> BoxFuture<'static, InitializeOutcome> {
        unimplemented!("nobody introduces a client")
    }

    fn call(
        &self,
        _: Caller,
        _: &str,
        _: &str,
        _: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        unimplemented!("nobody calls it")
    }

    fn notify(&self, _: &str, _: &str) {}

    fn is_subagent(&self, _: &str) -> bool {
        false
    }

    fn cancel_subagent(&self, _: &str, _: &str) {}

    fn sessions(&self, asked: AgentListQuery) -> BoxFuture<'static, Result<Foreign, EngineError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        let at: usize = asked.cursor.map_or(0, |at| at.parse().unwrap());
        let page = Foreign {
            next_cursor: Some(((at + 1) % self.pages).to_string()),
            ..Foreign::default()
        };
        Box::pin(async move { Ok(page) })
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_not_waited_for_long_nor_followed_for_ever() {
    let start = ListPosition {
        page: 0,
        ours: Side::Start,
        theirs: Side::Start,
        count: None,
    };
    for (pages, hangs, asked, waited) in [
        (1, true, 1, TIMEOUT),
        (1, false, 2, Duration::ZERO),
        (7, false, PAGES as usize, Duration::ZERO),
    ] {
        let agent = Odd {
            pages,
            hangs,
            asked: AtomicUsize::new(0),
        };
        let begun = Instant::now();
        let list = theirs(None, &[], &agent, &request(10), &start).await;
        assert_eq!(begun.elapsed(), waited);
        assert_eq!(agent.asked.load(Ordering::Relaxed), asked);
        assert_eq!((list.next, list.error.is_some()), (None, hangs));
    }
}
