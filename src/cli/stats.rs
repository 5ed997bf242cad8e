//! `rejoin stats`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rejoin::engine::known::title;
use rejoin::export::stats_page;
use rejoin::history::prices::Prices;
use rejoin::history::stats::{Groups, Numbers, Stats, TurnStats};
use rejoin::store::StoreError;
use rejoin::sys::{SessionId, grouped, in_parallel, lock};

use super::exit::Failure;
use super::global::Global;
use super::open::show;
use super::page_file::{self, PrivateFile};
use super::sessions::context::{CommandContext, OtherTools, unread};
use super::sessions::since;
use super::sources;
use super::term::{
    ID, Output, STRONG, StyledLine, busy, count, cut_start, pad, printable, report, width, wrap,
};

/// How many groups of a kind are shown.
const MOST: usize = 10;
/// How many days are shown.
const MOST_DAYS: usize = 14;
/// The widest table, and the widest name in it.
const WIDEST: usize = 120;
const WIDEST_NAME: usize = 40;
/// The columns with numbers, and how wide they are with the space before each: the less important
/// ones are left out first.
const NUMBERS: [(&str, usize); 4] = [("turns", 8), ("sessions", 9), ("tokens", 9), ("cost", 12)];
/// The order in which they are shown.
const ORDER: [usize; 4] = [1, 0, 2, 3];
/// The least width of names.
const LEAST_NAME: usize = 12;
/// The parts of a bar, from an eighth of a character to seven.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// What to count.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the turns since then: an age such as 30d, a date, `today`, `yesterday` or a time.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show a page with plots in the browser.
    #[arg(long, conflicts_with = "json")]
    open: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Prices of models, in place of those that the program has, for turns without a reported cost.
    #[arg(long, value_name = "FILE", env = "REJOIN_PRICES")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    sources: sources::Args,
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let context = CommandContext::of_sources(global, &args.sources)?;
    let ids = context.store.ids()?;
    let since = since(&context, args.since.as_deref(), output)?.unwrap_or_default();
    let doing = || format!("Reading {} …", count(ids.len(), "session"));
    let of_log = |id: &SessionId| -> Result<Vec<TurnStats>, Failure> {
        match context.store.read(id) {
            Ok(mut log) => Ok(TurnStats::all(&mut log)?),
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    };
    let (mut turns, mut unread) = busy(doing, || read(&ids, of_log));
    if let Some(tools) = context.tools()? {
        let (of_tools, more) = of_tools(tools)?;
        turns.extend(of_tools);
        unread.extend(more);
    }
    let prices = prices(args.prices.as_deref())?;
    let stats = Stats::of(turns, &since, &prices);
    for failure in &unread {
        report(global, failure);
    }
    if args.open {
        let path = page_file::page("stats.html")?;
        let mut file = PrivateFile::create(&path)?;
        file.write(&stats_page(&stats.as_json(&prices)))?;
        file.finish()?;
        return show(global, &path, output);
    }
    if args.json {
        return output.json(&stats.as_json(&prices));
    }
    if stats.total.turns == 0 {
        context.nothing("there are no turns to count");
        return Ok(());
    }
    StatsTables::new(output).print(&stats, &prices)
}

/// The prices in this file, or those of the program.
fn prices(path: Option<&Path>) -> Result<Prices, Failure> {
    let Some(path) = path else {
        return Ok(Prices::own());
    };
    let about = |error: &dyn Error| {
        let path = path.display();
        Failure::new(format!("cannot read prices from {path}: {error}"))
    };
    let text = std::fs::read(path).map_err(|error| about(&error))?;
    Prices::parse(&text).map_err(|error| about(&error))
}

/// The turns of sessions, and those that could not be read.
type TurnsOfAll = (Vec<Vec<TurnStats>>, Vec<Failure>);

