//! The agents that are installed. Those that are used are started to see whether they speak ACP.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::cli::agent_command::installed;
use crate::cli::exit::Failure;
use crate::cli::term::{Look, busy};
use rejoin::engine::agent::{Introduced, Program, probe};
use rejoin::engine::known::KnownAgent;
use rejoin::engine::process::Launch;

use super::finding::Finding;

/// How long an agent may take to answer. Some take seconds to start.
const WITHIN: Duration = Duration::from_secs(15);
/// How long it may take to exit afterwards.
const EXIT: Duration = Duration::from_secs(2);

/// Starts the installed agents for which this holds, and names the others.
pub(super) fn check(
    look: &Look,
    launch: &Launch,
    wanted: impl Fn(&KnownAgent) -> bool,
) -> Result<Vec<Finding>, Failure> {
    let (started, left): (Vec<_>, Vec<_>) = installed().partition(|(known, _)| wanted(known));
    if started.is_empty() && left.is_empty() {
        return Ok(vec![Finding::warning(
            "agents",
            "none of the known agents is on PATH",
            "install one, such as with `npm install -g @agentclientprotocol/claude-agent-acp`",
        )]);
    }
    let mut findings = Vec::new();
    if !started.is_empty() {
        let names: Vec<_> = started.iter().map(|(known, _)| &*known.name).collect();
        let doing = || format!("Starting {} …", names.join(", "));
        let probed = busy(doing, || probed(&started, launch))?
            .into_iter()
            .zip(&started);
        findings.extend(probed.map(|(probed, (known, command))| {
            let path = command.first().map(String::as_str).unwrap_or_default();
            finding(&known.name, &look.folder(path), probed)
        }));
    }
    if !left.is_empty() {
        let names: Vec<_> = left.iter().map(|(known, _)| &*known.name).collect();
        let message = format!("installed, not started: {}", names.join(", "));
        let hint = "`rejoin doctor --agents` sees whether they speak ACP";
        findings.push(Finding::ok("agents", message).hint(hint));
    }
    Ok(findings)
}

/// Starts agents, all at once.
fn probed(
    agents: &[(&'static KnownAgent, Vec<String>)],
    launch: &Launch,
) -> Result<Vec<Result<Introduced, String>>, Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .map_err(Failure::cannot_start)?;
    let mut probed = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for (order, (_, command)) in agents.iter().enumerate() {
            let program = Program {
                command: command.iter().map(Into::into).collect(),
                env: Vec::new(),
                launch: launch.clone(),
                exit_timeout: EXIT,
            };
            tasks.spawn(async move { (order, probe(&program, WITHIN).await) });
        }
        tasks.join_all().await
    });
    // A process that an agent has left behind may keep its output open, and a thread reading it.
    runtime.shutdown_background();
    probed.sort_by_key(|(order, _)| *order);
    Ok(probed.into_iter().map(|(_, probed)| probed).collect())
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
