//! `rejoin secrets`: which conversations have keys and tokens, and of which kinds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use rejoin::index::{Archived, Filter, Listed};
use rejoin::redact::{self, Redactor};
use rejoin::sys::in_parallel;

use super::exit::Failure;
use super::global::Global;
use super::sessions::context::CommandContext;
use super::sessions::list;
use super::sessions::named::{ShortIds, UNTITLED};
use super::sources;
use super::term::{FAINT, ID, Look, Output, WAITING, busy, count, cut, one_line, successes, width};

/// Where to look, and what to print.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List the kinds that are looked for, and look for none.
    #[arg(long)]
    kinds: bool,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sources: sources::Args,
}

/// How many different keys and tokens there are of each kind.
type Kinds = BTreeMap<&'static str, usize>;

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    if args.kinds {
        return list_kinds(args.json, output);
    }
    let context = CommandContext::of_sources(global, &args.sources)?;
    let filter = Filter {
        archived: Archived::Include,
        ..Filter::default()
    };
    let (listed, _) = list::read(&context, &filter, usize::MAX)?;
    let doing = || format!("Reading {} …", count(listed.len(), "conversation"));
    let read = busy(doing, || {
        in_parallel(&listed, usize::MAX, |session| of_session(&context, session))
    });
    let (read, end) = successes(global, read);
    let found: Vec<_> = read.into_iter().flatten().collect();
    if args.json {
        output.json(
            &found
                .iter()
                .map(|(session, kinds)| as_json(session, kinds))
                .collect(),
        )?;
    } else if output.is_terminal() {
        print(&context, &found, output)?;
    } else {
        for (session, kinds) in &found {
            for (kind, count) in kinds {
                output.line(format!("{}  {kind}  {count}", session.id))?;
            }
        }
    }
    let all = count(listed.len(), "conversation");
    if found.is_empty() {
        context.nothing(&format!("{all}: none has a key or token of a known kind"));
    } else if output.is_terminal() && !args.json {
        let text = format!(
            "{} of {all}; `rejoin export ID --redact` and `rejoin import --redact` mask them",
            found.len()
        );
        output.line(output.look().paint(FAINT, &text))?;
    }
    end
}

/// The kinds of keys and tokens in a conversation, with what rewinds have undone in it and what its tool
/// has written since, and in the tool's own file, which an import that masks leaves as it is. `None` if there
/// are none. What is shown of the conversation is masked, too: a title may end within a key.
fn of_session(
    context: &CommandContext<'_>,
    session: &Listed,
) -> Result<Option<(Listed, Kinds)>, Failure> {
    let (redactor, id) = (Redactor::default(), &session.id);
    let tools = context
        .tools()?
        .filter(|_| session.summary.tool.is_none() && session.summary.known_as.is_some());
    let of_tool = tools.map(|tools| tools.read(id)).transpose()?.flatten();
    for mut log in std::iter::once(context.read_all(id)?).chain(of_tool) {
        while let Some(entry) = log.next()? {
            redactor.payload(entry.record.payload);
        }
    }
    let kinds = redactor.kinds();
    if kinds.is_empty() {
        return Ok(None);
    }
    let mut shown = session.clone();
    if let Some(title) = &session.summary.title {
        let payload = json!({ "title": title }).to_string();
        let masked: Option<Value> = serde_json::from_str(&redactor.payload(&payload)).ok();
        shown.summary.title = masked.and_then(|masked| masked["title"].as_str().map(str::to_owned));
    }
    shown.summary.cwd = redact::text(&session.summary.cwd).into_owned();
    Ok(Some((shown, kinds)))
}

fn list_kinds(as_json: bool, output: &mut Output) -> Result<(), Failure> {
    let kinds = redact::kinds();
    if as_json {
        return output.json(&kinds.into_iter().collect());
    }
    for kind in kinds {
        output.line(kind)?;
    }
    Ok(())
}

fn as_json(session: &Listed, kinds: &Kinds) -> Value {
    let mut object = list::as_json(session);
    object["tool"] = json!(session.summary.tool);
    object["secrets"] = json!(kinds);
    object
}

/// Prints the title of each conversation, and the kinds below it.
fn print(
    context: &CommandContext<'_>,
    found: &[(Listed, Kinds)],
    output: &mut Output,
) -> Result<(), Failure> {
    let (look, short) = (output.look().clone(), context.short(&[])?);
    for (session, kinds) in found {
        output.line(head(session, short, &look))?;
        let kinds = kinds.iter().map(|(kind, count)| match count {
            1 => (*kind).to_owned(),
            count => format!("{kind} ({count})"),
        });
        let kinds = cut(
            &kinds.collect::<Vec<_>>().join(", "),
            look.width.saturating_sub(2),
        );
        output.line(format!("  {}", look.paint(WAITING, &kinds)))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// The id and the title of a conversation.
fn head(session: &Listed, short: ShortIds, look: &Look) -> String {
    let id = short.id(&session.id);
    let title = session.summary.title.as_deref().unwrap_or(UNTITLED);
    let title = cut(&one_line(title), look.width.saturating_sub(width(&id) + 2));
    format!("{}  {title}", look.paint(ID, &id))
}
