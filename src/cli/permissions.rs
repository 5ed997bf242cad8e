//! `rejoin permissions`: which permissions agents asked for, and who gave them.

use anstyle::Style;
use serde_json::Value;

use rejoin::conversation::{Decision, PermissionRequest, Permissions};
use rejoin::store::StoreError;
use rejoin::sys::{SessionId, Timestamp, in_parallel};

use super::exit::Failure;
use super::global::Global;
use super::sessions;
use super::sessions::context::CommandContext;
use super::sessions::id::find;
use super::sessions::named::{SESSION, ShortIds};
use super::term::{
    FAINT, ID, Look, Output, PLAIN, STRONG, StyledLine, busy, count, cut, of_decision, one_line,
    pad, successes, width,
};
use super::values;

/// How many are listed on a terminal.
const ON_A_SCREEN: usize = 20;
/// The columns of a table.
const HEADS: [&str; COLUMNS] = ["When", "Answer", "ID", "Client", "What"];
const COLUMNS: usize = 5;
const CLIENT: usize = 3;
const LAST: usize = COLUMNS - 1;
/// How wide they may be, but for the last one, and what is between them.
const MOST: [usize; LAST] = [15, 10, 48, 13];
const GAP: usize = 2;
/// A terminal that is narrower has no column of clients.
const WITH_CLIENTS: usize = 72;
/// What a request without an answer lacks, if no process has the session open.
const NO_ANSWER: &str = "the process ended";

/// Which requests to list.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: Option<String>,
    /// Only those since then: an age such as 7d, a date or a time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// At most N, the newest first. By default a terminal shows 20.
    #[arg(long, short = 'n', value_name = "N", value_parser = values::limit)]
    limit: Option<usize>,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

/// A request, and the session in whose log it is.
struct Asked {
    session: SessionId,
    permission: PermissionRequest,
}

impl Asked {
    fn as_json(&self) -> Value {
        let mut object = self.permission.as_json();
        object["sessionId"] = self.session.as_str().into();
        object
    }

    /// What the agent wanted to do, on one line.
    fn what(&self) -> String {
        let kind = || self.permission.kind.clone();
        one_line(&self.permission.wanted().or_else(kind).unwrap_or_default())
    }

    fn decision(&self) -> &'static str {
        match self.permission.decision {
            Decision::Open => "waiting",
            Decision::Chosen(_) => "answered",
            Decision::Failed(_) | Decision::Unanswered(_) => "not given",
            ref other => other.name(),
        }
    }

    fn client(&self) -> String {
        one_line(self.permission.client.as_deref().unwrap_or_default())
    }
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let context = CommandContext::of_existing(global)?;
    let since = sessions::since(&context, args.since.as_deref(), output)?.unwrap_or_default();
    let ids = match &args.id {
        Some(id) => vec![find(&context, id)?],
        None => context.store.ids()?,
    };
    let doing = || format!("Reading {} …", count(ids.len(), "session"));
    let read = busy(doing, || {
        in_parallel(&ids, usize::MAX, |id| of_session(&context, id, &since))
    });
    let (read, end) = successes(global, read);
    let mut all: Vec<Asked> = read.into_iter().flatten().collect();
    all.sort_by(|one, other| other.permission.at.cmp(&one.permission.at));
    let total = all.len();
    let usual = if output.is_terminal() && !args.json {
        ON_A_SCREEN
    } else {
        usize::MAX
    };
    all.truncate(args.limit.unwrap_or(usual));
    if args.json {
        output.json(&all.iter().map(Asked::as_json).collect())?;
    } else if output.is_terminal() {
        print(&context, &all, output)?;
        if args.limit.is_none() && total > all.len() {
            let text = format!(
                "{} of {}; -n N shows more",
                all.len(),
                count(total, "request")
            );
            output.line(output.look().paint(FAINT, &text))?;
        }
    } else {
        for asked in &all {
            output.line(line(asked))?;
        }
    }
    if total == 0 {
        context.nothing("no agent has asked for permission");
    }
    end
}

/// The requests in a session's log since this time.
fn of_session(
    context: &CommandContext<'_>,
    id: &SessionId,
    since: &str,
) -> Result<Vec<Asked>, Failure> {
    let store = &context.store;
    if !since.is_empty()
        && store
            .changed_at(id)?
            .is_some_and(|at| at.to_string().as_str() < since)
    {
        return Ok(Vec::new());
    }
    let mut log = match store.read(id) {
        Ok(log) => log,
        // The session was deleted meanwhile.
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut permissions = Permissions::new(log.header(), 0);
    while let Some(entry) = log.next()? {
        permissions.record(&entry.record);
    }
    let no_answer = (!store.is_open(id)).then_some(NO_ANSWER);
    let all = permissions.into_all(no_answer).into_iter();
    let all = all.filter(|permission| permission.at.as_str() >= since);
    Ok(all
        .map(|permission| Asked {
            session: id.clone(),
            permission,
        })
        .collect())
}

/// A request on one line, for programs.
fn line(asked: &Asked) -> String {
    let at = asked.permission.at.get(..16).unwrap_or_default();
    let client = match asked.client() {
        client if client.is_empty() => "-".to_owned(),
        client => client,
    };
    format!(
        "{}  {}  {:<10}  {client}  {}",
        asked.session,
        at.replace('T', " "),
        asked.decision(),
        asked.what()
    )
}

/// Prints a table that fits into the terminal.
fn print(context: &CommandContext<'_>, all: &[Asked], output: &mut Output) -> Result<(), Failure> {
    if all.is_empty() {
        return Ok(());
    }
    let look = output.look().clone();
    let now = context.sys.clock.now();
    let short = context.short(&[])?;
    let rows: Vec<_> = all
        .iter()
        .map(|asked| row(asked, short, &look, now))
        .collect();
    // The last column takes what is left.
    let wide = |n: usize| {
        let cells = rows.iter().map(|(cells, _)| width(&cells[n]));
        let most = cells.max().unwrap_or_default();
        (most > 0).then(|| most.max(width(HEADS[n])).min(MOST[n]))
    };
    let mut wides: [_; LAST] = std::array::from_fn(wide);
    if look.width < WITH_CLIENTS {
        wides[CLIENT] = None;
    }
    let used: usize = wides.iter().flatten().map(|wide| wide + GAP).sum();
    let left = look.width.saturating_sub(used);
    let line = |cells: &[String; COLUMNS], styles: [Style; COLUMNS]| {
        let mut line = StyledLine::default();
        for (n, wide) in wides.iter().enumerate() {
            if let Some(wide) = *wide {
                line.push(styles[n], &pad(&cut(&cells[n], wide), wide + GAP));
            }
        }
        line.push(styles[LAST], &cut(&cells[LAST], left));
        line.text(look.colour)
    };
    output.line(line(&HEADS.map(str::to_owned), [STRONG; COLUMNS]))?;
    for (cells, styles) in &rows {
        output.line(line(cells, *styles))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// The cells of a request, and their styles.
fn row(
    asked: &Asked,
    short: ShortIds,
    look: &Look,
    now: Timestamp,
) -> ([String; COLUMNS], [Style; COLUMNS]) {
    let at = Timestamp::parse(&asked.permission.at);
    let when = at.map_or(String::new(), |at| look.when(at, now));
    let style = of_decision(&asked.permission.decision);
    let cells = [
        when,
        asked.decision().to_owned(),
        short.id(&asked.session),
        asked.client(),
        asked.what(),
    ];
    (cells, [FAINT, style, ID, PLAIN, PLAIN])
}
