//! The rows of a picker: at once as the index has them, then as the files are, with what the user has.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::exit::Failure;
use crate::cli::sessions::context::{OtherTools, unread};
use crate::cli::sessions::list;
use crate::cli::sessions::named::ShortIds;
use crate::cli::sources;
use crate::cli::term::{ACTIVE, PLAIN, STRONG, Span, WAITING, count};
use rejoin::engine::known::title;
use rejoin::index::{Archived, Catalog, Filter, Listed};
use rejoin::record::ActivityState;
use rejoin::sources::{DueConversation, Source};
use rejoin::store::Store;
use rejoin::sys::{Timestamp, grouped, worktrees};

/// How many sessions are listed before the files of other tools are looked at.
const AT_ONCE: usize = 500;

/// Which rows to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadRequest {
    /// The newest of those that the index has.
    AtOnce,
    /// All, as the files are now.
    All,
}

/// Sessions for the list.
#[derive(Debug)]
pub(super) struct LoadedSessions {
    pub(super) listed: Vec<Listed>,
    pub(super) short: ShortIds,
    /// What the user has; none if these are not all.
    pub(super) overview: Option<Overview>,
}

/// The numbers that the list is headed by.
#[derive(Debug, Default)]
pub(super) struct Overview {
    sessions: usize,
    agents: usize,
    running: usize,
    waiting: usize,
    /// How many are in the project of the current folder.
    here: usize,
    /// Whether that is a repository, and not the folder alone.
    is_repository: bool,
    /// The tools that will soon delete conversations, and which ones.
    soon_deleted: Vec<(&'static Source, Vec<DueConversation>)>,
    /// Whether the list has these: beside a database, the conversations of tools are in none.
    lists_tools: bool,
}

impl Overview {
    /// When the tool of each of these sessions may delete it, by their ids.
    pub(super) fn due(&self) -> HashMap<&str, Timestamp> {
        let due = self.soon_deleted.iter().flat_map(|(_, due)| due);
        let due = due.filter_map(|one| Some((one.session.as_deref()?, one.due)));
        due.collect()
    }

    /// The lines above the list.
    pub(super) fn lines(&self) -> Vec<Vec<Span>> {
        let sessions = format!(
            "{} of {}",
            count(self.sessions, "conversation"),
            count(self.agents, "agent")
        );
        let mut first = vec![(STRONG, sessions)];
        let place = if self.is_repository {
            "in this project, first"
        } else {
            "in this folder, first"
        };
        // Nothing is said if all of them are here.
        let here = Some(self.here).filter(|here| *here < self.sessions);
        for (number, style, what) in [
            (here.unwrap_or(0), PLAIN, place),
            (self.running, ACTIVE, "running"),
            (self.waiting, WAITING, "waiting for you"),
        ] {
            if number > 0 {
                first.push((PLAIN, " · ".to_owned()));
                first.push((style, format!("{} {what}", grouped(number))));
            }
        }
        let soon = self.soon_deleted.iter().map(|soon| {
            let (source, due) = soon;
            let how = if self.lists_tools {
                "`w` shows which, `i` keeps one, `rejoin import` all"
            } else {
                "`rejoin import` keeps all"
            };
            let text = format!(
                "{} will delete {} in the next 7 days: {how}, `rejoin setup import` also what comes",
                title(source.agent),
                count(due.len(), "conversation"),
            );
            vec![(WAITING, text)]
        });
        [first].into_iter().chain(soon).collect()
    }
}

/// Loads sessions. Those of the project of this folder come first.
pub(super) fn loader(
    store: Store,
    tools: Option<Arc<OtherTools>>,
    folder: Option<PathBuf>,
) -> impl Fn(&LoadRequest) -> Result<LoadedSessions, Failure> + Send + 'static {
    let own = Catalog::open(store.clone());
    let (project, is_repository) =
        folder.map_or_else(Default::default, |folder| project(&store, &folder));
    move |request| {
        let all = *request == LoadRequest::All;
        let catalog = tools.as_ref().map_or(&own, |tools| &tools.catalog);
        if let Some(tools) = tools.as_ref().filter(|_| all) {
            let scanned = tools.live.scan(&store, catalog);
            scanned.map_err(|error| unread(&error))?;
        }
        let filter = Filter {
            archived: Archived::Include,
            ..Filter::default()
        };
        let limit = if all { usize::MAX } else { AT_ONCE };
        let page = |cursor: Option<&str>, most| catalog.list(&filter, cursor, most);
        let (mut listed, _) = list::pages(limit, page)?;
        let is_here = |session: &Listed| {
            let cwd = Path::new(&session.summary.cwd);
            project.iter().any(|root| cwd.starts_with(root))
        };
        // The order within stays.
        listed.sort_by_key(|session| !is_here(session));
        let mut ids = store.ids()?;
        if let Some(tools) = &tools {
            ids.extend(tools.ids()?);
        }
        let overview = match &tools {
            _ if !all => None,
            tools => {
                let now = store.sys().clock.now();
                let soon = tools.as_ref().map(|tools| {
                    let soon = sources::soon_deleted(&tools.live, Some(catalog), now);
                    soon.map_err(|error| unread(&error))
                });
                let here = listed.iter().filter(|session| is_here(session)).count();
                Some(Overview {
                    here,
                    is_repository,
                    soon_deleted: soon.transpose()?.unwrap_or_default(),
                    lists_tools: !catalog.is_in_database(),
                    ..counted(catalog, &listed)
                })
            }
        };
        Ok(LoadedSessions {
            short: ShortIds::of(&ids),
            listed,
            overview,
        })
    }
}

