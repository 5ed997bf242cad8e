//! The bytes of one record: a fixed envelope, a checksum, the payload verbatim.
//!
//! ```text
//! {"crc":"1c291ca3","seq":7,"at":"2026-11-21T08:30:00.123Z","kind":"update","payload":{…}}
//! {"crc":"…","seq":8,"at":"…","kind":"prompt","id":"msg_…","payload":{…}}
//! ```
//! The checksum is CRC-32 (IEEE) of everything after it: from the quote of `"seq"` to the closing
//! brace. The members are in this order with no spaces between them, and the payload is last, so it
//! can be cut out without parsing.

use crate::protocol::UpdateParts;
use crate::sys::Timestamp;

use super::Kind;

/// The beginning of each record's line.
pub const OPEN: &[u8] = b"{\"crc\":\"";
const CRC_LEN: usize = 8;
/// Where the checksummed part of a line begins.
pub const BODY: usize = OPEN.len() + CRC_LEN + 2;
/// A pattern of a time: zeros for digits, and the separators.
const AT: &[u8] = b"0000-00-00T00:00:00.000Z";
const AT_LEN: usize = AT.len();
/// The longest valid line of a record, in bytes, without its newline. A longer one is damage.
pub const LONGEST: usize = 256 * 1024 * 1024;
/// Upper bound for everything in a record's line but its payload and its id, in bytes.
pub const AROUND: usize = 1024;

/// A record, borrowed from its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Position in the log: 0 for the header, then one more for each record.
    pub seq: u64,
    /// When it was written, in the form of [`Timestamp`]'s `Display`.
    pub at: &'a str,
    /// The kind of record.
    pub kind: Kind,
    /// The message id of a prompt, or the request's id of an ask or answer.
    pub id: Option<&'a str>,
    /// JSON text, exactly as it was given to [`encode`].
    pub payload: &'a str,
    /// The parts that the check of its payload found, if it is an update.
    pub parts: Option<UpdateParts>,
}

#[cfg(test)]
impl<'a> Record<'a> {
    /// A record for a test that depends neither on its number nor on its time.
    pub(crate) fn sample(kind: Kind, id: Option<&'a str>, payload: &'a str) -> Self {
        Self {
            seq: 0,
            at: "",
            kind,
            id,
            payload,
            parts: None,
        }
    }
}

/// Why a line is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The line does not begin like a record.
    #[error("not a record")]
    NotARecord,
    /// The line's checksum does not match its content.
    #[error("checksum mismatch")]
    Checksum,
    /// The checksum fits, but the envelope cannot be read.
    #[error("unreadable envelope")]
    Envelope,
}

/// Appends the line of a record to `out`, with its newline.
///
/// `payload` must be one JSON value without line breaks; `id` must need no escaping.
pub fn encode(
    out: &mut Vec<u8>,
    seq: u64,
    at: Timestamp,
    kind: Kind,
    id: Option<&str>,
    payload: &str,
) {
    encode_at(out, seq, &at.to_string(), kind, id, payload);
}

/// Appends the line of a record to `out`, with its newline, like [`encode`], where the time is text
/// in the form of [`Timestamp`]'s `Display`: it is formatted only once for many records with the
/// same time.
pub fn encode_at(
    out: &mut Vec<u8>,
    seq: u64,
    at: &str,
    kind: Kind,
    id: Option<&str>,
    payload: &str,
) {
    debug_assert!(!payload.contains(['\n', '\r']), "a payload is one line");
    let start = out.len();
    out.reserve(payload.len() + 128);
    out.extend_from_slice(OPEN);
    out.extend_from_slice(b"00000000\",\"seq\":");
    out.extend_from_slice(seq.to_string().as_bytes());
    out.extend_from_slice(b",\"at\":\"");
    out.extend_from_slice(at.as_bytes());
    out.extend_from_slice(b"\",\"kind\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(b"\",\"id\":\"");
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(b"\",\"payload\":");
    out.extend_from_slice(payload.as_bytes());
    out.push(b'}');
    let crc = hex(crc32fast::hash(&out[start + BODY..]));
    out[start + OPEN.len()..start + OPEN.len() + CRC_LEN].copy_from_slice(&crc);
    out.push(b'\n');
}

/// The checksum in the line of a record, if the record is as it was written.
pub fn checksum(record: &Record<'_>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let seq = record.seq.to_string();
    let parts = ["\"seq\":", &seq, ",\"at\":\"", record.at];
    let kind = ["\",\"kind\":\"", record.kind.as_str()];
    let id = record.id.map_or([""; 2], |id| ["\",\"id\":\"", id]);
    let payload = ["\",\"payload\":", record.payload, "}"];
    let all = parts.iter().chain(&kind).chain(&id).chain(&payload);
    all.for_each(|part| hasher.update(part.as_bytes()));
    hasher.finalize()
}

/// Parses a line without its newline.
pub fn decode(line: &[u8]) -> Result<Record<'_>, Damage> {
    let layout = RecordLayout::of(line)?;
    layout.record(line).ok_or(Damage::Envelope)
}

