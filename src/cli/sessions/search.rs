//! `rejoin search`.

use chrono::NaiveDate;
use regex::Regex;
use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::sources;
use crate::cli::term::{
    FAINT, HIT, Look, Output, PLAIN, STRONG, StyledLine, cut, cut_start, note, one_line, printable,
    width,
};
use crate::cli::values::{self, duration};
use rejoin::conversation::Field;
use rejoin::engine::known::all_names;
use rejoin::history::{last_used, long_before};
use rejoin::index::{
    Archived, Catalog, Filter, Hit, HitsError, ListError, Listed, Pattern, Query, Search,
};
use rejoin::sources::LARGEST;
use rejoin::sys::{Clock, Timestamp, Zone};

use super::context::CommandContext;
use super::list;
use super::table::{ON_A_SCREEN, SessionTable, TableRow};

/// How many bytes of unread logs are read at once.
const WORDS: usize = 64 * 1024 * 1024;

/// How many sessions a program gets without `--limit`.
const SESSIONS: usize = 50;

/// How many hits are queried at once.
const PAGE: usize = 100;

/// How many files that are not searched are named.
const NAMED: usize = 5;

/// On a terminal so wide, it is also said when a hit was recorded.
const WITH_TIMES: usize = 90;

/// What to look for.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(in crate::cli) struct Args {
    /// Words to search for, or their beginnings, and phrases in double quotes. A session matches if
    /// all of them occur in what was said, or in what its tools were given and returned.
    #[arg(value_name = "TEXT", required_unless_present_any = ["substring", "regex"])]
    text: Vec<String>,
    /// Search for exactly this text instead, in the logs.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["text", "regex"])]
    substring: Option<String>,
    /// Search for what matches this regular expression instead, in the logs.
    #[arg(long, value_name = "PATTERN", conflicts_with = "text")]
    regex: Option<String>,
    /// Only what was said by this one; may be repeated.
    #[arg(long, value_name = "ROLE", value_parser = Field::ROLES)]
    role: Vec<String>,
    /// Only texts of this kind; may be repeated.
    #[arg(long, value_name = "KIND", value_parser = Field::ALL.map(Field::name))]
    kind: Vec<String>,
    /// Only sessions with this agent, by any of its names, such as `codex`; may be repeated.
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Only tool calls of this kind, or with these words in their titles or files.
    #[arg(long, value_name = "WORDS")]
    tool: Option<String>,
    /// Only what is newer: an age such as 7d, a date, `today`, `yesterday` or a time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only what is older: an age such as 7d, a date, `today`, `yesterday` or a time.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only sessions with this working directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
    /// At most N sessions. By default 50, and 20 on a terminal.
    #[arg(long, short = 'n', value_name = "N", value_parser = values::limit)]
    limit: Option<usize>,
    /// Print a JSON array.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let query = query(args, &*context.sys.clock, output.look().zone)?;
    let catalog = if matches!(query.pattern, Pattern::Words(_)) {
        let catalog = context.searched()?;
        context
            .reading_from(catalog, |catalog| -> Result<(), ListError> {
                while !catalog.read_words(WORDS)? {}
                Ok(())
            })
            .map_err(|error| Failure::new(format!("cannot search sessions: {error}")))?;
        catalog
    } else {
        // The files themselves are searched.
        context.listed()?
    };
    let for_people = output.is_terminal() && !args.json;
    let usual = if for_people { ON_A_SCREEN } else { SESSIONS };
    let limit = args.limit.unwrap_or(usual);
    let found = context.reading_from(catalog, |catalog| -> Result<_, HitsError> {
        let mut found: Vec<Hit> = Vec::new();
        let mut cursor = None;
        loop {
            let page = catalog.hits(&query, cursor.as_deref(), &|| false)?;
            found.extend(page.hits);
            cursor = page.next_cursor;
            // An additional session shows that there are more.
            if cursor.is_none() || by_session(&found).count() > limit {
                return Ok((found, page.of_question));
            }
        }
    });
    let (found, of_question) =
        found.map_err(|error| Failure::new(format!("cannot search sessions: {error}")))?;
    let sessions: Vec<&[Hit]> = by_session(&found).take(limit).collect();
    if args.json {
        output.json(&as_json(context, &sessions)?)?;
    } else if for_people {
        print(context, &sessions, sought(args).as_ref(), output)?;
    } else {
        for hits in &sessions {
            show(hits, output)?;
            if output.closed() {
                break;
            }
        }
    }
    if let Pattern::Words(_) = &query.pattern {
        let unread = catalog.tool_files().unread(LARGEST).unwrap_or_default();
        if !unread.is_empty() {
            let look = output.look();
            let path = |path: &String| printable(&look.folder(path));
            let named = unread.iter().take(NAMED).map(path);
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match unread.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let what =
                format!("not searched, since too long to be searched by words: {named}{more}");
            let hint = "`rejoin import` copies them, and --substring reads them";
            note(context.global, &what, Some(hint));
        }
    }
    if of_question {
        let what =
            "no session has all of these words; these have those that are not in every question";
        note(context.global, what, None);
    }
    if found.is_empty() {
        let hint = match &query.pattern {
            Pattern::Words(words) => match meant(context, catalog, &query, words) {
                Some(meant) => format!("did you mean `{}`?", one_line(&meant)),
                None => "use fewer words, or --substring for a part of a word".to_owned(),
            },
            Pattern::Substring(_) => "upper and lower case differ; words match both".to_owned(),
            Pattern::Regex(_) => "begin it with (?i) to match upper and lower case".to_owned(),
        };
        note(context.global, &nothing(args, &query), Some(&hint));
    } else if args.limit.is_none() && by_session(&found).count() > limit {
        context.nothing(&format!(
            "more than {limit} sessions match; --limit shows more"
        ));
    }
    Ok(())
}

