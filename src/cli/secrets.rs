//! `rejoin secrets`: which conversations have keys and tokens, and of which kinds.

use std::collections::BTreeMap;
use std::path::PathBuf;

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
use super::term::{
    FAINT, ID, Look, Output, WAITING, busy, count, cut, one_line, printable, successes, width,
};

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

/// A conversation with keys and tokens.
struct Revealing {
    /// As it is shown, masked.
    session: Listed,
    /// What it has in all places.
    kinds: Kinds,
    /// What each place has.
    places: Vec<(SecretPlace, Kinds)>,
}

/// Where keys and tokens are.
enum SecretPlace {
    /// In the session's log.
    Store,
    /// In the file of the conversation's own tool.
    File(PathBuf),
}

impl SecretPlace {
    fn name(&self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::File(_) => "file",
        }
    }
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    if args.kinds {
        return list_kinds(args.json, output);
    }
    let context = CommandContext::of_sources(global, &args.sources)?;
    let filter = Filter {
        archived: Archived::Include,
        ..Filter::default()
    };
    let (mut listed, _) = list::read(&context, &filter, usize::MAX)?;
    if args.json {
        list::add_agent_ids(&context, &mut listed)?;
    }
    let doing = || format!("Reading {} …", count(listed.len(), "conversation"));
    let read = busy(doing, || {
        in_parallel(&listed, usize::MAX, |session| of_session(&context, session))
    });
    let (read, end) = successes(global, read);
    let found: Vec<_> = read.into_iter().flatten().collect();
    if args.json {
        output.json(&found.iter().map(as_json).collect())?;
    } else if output.is_terminal() {
        print(&context, &found, output)?;
    } else {
        for one in &found {
            for (place, kinds) in &one.places {
                for (kind, count) in kinds {
                    let (id, place) = (&one.session.id, place.name());
                    output.line(format!("{id}  {kind}  {count}  {place}"))?;
                }
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

/// The keys and tokens in a conversation, with what rewinds have undone in it and what its tool has written
/// since, and in the tool's own file, which an import that masks leaves as it is. `None` if there are none.
/// What is shown of the conversation is masked, too: a title may end within a key.
fn of_session(
    context: &CommandContext<'_>,
    session: &Listed,
) -> Result<Option<Revealing>, Failure> {
    let id = &session.id;
    let is_of_tool = session.summary.tool.is_some();
    let tools = context
        .tools()?
        .filter(|_| is_of_tool || session.summary.known_as.is_some());
    let file = tools.and_then(|tools| tools.file_of(id));
    let mut logs = Vec::new();
    if !is_of_tool {
        logs.push((SecretPlace::Store, context.store.read_all(id)?));
    }
    if let (Some(tools), Some(file)) = (tools, file) {
        let log = tools.read(id)?;
        logs.extend(log.map(|log| (SecretPlace::File(file), log)));
    }
    let (all, mut places, mut shown) = (Redactor::default(), Vec::new(), session.clone());
    for (place, mut log) in logs {
        let redactor = Redactor::default();
        while let Some(entry) = log.next()? {
            redactor.payload(entry.record.payload);
        }
        if let Some(title) = &mut shown.summary.title {
            let payload = json!({ "title": title }).to_string();
            let masked = serde_json::from_str::<Value>(&redactor.payload(&payload));
            let masked = masked
                .ok()
                .and_then(|masked| Some(masked["title"].as_str()?.to_owned()));
            *title = masked.unwrap_or_default();
        }
        all.count_of(&redactor);
        let kinds = redactor.kinds();
        if !kinds.is_empty() {
            places.push((place, kinds));
        }
    }
    if places.is_empty() {
        return Ok(None);
    }
    shown.summary.cwd = redact::text(&session.summary.cwd).into_owned();
    Ok(Some(Revealing {
        session: shown,
        kinds: all.kinds(),
        places,
    }))
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

fn as_json(found: &Revealing) -> Value {
    let mut object = list::as_json(&found.session);
    object["tool"] = json!(found.session.summary.tool);
    object["secrets"] = json!(found.kinds);
    let places = found.places.iter().map(|(place, kinds)| {
        let mut object = json!({ "place": place.name(), "secrets": kinds });
        if let SecretPlace::File(path) = place {
            object["path"] = json!(path);
        }
        object
    });
    object["places"] = places.collect();
    object
}

/// Prints the title of each conversation, and the kinds in each place below it.
fn print(
    context: &CommandContext<'_>,
    found: &[Revealing],
    output: &mut Output,
) -> Result<(), Failure> {
    let (look, short) = (output.look().clone(), context.short(&[])?);
    for one in found {
        output.line(head(&one.session, short, &look))?;
        for (place, kinds) in &one.places {
            let place = match place {
                SecretPlace::Store => "in the store".to_owned(),
                SecretPlace::File(path) => {
                    let path = look.folder(&path.to_string_lossy());
                    format!("in {}", printable(&path))
                }
            };
            let kinds = kinds.iter().map(|(kind, count)| match count {
                1 => (*kind).to_owned(),
                count => format!("{kind} ({count})"),
            });
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            let kinds = cut(&kinds, look.width.saturating_sub(2));
            output.line(format!("  {}", look.paint(WAITING, &kinds)))?;
            let place = cut(&place, look.width.saturating_sub(4));
            output.line(format!("    {}", look.paint(FAINT, &place)))?;
        }
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
