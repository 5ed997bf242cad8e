//! Reads a file that has grown from where it grew, for its words and for what is counted in it.
//!
//! What was said up to there is in the index already. The last turns before that place are read again, with
//! what is new behind them, and what differs is reported. That is done for files of JSON lines that their tools
//! append to, and only if nothing shows that what came before counts for less now: all its bytes are the
//! same, new records follow from records that were read, and the last turn says what the index has of it.
//! Every other file is read as a whole.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::{Field, Passage, SearchText};
use crate::index::{KeptText, Summary};
use crate::record::Kind;

use super::conversation::{NewRecord, ToolConversation, UNNAMED};
use super::live::{PIECE, pieces};
use super::preview::{Glance, HEADS, LARGEST};
use super::scan::number;
use super::{FileReader, FoundConversation, Source, SourceReader, has_any, lines, open};

/// How much of a file is compared at once, in bytes.
const COMPARED: usize = 256 << 10;

/// How much is read before the place where a file grew, in bytes: more only if no turn begins in it.
const BEFORE: [u64; 3] = [64 << 10, 512 << 10, 4 << 20];

/// How records of a file say what they follow from.
#[derive(Debug)]
pub(super) struct RecordLinks {
    /// Adds the names that later records may refer to.
    pub(super) names: for<'a> fn(&'a Value, &mut Vec<&'a str>),
    /// Adds the names that a record refers to. False if it may change what came before it.
    pub(super) needs: for<'a> fn(&'a Value, &mut Vec<&'a str>) -> bool,
}

impl RecordLinks {
    /// Whether new records follow from those before and from each other, and only add to them.
    fn only_add(&self, before: &[Value], new: &[Value]) -> bool {
        let mut names = Vec::new();
        for record in before {
            (self.names)(record, &mut names);
        }
        let mut known: HashSet<&str> = names.drain(..).collect();
        let mut needed = Vec::new();
        new.iter().all(|record| {
            let adds = (self.needs)(record, &mut needed);
            let follows = needed.drain(..).all(|name| known.contains(name));
            (self.names)(record, &mut names);
            known.extend(names.drain(..));
            adds && follows
        })
    }
}

/// How far a file was read as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadSoFar {
    end: ReadEnd,
    /// How many records the conversation had, without snapshots, and how many messages without an id.
    records: usize,
    unnamed: usize,
    /// The entry of the conversation.
    summary: Summary,
}

/// The end of a file of which it can be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadEnd {
    /// The length of the file.
    len: u64,
    /// The checksum of its bytes, and a number for the other files of the conversation.
    checksum: u32,
    others: u64,
}

impl ReadEnd {
    /// The end of a file with these bytes; none if it can only be read as a whole.
    pub(super) fn of(reader: &FileReader, found: &FoundConversation, bytes: &[u8]) -> Option<Self> {
        let is_long = bytes.len() as u64 > HEADS[0] + BEFORE[0];
        let is_whole = is_long && bytes.ends_with(b"\n");
        reader.links.as_ref().filter(|_| is_whole)?;
        let first = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
        Some(Self {
            len: bytes.len() as u64,
            checksum: crc32fast::hash(bytes),
            others: others(reader, found, &bytes[..first])?,
        })
    }

    /// The state to keep of a conversation that was read up to here.
    pub(super) fn kept(self, conversation: &ToolConversation, summary: &Summary) -> ReadSoFar {
        ReadSoFar {
            end: self,
            records: history(&conversation.entries).count(),
            unnamed: conversation.unnamed,
            summary: summary.clone(),
        }
    }
}

/// The checksum of the first bytes of a file, to which more can be added.
fn checksum(file: &mut File, len: u64) -> io::Result<Hasher> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = BufReader::with_capacity(COMPARED, file.take(len));
    let mut checksum = Hasher::new();
    loop {
        let read = bytes.fill_buf()?;
        if read.is_empty() {
            return Ok(checksum);
        }
        checksum.update(read);
        let length = read.len();
        bytes.consume(length);
    }
}

/// A number for the other files with words of a conversation; none if they are not known.
fn others(reader: &FileReader, found: &FoundConversation, bytes: &[u8]) -> Option<u64> {
    let mut others = (reader.others)(found, bytes, false)?;
    others.sort();
    let known = others.into_iter().map(|path| {
        let len = fs::metadata(&path).map_or(0, |file| file.len());
        (path, len)
    });
    Some(number(known.collect::<Vec<_>>()))
}