/// A search like this one, which finds nothing, that finds something.
fn meant(
    context: &CommandContext<'_>,
    catalog: &Catalog,
    query: &Query,
    words: &Search,
) -> Option<String> {
    context.reading_from(catalog, |catalog| {
        let words = catalog.corrected(words)?;
        let query = Query {
            pattern: Pattern::Words(Search::parse(&words)?),
            ..query.clone()
        };
        let found = catalog.hits(&query, None, &|| false).ok()?;
        (!found.hits.is_empty()).then_some(words)
    })
}

/// The hits of each session.
fn by_session(found: &[Hit]) -> impl Iterator<Item = &[Hit]> {
    found.chunk_by(|a, b| a.session.id == b.session.id)
}

/// The query that the arguments describe.
fn query(args: &Args, clock: &dyn Clock, zone: Zone) -> Result<Query, Failure> {
    let pattern = match (&args.substring, &args.regex) {
        (Some(text), _) => (!text.is_empty()).then(|| Pattern::Substring(text.clone())),
        (_, Some(pattern)) if pattern.is_empty() => None,
        (_, Some(pattern)) => Some(Pattern::regex(pattern).map_err(|error| {
            Failure::usage(format!(
                "--regex is not a valid regular expression: {error}"
            ))
        })?),
        _ => Search::parse(&args.text.join(" ")).map(Pattern::Words),
    };
    let pattern = pattern.ok_or_else(|| Failure::usage("the text to search for is blank"))?;
    let mut query = Query::new(pattern);
    query.limit = PAGE;
    query.sessions = Filter {
        cwd: list::folder(args.cwd.as_deref())?,
        archived: Archived::Include,
        ..Filter::default()
    };
    query.sources = all_names(&args.agent);
    query.tool.clone_from(&args.tool);
    let is_wanted = |field: &Field| {
        (args.role.is_empty() || args.role.iter().any(|role| role == field.role()))
            && (args.kind.is_empty() || args.kind.iter().any(|kind| kind == field.name()))
    };
    query.fields = Field::ALL.into_iter().filter(is_wanted).collect();
    if query.fields.is_empty() {
        return Err(Failure::usage(
            "no text has both this --role and this --kind",
        ));
    }
    if query.fields.len() == Field::ALL.len() {
        query.fields.clear();
    }
    let time = |option: &str, text: &Option<String>, is_end: bool| {
        let time = text
            .as_ref()
            .map(|text| time_of(option, text, is_end, clock, zone));
        time.transpose()
    };
    query.since = time("--since", &args.since, false)?;
    query.until = time("--until", &args.until, true)?;
    Ok(query)
}

