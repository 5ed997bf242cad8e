//! Which tools' conversations are read, and where they are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rejoin::index::{Catalog, ListError};
use rejoin::sources::{DueConversation, LiveSources, SOURCES, Source, ToolFolders};
use rejoin::sys::Timestamp;

use super::exit::Failure;
use super::global::Global;
use super::values::EnvValue;

/// How far ahead the user is warned of what tools delete.
const AHEAD: Duration = Duration::from_hours(7 * 24);

/// The environment variable with a choice.
const VARIABLE: &str = "REJOIN_SOURCES";

/// The choice of all tools, and that of none of them.
pub(super) const ALL: &str = "all";
pub(super) const NONE: &str = "none";

/// A choice of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceChoice {
    /// The usual tools: nothing was chosen.
    Unset,
    /// All of them.
    All,
    /// Tools with these names; none if there are no names.
    Named(Vec<&'static str>),
}

impl FromStr for SourceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            // An environment variable may be set but empty, which counts as not set.
            "" => return Ok(Self::Unset),
            ALL => return Ok(Self::All),
            NONE => return Ok(Self::Named(Vec::new())),
            _ => {}
        }
        let known = |name: &str| SOURCES.iter().find(|source| source.name == name);
        let names = text.split(',').map(|name| {
            let source = known(name.trim());
            source.map(|source| source.name).ok_or_else(|| {
                let names: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
                format!(
                    "there is no source `{name}`: use `all`, `none` or {}",
                    names.join(", ")
                )
            })
        });
        Ok(Self::Named(names.collect::<Result<_, _>>()?))
    }
}

/// Which other tools' conversations are shown.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Other tools whose conversations are shown, too: `all`, `none`, or names such as
    /// `codex,claude-code`. By default all, and none if a store is named.
    #[arg(
        long,
        alias = "source",
        env = VARIABLE,
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true
    )]
    sources: EnvValue<SourceChoice>,
}

impl Args {
    /// The chosen tools. `usually`: whether tools are listed in the default store when no choice
    /// was made.
    pub(super) fn live(
        &self,
        global: &Global,
        usually: bool,
    ) -> Result<Option<Arc<LiveSources>>, Failure> {
        Ok(self.choice()?.live(usually && global.store().is_none()))
    }

    /// The names of the chosen tools, in the form that the option takes. `usually` is as for
    /// [`live`](Self::live).
    pub(super) fn named(&self, global: &Global, usually: bool) -> Result<String, Failure> {
        Ok(match self.choice()? {
            SourceChoice::Unset if usually && global.store().is_none() => ALL.to_owned(),
            SourceChoice::All => ALL.to_owned(),
            SourceChoice::Named(names) if !names.is_empty() => names.join(","),
            SourceChoice::Unset | SourceChoice::Named(_) => NONE.to_owned(),
        })
    }

    fn choice(&self) -> Result<&SourceChoice, Failure> {
        self.sources.get("--sources or REJOIN_SOURCES")
    }
}

/// The tools whose conversations commands without an option for that show, as `REJOIN_SOURCES` says.
pub(super) fn usual(global: &Global) -> Result<Option<Arc<LiveSources>>, Failure> {
    let chosen = std::env::var_os(VARIABLE).unwrap_or_default();
    let choice: Result<SourceChoice, String> = chosen.to_string_lossy().parse();
    let choice = choice.map_err(|error| Failure::usage(format!("{VARIABLE}: {error}")))?;
    Ok(choice.live(global.store().is_none()))
}

impl SourceChoice {
    /// The chosen tools; all or none of them if nothing was chosen.
    pub(super) fn live(&self, usually: bool) -> Option<Arc<LiveSources>> {
        let is_chosen = |source: &Source| match self {
            Self::Unset => usually,
            Self::All => true,
            Self::Named(names) => names.contains(&source.name),
        };
        let chosen: Vec<_> = SOURCES.iter().filter(|source| is_chosen(source)).collect();
        let places = places().filter(|_| !chosen.is_empty())?;
        Some(Arc::new(LiveSources::new(chosen, places)))
    }
}

/// The tools that will delete conversations of which there is no copy in the store within the next 7 days,
/// and which ones. Without a catalog there is no store.
pub(super) fn soon_deleted(
    live: &LiveSources,
    catalog: Option<&Catalog>,
    now: Timestamp,
) -> Result<Vec<(&'static Source, Vec<DueConversation>)>, ListError> {
    let mut soon = rejoin::sources::soon_deleted(live, catalog, now, AHEAD)?;
    let of_tool = |source: &'static Source| Some((source, soon.remove(source.name)?));
    Ok(SOURCES.iter().filter_map(of_tool).collect())
}

/// The name of the tool with this agent.
pub(super) fn name_of(agent: &str) -> Option<&'static str> {
    let source = SOURCES.iter().find(|source| source.agent == agent);
    source.map(|source| source.name)
}

/// The agent of the tool with this name.
pub(super) fn agent_of(name: &str) -> Option<&'static str> {
    let source = SOURCES.iter().find(|source| source.name == name);
    source.map(|source| source.agent)
}

/// Where tools keep their files; none if the home folder is unknown.
pub(super) fn places() -> Option<ToolFolders> {
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    Some(ToolFolders {
        variables: variables(),
        system: Some(PathBuf::from(if cfg!(windows) { r"C:\" } else { "/" })),
        home,
    })
}

/// The variables with the folders of the tools of [`Args::named`], for another process.
pub(super) fn folders(named: &str) -> Vec<(&'static str, String)> {
    let folders = variables().into_iter().filter(|_| named != NONE);
    folders
        .filter_map(|(name, path)| Some((name, path.to_str()?.to_owned())))
        .collect()
}

/// The folders that the environment names, as the tools take them.
fn variables() -> BTreeMap<&'static str, PathBuf> {
    let named = ToolFolders::names().into_iter().filter_map(|name| {
        let folder = std::env::var_os(name).filter(|folder| !folder.is_empty())?;
        let folder = PathBuf::from(folder);
        if matches!(
            name,
            "GOOSE_PATH_ROOT" | "XDG_DATA_HOME" | "XDG_CONFIG_HOME" | "XDG_STATE_HOME"
        ) {
            return folder.is_absolute().then_some((name, folder));
        }
        // Relative to the tool's own folder.
        if name == "OPENCODE_DB" {
            return Some((name, folder));
        }
        Some((name, std::path::absolute(&folder).ok()?))
    });
    named.collect()
}