/// The numbers of these sessions, of their agents, and of those that run or wait.
fn counted(catalog: &Catalog, listed: &[Listed]) -> Overview {
    let agents = listed.iter().map(|session| session.summary.source.as_str());
    let mut overview = Overview {
        sessions: listed.len(),
        agents: agents.collect::<BTreeSet<_>>().len(),
        ..Overview::default()
    };
    let own = listed
        .iter()
        .filter(|session| session.summary.tool.is_none());
    for session in own {
        match catalog.state(session) {
            ActivityState::Running => overview.running += 1,
            ActivityState::RequiresAction => overview.waiting += 1,
            ActivityState::Idle => {}
        }
    }
    overview
}

/// The folders of the project around a folder: its repository, with the other worktrees of that; without
/// one, the folder alone. And whether it is one.
fn project(store: &Store, folder: &Path) -> (Vec<PathBuf>, bool) {
    let disk = &*store.sys().disk;
    let Some(root) = worktrees::root(disk, folder) else {
        return (vec![folder.to_owned()], false);
    };
    let others = worktrees::counterparts(disk, &root);
    let others = others.into_iter().map(PathBuf::from);
    ([root].into_iter().chain(others).collect(), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin::sources::SOURCES;

    fn text(overview: &Overview) -> Vec<String> {
        let lines = overview.lines();
        let join = |line: &Vec<Span>| line.iter().map(|(_, text)| text.as_str()).collect();
        lines.iter().map(join).collect()
    }

    #[test]
    fn the_user_sees_what_there_is_and_what_will_be_deleted() {
        let mut overview = Overview {
            sessions: 1234,
            agents: 1,
            ..Overview::default()
        };
        assert_eq!(text(&overview), ["1,234 conversations of 1 agent"]);
        overview.agents = 5;
        overview.here = 12;
        overview.is_repository = true;
        overview.lists_tools = true;
        overview.running = 2;
        overview.waiting = 1;
        let claude = SOURCES.iter().find(|source| source.name == "claude-code");
        let due = DueConversation {
            session: Some("sess_1".to_owned()),
            due: Timestamp::from_millis(5),
        };
        overview.soon_deleted.push((claude.unwrap(), vec![due; 7]));
        assert_eq!(
            text(&overview),
            [
                "1,234 conversations of 5 agents · 12 in this project, first · 2 running · 1 waiting for you",
                "Claude Code will delete 7 conversations in the next 7 days: `w` shows which, `i` keeps one, \
                 `rejoin import` all, `rejoin setup import` also what comes",
            ]
        );
        let due = HashMap::from([("sess_1", Timestamp::from_millis(5))]);
        assert_eq!(overview.due(), due);
    }
}