/// The time of `--since`, if that was given.
pub(in crate::cli) fn since(
    context: &CommandContext<'_>,
    text: Option<&str>,
    output: &Output,
) -> Result<Option<String>, Failure> {
    let (clock, zone) = (&*context.sys.clock, output.look().zone);
    text.map(|text| time_of("--since", text, false, clock, zone))
        .transpose()
}

/// The time that the value of an option means, in the format of the logs. A day is one of the
/// user's.
pub(in crate::cli) fn time_of(
    option: &str,
    text: &str,
    is_end: bool,
    clock: &dyn Clock,
    zone: Zone,
) -> Result<String, Failure> {
    if let Ok(age) = duration(text) {
        return Ok(long_before(clock.now(), age).to_string());
    }
    let of_day = || {
        let today = || zone.shown(clock.now()).date();
        let day: NaiveDate = match text {
            "today" => today(),
            "yesterday" => today().pred_opt()?,
            _ => text.parse().ok()?,
        };
        let time = if is_end {
            day.and_hms_milli_opt(23, 59, 59, 999)
        } else {
            day.and_hms_opt(0, 0, 0)
        };
        zone.time(time?)
    };
    let time = Timestamp::parse(text).or_else(of_day).ok_or_else(|| {
        Failure::usage(format!(
            "{option} must be an age such as 7d, a date such as 2026-11-21, `today`, `yesterday`, or a \
             time such as 2026-11-21T08:30:00Z"
        ))
    })?;
    Ok(time.to_string())
}

/// Says that nothing was found, and what was searched.
fn nothing(args: &Args, query: &Query) -> String {
    let folder = query.sessions.cwd.as_ref();
    let folder = folder
        .map(|cwd| format!(" that works in {cwd}"))
        .unwrap_or_default();
    let sought = match &query.pattern {
        Pattern::Words(_) => "these words",
        Pattern::Substring(_) => "this text",
        Pattern::Regex(_) => "text that matches",
    };
    let mut limits = Vec::new();
    if !query.fields.is_empty() {
        let names: Vec<_> = query.fields.iter().map(|field| field.name()).collect();
        limits.push(format!("of the kind {}", names.join(" or ")));
    }
    if !args.agent.is_empty() {
        limits.push(format!("with the agent {}", args.agent.join(" or ")));
    }
    if let Some(tool) = &args.tool {
        limits.push(format!("in tool calls like {tool}"));
    }
    if let Some(since) = &args.since {
        limits.push(format!("since {since}"));
    }
    if let Some(until) = &args.until {
        limits.push(format!("until {until}"));
    }
    let limits = limits.iter().map(|limit| format!(", {limit}"));
    format!(
        "there is no session{folder} with {sought}{}",
        limits.collect::<String>()
    )
}

/// The pattern of the text to show in colour in the hits; none if that is unknown.
fn sought(args: &Args) -> Option<Regex> {
    let pattern = match (&args.substring, &args.regex) {
        (Some(text), _) => regex::escape(text),
        (_, Some(pattern)) => pattern.clone(),
        _ => {
            return sought_words(&args.text.join(" "));
        }
    };
    Regex::new(&pattern).ok()
}

/// The pattern of the words of a search, to show them in colour.
pub(super) fn sought_words(text: &str) -> Option<Regex> {
    let words = text.split(|c: char| c.is_whitespace() || c == '"');
    let words = words.filter(|word| !word.is_empty()).map(regex::escape);
    Regex::new(&format!("(?i){}", words.collect::<Vec<_>>().join("|"))).ok()
}