/// The records of a conversation without the snapshots at its end.
fn history(entries: &[NewRecord]) -> impl DoubleEndedIterator<Item = &NewRecord> {
    entries.iter().filter(|entry| entry.kind != Kind::Info)
}

/// What a file has now that has grown.
#[derive(Debug)]
pub(super) struct GrownFile {
    /// The pieces of text from the first one on that may differ.
    pub(super) text: Vec<Vec<Passage>>,
    /// The parts of the conversation that were read before, and now.
    old: ToolConversation,
    pub(super) new: ToolConversation,
    so_far: ReadSoFar,
    end: ReadEnd,
}

/// Reads a file from where it grew; nothing if it has to be read as a whole. `kept` are the last
/// pieces of text that the index has of it.
pub(super) fn read_grown(
    source: &Source,
    found: &FoundConversation,
    so_far: ReadSoFar,
    kept: &KeptText,
) -> io::Result<Option<GrownFile>> {
    let SourceReader::Files(reader) = &source.reader else {
        return Ok(None);
    };
    let (mut file, size) = open(&found.path)?;
    let known = so_far.end;
    let grown = size.saturating_sub(known.len);
    let Some(links) = reader
        .links
        .as_ref()
        .filter(|_| (1..LARGEST).contains(&grown))
    else {
        return Ok(None);
    };
    let added = part(&mut file, known.len, grown)?;
    let others = others(reader, found, &added);
    if !added.ends_with(b"\n") || has_any(&added, reader.marks) || others != Some(known.others) {
        return Ok(None);
    }
    let mut checksum = checksum(&mut file, known.len)?;
    if checksum.clone().finalize() != known.checksum {
        return Ok(None);
    }
    checksum.update(&added);
    let read = |bytes: &[u8]| (reader.read)(found, bytes, None);
    let Some((before, old)) = before(&mut file, known.len, read)? else {
        return Ok(None);
    };
    let records = lines::objects(&added);
    let only_adds = || links.only_add(&lines::objects(&before).objects, &records.objects);
    if !records.damage.is_empty() || !only_adds() {
        return Ok(None);
    }
    let end = ReadEnd {
        len: known.len + grown,
        checksum: checksum.finalize(),
        ..known
    };
    let new = read(&[before, added].concat());
    Ok(text(&old, &new, &so_far, kept).map(|text| GrownFile {
        text,
        old,
        new,
        so_far,
        end,
    }))
}

impl GrownFile {
    /// The entry of the conversation, and what is kept of the file. `summary` makes the entry of a part.
    pub(super) fn entry(
        self,
        summary: impl Fn(&Glance) -> Option<Summary>,
    ) -> Option<(Summary, ReadSoFar)> {
        let Self {
            old,
            new,
            so_far,
            end,
            ..
        } = self;
        let unnamed = so_far.unnamed + new.unnamed - old.unnamed;
        let records =
            so_far.records + history(&new.entries).count() - history(&old.entries).count();
        let of = |conversation| {
            let is_whole = true;
            summary(&Glance {
                conversation,
                is_whole,
                end: None,
            })
        };
        let (old, new) = (of(old)?, of(new)?);
        let before = so_far.summary;
        let is_titled = new.title != old.title;
        let titled = if is_titled { &new } else { &before };
        let cost = if new.activity.cost == old.activity.cost {
            before.activity.cost.clone()
        } else {
            let [sum, more, less] =
                [&before, &new, &old].map(|part| amount(part.activity.cost.as_deref()));
            let cost = serde_json::json!({ "amount": sum + more - less, "currency": "USD" });
            Some(cost.to_string())
        };
        let mut summary = Summary {
            title: titled.title.clone(),
            is_title_set: titled.is_title_set,
            made: before.made.clone(),
            created_at: before.created_at,
            prompts: before.prompts + new.prompts - old.prompts,
            branch: new.branch.clone().or(before.branch),
            ..new.clone()
        };
        summary.activity.cost = cost;
        summary.activity.model = new.activity.model.or(before.activity.model);
        let so_far = ReadSoFar {
            end,
            records,
            unnamed,
            summary: summary.clone(),
        };
        Some((summary, so_far))
    }
}

fn amount(cost: Option<&str>) -> f64 {
    let cost = cost.map(serde_json::from_str::<Value>);
    cost.and_then(Result::ok)
        .and_then(|cost| cost["amount"].as_f64())
        .unwrap_or(0.0)
}