/// The turns of other tools' conversations. A file is read only if it has changed since the last
/// time.
fn of_tools(tools: &OtherTools) -> Result<TurnsOfAll, Failure> {
    let mut turns_of_all = Vec::new();
    let mut unknown = Vec::new();
    for (id, kept) in tools
        .catalog
        .tool_files()
        .kept_turns()
        .map_err(|error| unread(&error))?
    {
        match kept.and_then(|kept| serde_json::from_slice::<Vec<TurnStats>>(&kept).ok()) {
            Some(turns) => turns_of_all.push(turns),
            None => unknown.push(id),
        }
    }
    let counted = Mutex::new(Vec::new());
    let of_tool = |id: &SessionId| -> Result<Vec<TurnStats>, Failure> {
        let file = tools.catalog.tool_files().file_of(id);
        let file = file.map_err(|error| unread(&error))?;
        let log = tools.read(id)?;
        let turns = log.map(|mut log| TurnStats::all(&mut log)).transpose()?;
        let turns = turns.unwrap_or_default();
        if let (Some((tool, file)), Ok(kept)) = (file, serde_json::to_vec(&turns)) {
            lock(&counted).push((tool, file, kept));
        }
        Ok(turns)
    };
    let doing = || {
        let conversations = count(unknown.len(), "conversation");
        format!("Reading {conversations} of other tools …")
    };
    let (of_unknown, failed) = busy(doing, || read(&unknown, of_tool));
    turns_of_all.extend(of_unknown);
    let counted = std::mem::take(&mut *lock(&counted));
    let kept = tools.catalog.tool_files().keep_turns(&counted);
    kept.map_err(|error| unread(&error))?;
    Ok((turns_of_all, failed))
}

/// Reads the turns of all sessions, with every core.
fn read(
    ids: &[SessionId],
    of: impl Fn(&SessionId) -> Result<Vec<TurnStats>, Failure> + Sync,
) -> TurnsOfAll {
    let read = in_parallel(ids, usize::MAX, |id| of(id));
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for turns in read {
        match turns {
            Ok(turns) => all.push(turns),
            Err(failure) => unread.push(failure),
        }
    }
    (all, unread)
}

/// The statistics as text: a table for each kind of group, with bars for the numbers of turns.
struct StatsTables<'a> {
    output: &'a mut Output,
    width: usize,
}

impl<'a> StatsTables<'a> {
    fn new(output: &'a mut Output) -> Self {
        let width = output.look().width.min(WIDEST);
        Self { output, width }
    }

    fn print(&mut self, stats: &Stats, prices: &Prices) -> Result<(), Failure> {
        let total = &stats.total;
        let mut parts = vec![
            count(total.sessions as usize, "session"),
            count(total.turns as usize, "turn"),
        ];
        if let Some(tokens) = total.total_tokens() {
            parts.push(format!("{} tokens", grouped(tokens as usize)));
        }
        parts.extend((!total.cost.is_empty()).then(|| reported(total)));
        if total.computed > 0.0 {
            let (computed, date) = (dollars(total.computed), &prices.date);
            parts.push(format!("~{computed} by the prices of {date}"));
        }
        if total.without_cost > 0 {
            let turns = count(total.without_cost as usize, "turn");
            parts.push(format!("{turns} without a known cost"));
        }
        for line in wrap(&[(STRONG, parts.join(", "))], Some(self.width)) {
            let line = StyledLine::of(line).text(self.output.colour());
            self.output.line(line)?;
        }
        // Logs have several names for some agents.
        let mut agents = Groups::default();
        for (name, numbers) in &stats.agents {
            agents
                .entry(title(name).to_owned())
                .or_default()
                .add(numbers);
        }
        for (name, groups) in [
            ("Agent", &agents),
            ("Model", &stats.models),
            ("Folder", &stats.folders),
        ] {
            let mut rows: Vec<_> = groups.iter().collect();
            rows.sort_by_key(|(name, numbers)| (u64::MAX - numbers.turns, *name));
            let more = rows.len().saturating_sub(MOST);
            rows.truncate(MOST);
            self.groups(name, &rows, more)?;
        }
        self.days(&stats.days)?;
        if stats.months.len() > 1 {
            let more = stats.months.len().saturating_sub(MOST);
            let rows: Vec<_> = stats.months.iter().skip(more).collect();
            self.groups("Month", &rows, more)?;
        }
        Ok(())
    }

    fn days(&mut self, days: &Groups) -> Result<(), Failure> {
        let mut rows: Vec<_> = days.iter().collect();
        let more = rows.len().saturating_sub(MOST_DAYS);
        rows.drain(..more);
        self.groups("Day", &rows, more)
    }