/// Prints the hits of each session below its title, for people.
fn print(
    context: &CommandContext<'_>,
    sessions: &[&[Hit]],
    sought: Option<&Regex>,
    output: &mut Output,
) -> Result<(), Failure> {
    let look = output.look().clone();
    let now = context.sys.clock.now();
    let found: Vec<&Listed> = sessions
        .iter()
        .filter_map(|hits| Some(&hits.first()?.session))
        .collect();
    let short = context.short(&[])?;
    let rows = found
        .iter()
        .map(|session| list::row(session, short, &look, now));
    let rows: Vec<TableRow> = rows.collect();
    let table = SessionTable::of(look.width, "Used", &rows).with_titles(STRONG);
    for (at, (row, hits)) in rows.iter().zip(sessions).enumerate() {
        if at > 0 {
            output.line("")?;
        }
        let line = table.row(row);
        output.line(line.text(look.colour))?;
        let line = line.text(false);
        let repeats =
            |hit: &Hit| hit.field == Field::Title && line.contains(&one_line(&hit.snippet));
        let only_title = hits.iter().all(repeats);
        for hit in *hits {
            if only_title || !repeats(hit) {
                output.line(hit_line(hit, sought, &look, now).text(look.colour))?;
            }
        }
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// A hit on one line, with what was sought in colour.
pub(super) fn hit_line(
    hit: &Hit,
    sought: Option<&Regex>,
    look: &Look,
    now: Timestamp,
) -> StyledLine {
    let kind = match hit.field {
        Field::ToolInput => "tool input",
        Field::ToolOutput => "tool output",
        field => field.name(),
    };
    let mut head = format!("  {kind:<11}  ");
    if look.width >= WITH_TIMES {
        let when = Timestamp::parse(&hit.at).map(|at| look.when(at, now));
        let when = format!("{:<15}  ", when.unwrap_or_default());
        head.push_str(&when);
    }
    let room = look.width.saturating_sub(width(&head));
    let text = one_line(&hit.snippet);
    let text = shown(&text, sought, room);
    let mut line = StyledLine::new(FAINT, &head);
    let mut end = 0;
    for found in sought.iter().flat_map(|sought| sought.find_iter(&text)) {
        line.push(PLAIN, &text[end..found.start()]);
        line.push(HIT, found.as_str());
        end = found.end();
    }
    line.push(PLAIN, &text[end..]);
    line
}

/// The part of a text with what was sought, in so many columns.
fn shown(text: &str, sought: Option<&Regex>, room: usize) -> String {
    let at = sought
        .and_then(|sought| sought.find(text))
        .map_or(0, |found| found.start());
    let (before, rest) = text.split_at(at);
    if width(text) <= room || width(before) <= room / 2 {
        return cut(text, room);
    }
    cut(&(cut_start(before, room / 3) + rest), room)
}

/// Prints the hits of a session below its title, for programs.
fn show(hits: &[Hit], output: &mut Output) -> Result<(), Failure> {
    let Some(first) = hits.first() else {
        return Ok(());
    };
    let Listed { id, summary, .. } = &first.session;
    let (used, tool) = (last_used(summary), list::tool_of(&first.session));
    output.line(format!("{id}  {}  {tool}", list::minute(used)))?;
    let title = summary.title.as_deref().unwrap_or(super::named::UNTITLED);
    output.line(format!("  {}", one_line(title)))?;
    for hit in hits {
        let (at, kind) = (list::minute(&hit.at), hit.field.name());
        let text = one_line(&hit.snippet);
        output.line(format!("    {at}  {kind:<10}  {text}"))?;
    }
    Ok(())
}

/// The sessions with the hits in each, of which there is at least one.
fn as_json(context: &CommandContext<'_>, sessions: &[&[Hit]]) -> Result<Value, Failure> {
    let found = sessions.iter().map(|hits| hits[0].session.clone());
    let mut found: Vec<Listed> = found.collect();
    list::add_agent_ids(context, &mut found)?;
    let sessions = found.iter().zip(sessions).map(|(listed, hits)| {
        let mut session = list::as_json(listed);
        session["snippet"] = hits[0].snippet.as_str().into();
        session["hits"] = hits.iter().map(hit_as_json).collect();
        session
    });
    Ok(sessions.collect())
}

fn hit_as_json(hit: &Hit) -> Value {
    let mut json = json!({
        "kind": hit.field.name(),
        "role": hit.field.role(),
        "timestamp": hit.at,
        "snippet": hit.snippet,
    });
    if let Some(offset) = hit.offset {
        json["offset"] = offset.into();
    }
    if let Some(id) = &hit.message_id {
        json["messageId"] = id.as_str().into();
    }
    if let Some(call) = &hit.tool_call {
        let members = [
            ("toolCallId", &call.id),
            ("toolTitle", &call.title),
            ("toolKind", &call.kind),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                json[name] = value.as_str().into();
            }
        }
    }
    json
}