/// Where the parts of a record are in its line: everything needed to get the record again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// The record's position in the log.
    pub seq: u64,
    /// The kind of record.
    pub kind: Kind,
    at: usize,
    /// The start and end of the id.
    id: Option<(usize, usize)>,
    payload: usize,
}

impl RecordLayout {
    /// Checks a line without its newline.
    pub fn of(line: &[u8]) -> Result<Self, Damage> {
        let layout = Self::of_bytes(line)?;
        let text = simdutf8::basic::from_utf8(&line[BODY..]);
        text.map(|_| layout).map_err(|_| Damage::Envelope)
    }

    /// Checks a line without its newline, which may not be UTF-8: [`record`](Self::record) checks
    /// what it returns.
    pub fn of_bytes(line: &[u8]) -> Result<Self, Damage> {
        if line.len() <= BODY || !line.starts_with(OPEN) || &line[BODY - 2..BODY] != b"\"," {
            return Err(Damage::NotARecord);
        }
        if !has_checksum(line, crc32fast::hash(&line[BODY..])) {
            return Err(Damage::Checksum);
        }
        // `encode` wrote whatever passed the checksum, unless it was forged.
        Self::read(line).ok_or(Damage::Envelope)
    }

    fn read(line: &[u8]) -> Option<Self> {
        let skip = |from: usize, text: &[u8]| {
            let behind = line.get(from..)?.strip_prefix(text)?;
            Some(line.len() - behind.len())
        };
        let until_quote = |from: usize| Some(from + memchr::memchr(b'"', line.get(from..)?)?);

        let mut from = skip(BODY, b"\"seq\":")?;
        let digits = from;
        let mut seq = 0_u64;
        while let Some(digit @ b'0'..=b'9') = line.get(from) {
            seq = seq.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            from += 1;
        }
        let at = (from > digits).then(|| skip(from, b",\"at\":\""))??;
        let time = line.get(at..at + AT_LEN)?;
        let is_wrong = |(byte, place): (&u8, &u8)| {
            let range = if *place == b'0' { 9 } else { 0 };
            byte.wrapping_sub(*place) > range
        };
        // All bytes are compared, without branches, so that the compiler can vectorize it.
        if time
            .iter()
            .zip(AT)
            .fold(false, |any, pair| any | is_wrong(pair))
        {
            return None;
        }
        let kind = skip(at + AT_LEN, b"\",\"kind\":\"")?;
        let mut end = until_quote(kind)?;
        let kind = Kind::parse(&line[kind..end]);
        let mut id = None;
        if let Some(start) = skip(end, b"\",\"id\":\"") {
            end = until_quote(start)?;
            // The id is written between quotes without escaping.
            let text = line.get(start..end)?;
            if text
                .iter()
                .any(|byte| byte.is_ascii_control() || *byte == b'\\')
            {
                return None;
            }
            id = Some((start, end));
        }
        let payload = skip(end, b"\",\"payload\":")?;
        let whole = line.ends_with(b"}") && payload + 1 < line.len();
        whole.then_some(Self {
            seq,
            kind,
            at,
            id,
            payload,
        })
    }

    /// The record in the line of this layout. May return `None` for another line.
    pub fn record<'a>(&self, line: &'a [u8]) -> Option<Record<'a>> {
        let rest = line.get(self.at..line.len().checked_sub(1)?)?;
        // Checked once as a whole: it costs as much for the time alone as for a short payload.
        let rest = simdutf8::basic::from_utf8(rest).ok()?;
        let text = |from: usize, to: usize| rest.get(from - self.at..to - self.at);
        let id = match self.id {
            Some((from, to)) => Some(text(from, to)?),
            None => None,
        };
        Some(Record {
            seq: self.seq,
            at: text(self.at, self.at + AT_LEN)?,
            kind: self.kind,
            id,
            payload: rest.get(self.payload - self.at..)?,
            parts: None,
        })
    }
}

/// Whether a line has `crc` as its checksum.
pub fn has_checksum(line: &[u8], crc: u32) -> bool {
    line.get(OPEN.len()..OPEN.len() + CRC_LEN) == Some(&hex(crc))
}

/// What comes before the format's version, one digit, in the payload of a header.
const FORMAT_BEFORE: &[u8] = b",\"payload\":{\"format\":";

/// The place of the format's version in the line of a header.
fn format_at(line: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(line, FORMAT_BEFORE)? + FORMAT_BEFORE.len();
    let is_digit = |at: usize| line.get(at).is_some_and(u8::is_ascii_digit);
    (is_digit(at) && !is_digit(at + 1)).then_some(at)
}

/// The beginning of the line of a header, up to the format's version, with another version and the
/// checksum that the line then has: it takes the place of as many bytes. `None` if the line is not that of
/// a header.
pub fn with_format(line: &[u8], format: u32) -> Option<Vec<u8>> {
    let at = format_at(line)?;
    let mut marked = line.to_vec();
    marked[at] = u8::try_from(char::from_digit(format, 10)?).ok()?;
    let crc = hex(crc32fast::hash(&marked[BODY..]));
    marked[OPEN.len()..OPEN.len() + CRC_LEN].copy_from_slice(&crc);
    marked.truncate(at + 1);
    Some(marked)
}