fn part(file: &mut File, from: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.seek(SeekFrom::Start(from))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The beginning of a file and the last lines before a place, so many that a turn begins in them, and what
/// they are read as; none if that would be all of it.
fn before(
    file: &mut File,
    end: u64,
    read: impl Fn(&[u8]) -> ToolConversation,
) -> io::Result<Option<(Vec<u8>, ToolConversation)>> {
    for head in HEADS.into_iter().filter(|head| head + BEFORE[0] < end) {
        let mut bytes = part(file, 0, head)?;
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1));
        let first = prompts(&read(&bytes));
        if first == 0 {
            continue;
        }
        for before in BEFORE.into_iter().filter(|before| head + before < end) {
            let last = part(file, end - before, before)?;
            let line = memchr::memchr(b'\n', &last).map_or(last.len(), |at| at + 1);
            let both = [&bytes, &last[line..]].concat();
            let conversation = read(&both);
            if prompts(&conversation) > first {
                return Ok(Some((both, conversation)));
            }
        }
        break;
    }
    Ok(None)
}

fn prompts(conversation: &ToolConversation) -> usize {
    let entries = conversation.entries.iter();
    entries.filter(|entry| entry.kind == Kind::Prompt).count()
}

/// The text of the last pieces as it is now; none if the last turn is not the one that the index has.
fn text(
    old: &ToolConversation,
    new: &ToolConversation,
    so_far: &ReadSoFar,
    kept: &KeptText,
) -> Option<Vec<Vec<Passage>>> {
    let [before, now] = [old, new].map(|read| history(&read.entries).collect::<Vec<_>>());
    let first = so_far.records.checked_sub(before.len())?;
    let unnamed = so_far.unnamed.checked_sub(old.unnamed)?;
    let turn = before
        .iter()
        .rposition(|entry| entry.kind == Kind::Prompt)?;
    let pairs = before.iter().zip(&now);
    let common = pairs.take_while(|(before, now)| before == now).count();
    // What ends a conversation for the time being.
    let mut rest = before.get(common..)?.iter();
    let is_end = |entry: &&NewRecord| entry.kind == Kind::End || entry.is_missing_result();
    if common <= turn || !rest.all(is_end) {
        return None;
    }
    let numbered = |entries: Vec<_>| (first as u64..).zip(entries).skip(turn);
    let is_title = |passage: &mut Passage| passage.field == Field::Title;
    let mut all = kept.pieces.clone();
    let title = all.last_mut()?.extract_if(.., is_title).last();
    let of_turn = pieces(SearchText::default(), numbered(before), false, usize::MAX);
    let mut of_turn: Vec<Passage> = of_turn.into_iter().flatten().collect();
    for passage in &mut of_turn {
        shift(passage, unnamed);
    }
    let known = all.iter().map(Vec::len).sum::<usize>();
    let mut start = known.checked_sub(of_turn.len())?;
    if !all.iter().flatten().skip(start).eq(&of_turn) {
        return None;
    }
    // The pieces that the turn is not in stay; the text before it in its own one goes on.
    let mut all = all.into_iter();
    let mut text = Vec::new();
    let mut open = all.next()?;
    while start >= open.len()
        && let Some(next) = all.next()
    {
        start -= open.len();
        text.push(std::mem::replace(&mut open, next));
    }
    open.truncate(start);
    let from = (first + turn) as u64;
    text.append(&mut pieces(
        SearchText::after(open),
        numbered(now),
        false,
        PIECE,
    ));
    let added = text.iter_mut().flatten();
    for passage in added.filter(|passage| passage.offset >= from) {
        shift(passage, unnamed);
    }
    let end = (first + new.entries.len()) as u64;
    let snapshots = new.entries.iter().filter(|entry| entry.kind == Kind::Info);
    let snapshots = snapshots.map(|entry| (end, entry));
    let titles = pieces(SearchText::default(), snapshots, false, usize::MAX);
    let given = titles.into_iter().flatten().last();
    text.last_mut()?.extend(given.or(title));
    Some(text)
}

/// Gives a message without an id of its own its number in the whole conversation.
fn shift(passage: &mut Passage, by: usize) {
    let id = passage
        .id
        .as_deref()
        .and_then(|id| id.strip_prefix(UNNAMED));
    if let Some(number) = id.and_then(|number| number.parse::<usize>().ok()) {
        passage.id = Some(format!("{UNNAMED}{}", number + by));
    }
}