    fn groups(
        &mut self,
        kind: &str,
        rows: &[(&String, &Numbers)],
        more: usize,
    ) -> Result<(), Failure> {
        let look = self.output.look();
        let name = |name: &str| match kind {
            "Folder" => printable(&look.folder(name)),
            _ => printable(name),
        };
        let names: Vec<String> = rows.iter().map(|(group, _)| name(group)).collect();
        let longest = names.iter().map(|name| width(name)).max();
        let mut room = self.width.saturating_sub(LEAST_NAME);
        let fits = NUMBERS.map(|(_, wide)| {
            let rest = room.checked_sub(wide);
            room = rest.unwrap_or(0);
            rest.is_some()
        });
        let room = room + LEAST_NAME;
        let wide = longest.unwrap_or(0).clamp(kind.len(), WIDEST_NAME);
        let wide = wide.min(room);
        // What is left is for the bars, if that is enough to see anything.
        let bars = room.saturating_sub(wide + 3).min(40);
        let line = |name: &str, cells: [&str; 4]| {
            let mut line = pad(name, wide);
            for column in ORDER.into_iter().filter(|column| fits[*column]) {
                let room = NUMBERS[column].1;
                // Writing to a string does not fail.
                write!(line, "{:>room$}", cells[column]).ok();
            }
            line
        };
        self.output.line("")?;
        let head = line(kind, NUMBERS.map(|(name, _)| name));
        self.output.line(self.bold(&head))?;
        let most = rows.iter().map(|(_, numbers)| numbers.turns).max();
        for (name, (_, numbers)) in names.iter().zip(rows) {
            let tokens = numbers.total_tokens().map_or("–".to_owned(), short);
            let (turns, sessions) = (numbers.turns, numbers.sessions);
            let (turns, sessions) = (grouped(turns as usize), grouped(sessions as usize));
            let cells = [&turns, &sessions, &tokens, &money(numbers)];
            let bar = bar(numbers.turns, most.unwrap_or(1), bars);
            let line = line(&cut_start(name, wide), cells.map(String::as_str));
            let line = format!("{line}  {}", self.coloured(&bar));
            self.output.line(line.trim_end())?;
        }
        if more > 0 {
            let what = kind.to_lowercase();
            let before = match kind {
                "Day" | "Month" => "earlier ",
                _ => "more ",
            };
            self.output
                .line(format!("and {}", count(more, &format!("{before}{what}"))))?;
        }
        Ok(())
    }

    fn bold(&self, text: &str) -> String {
        self.output.look().paint(STRONG, text)
    }

    fn coloured(&self, text: &str) -> String {
        self.output.look().paint(ID, text)
    }
}

/// A bar of at most `width` characters, in steps of an eighth.
fn bar(number: u64, most: u64, width: usize) -> String {
    if width < 4 {
        return String::new();
    }
    let eighths = number.saturating_mul(width as u64 * 8) / most.max(1);
    let eighths = eighths.max(u64::from(number > 0)) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A number in at most six characters.
fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
    // Rounded, 999,950 is a million already.
    let unit = UNITS
        .iter()
        .find(|(unit, _)| number.saturating_add(unit / 20_000) >= *unit);
    let Some((unit, name)) = unit else {
        return number.to_string();
    };
    let tenths = number.saturating_add(unit / 20) / (unit / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// The cost: what agents reported and what was computed by list prices, marked as such.
fn money(numbers: &Numbers) -> String {
    if numbers.computed == 0.0 {
        return reported(numbers);
    }
    let mut others = numbers.clone();
    let known = others.cost.remove("USD").unwrap_or(0.0);
    let sum = format!("~{}", dollars(known + numbers.computed));
    if others.cost.is_empty() {
        sum
    } else {
        format!("{sum}, {}", reported(&others))
    }
}

fn dollars(amount: f64) -> String {
    format!("{amount:.2} USD")
}

/// The amounts of money that agents reported, each with its currency.
fn reported(numbers: &Numbers) -> String {
    let amounts = numbers.cost.iter().map(|(currency, amount)| {
        let currency: String = printable(currency).chars().take(8).collect();
        format!("{amount:.2} {currency}")
    });
    let amounts: Vec<_> = amounts.collect();
    if amounts.is_empty() {
        "–".to_owned()
    } else {
        amounts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0 k"),
            (1049, "1.0 k"),
            (1050, "1.1 k"),
            (999_949, "999.9 k"),
            (999_950, "1.0 M"),
            (12_345_678, "12.3 M"),
            (u64::MAX / 2, "9223372036.9 G"),
        ] {
            assert_eq!(short(number), shown, "{number}");
        }
    }

    #[test]
    fn bars_fit() {
        assert_eq!(bar(8, 8, 4), "████");
        assert_eq!(bar(5, 8, 4), "██▌");
        assert_eq!(bar(1, 1000, 4), "▏");
        assert_eq!(bar(0, 8, 4), "");
        assert_eq!(bar(8, 8, 3), "");
    }
}