/// Repairs the line of a header of which the format's version and the checksum do not fit, since a crash
/// came while both were written: the checksum says what the version is, or was. Returns whether it did.
pub fn repair_format(line: &mut [u8]) -> bool {
    let Some(at) = format_at(line) else {
        return false;
    };
    let found = line[at];
    for version in b'1'..=b'9' {
        line[at] = version;
        if has_checksum(line, crc32fast::hash(&line[BODY..])) {
            return true;
        }
    }
    line[at] = found;
    false
}

/// Whether a line, perhaps damaged or truncated, begins like a record.
pub fn looks_like_record(line: &[u8]) -> bool {
    line.starts_with(OPEN)
}

/// A checksum in the digits of a line.
pub(super) fn hex(crc: u32) -> [u8; CRC_LEN] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|i| DIGITS[(crc >> (28 - 4 * i)) as usize & 15])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, kind: Kind, id: Option<&str>, payload: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode(
            &mut out,
            seq,
            Timestamp::from_millis(1_795_250_000_123),
            kind,
            id,
            payload,
        );
        out
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let payload = r#"{"n":1e400,"n":-0,"t":"\u0000\ud83d \" }\u2028"}"#;
        for (kind, id) in [(Kind::Update, None), (Kind::Prompt, Some("msg_1"))] {
            let bytes = line(18_446_744_073_709_551_615, kind, id, payload);
            let record = decode(bytes.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(record.seq, u64::MAX);
            assert_eq!(record.at, "2026-11-21T08:33:20.123Z");
            assert_eq!(
                (record.kind, record.id, record.payload),
                (kind, id, payload)
            );
            assert!(has_checksum(&bytes, checksum(&record)));
        }
    }

    #[test]
    fn a_line_is_plain_json() {
        let bytes = line(3, Kind::End, None, r#"{"stopReason":"end_turn"}"#);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["payload"]["stopReason"], "end_turn");
        assert_eq!(value["seq"], 3);
    }

    #[test]
    fn times_and_ids_can_stand_between_quotes() {
        let forged = |at: &str, id: &str| {
            let mut out = Vec::new();
            encode_at(&mut out, 3, at, Kind::Prompt, Some(id), "{}");
            out.pop();
            decode(&out).map(|record| record.id.map(str::to_owned))
        };
        let at = "2026-11-21T08:33:20.123Z";
        for id in ["msg_1", "é", ""] {
            assert_eq!(forged(at, id), Ok(Some(id.to_owned())));
        }
        for id in ["a\\", "a\\u0041", "a\u{1}", "a\r"] {
            assert_eq!(forged(at, id), Err(Damage::Envelope), "{id:?}");
        }
        for at in [
            "2026-11-21T08:33:20.123z",
            "2026-11-21 08:33:20.123Z",
            "2026-11-21T08:33:20\u{1}123Z",
            "2026-11-21T08:33:20.12\rZ",
            "+026-11-21T08:33:20.123Z",
        ] {
            assert_eq!(forged(at, "m"), Err(Damage::Envelope), "{at:?}");
        }
    }

    #[test]
    fn a_header_gets_another_format_in_place() {
        let header = |format: u32| {
            line(
                0,
                Kind::Session,
                None,
                &format!(r#"{{"format":{format},"cwd":"/"}}"#),
            )
        };
        let (old, new) = (header(1), header(3));
        let mut marked = old.clone();
        let head = with_format(old.strip_suffix(b"\n").unwrap(), 3).unwrap();
        marked[..head.len()].copy_from_slice(&head);
        assert_eq!(marked, new);
        assert_eq!(with_format(&line(0, Kind::Info, None, "{}"), 3), None);

        // A crash left the new checksum with the old version, or the other way round.
        let crc = OPEN.len()..OPEN.len() + CRC_LEN;
        for (body, checksum) in [(&old, &new), (&new, &old)] {
            let mut torn = body.strip_suffix(b"\n").unwrap().to_vec();
            torn[crc.clone()].copy_from_slice(&checksum[crc.clone()]);
            assert!(decode(&torn).is_err());
            assert!(repair_format(&mut torn));
            assert_eq!(Some(&*torn), checksum.strip_suffix(b"\n"));
            torn[40] ^= 1;
            assert!(!repair_format(&mut torn));
        }
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let bytes = line(3, Kind::Prompt, Some("msg_1"), r#"{"prompt":[]}"#);
        let whole = bytes.strip_suffix(b"\n").unwrap();
        for at in 0..whole.len() {
            for flip in [1, 0x20, 0x80, 0xff] {
                let mut bad = whole.to_vec();
                bad[at] ^= flip;
                assert!(decode(&bad).is_err(), "byte {at} ^ {flip}");
            }
            assert!(decode(&whole[..at]).is_err(), "cut at {at}");
        }
    }
}
