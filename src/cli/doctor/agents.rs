//! The agents that are installed: each is started to see whether it speaks ACP.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::cli::exit::Failure;
use crate::cli::known_agents::installed;
use crate::cli::look::Look;
use crate::engine::agent::{Introduced, Program, probe};

use super::Finding;

/// How long an agent may take to answer. Some take seconds to start.
const WITHIN: Duration = Duration::from_secs(15);
/// How long it may take to exit afterwards.
const EXIT: Duration = Duration::from_secs(2);

pub(super) fn check(look: &Look) -> Result<Vec<Finding>, Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .map_err(Failure::cannot_start)?;
    let mut found = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for (order, (known, command)) in installed().enumerate() {
            tasks.spawn(async move {
                let path = command.first().cloned().unwrap_or_default();
                let program = Program {
                    command: command.into_iter().map(Into::into).collect(),
                    env: Vec::new(),
                    guard: std::env::current_exe().ok(),
                    exit_timeout: EXIT,
                };
                let probed = probe(&program, WITHIN).await;
                (order, known.name.as_str(), path, probed)
            });
        }
        tasks.join_all().await
    });
    found.sort_by_key(|(order, ..)| *order);
    if found.is_empty() {
        return Ok(vec![Finding::warning(
            "agents",
            "none of the known agents is on PATH",
            "install one, such as with `npm install -g @agentclientprotocol/claude-agent-acp`",
        )]);
    }
    let found = found.into_iter();
    let findings =
        found.map(|(_, title, path, probed)| finding(title, &look.folder(&path), probed));
    Ok(findings.collect())
}

fn finding(title: &str, path: &str, probed: Result<Introduced, String>) -> Finding {
    match probed {
        Ok(Introduced { version }) => {
            let version =
                version.map_or_else(String::new, |version| format!(", version {version}"));
            Finding::ok(title, format!("{path} speaks ACP{version}"))
        }
        Err(why) => Finding::error(
            title,
            format!("{path} does not speak ACP: {why}"),
            "run it in a terminal to see more; an update may help",
        ),
    }
}
