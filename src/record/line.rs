//! The bytes of one record: a fixed envelope, a checksum, the payload verbatim.
//!
//! ```text
//! {"crc":"1c291ca3","seq":7,"at":"2026-11-21T08:30:00.123Z","kind":"update","payload":{…}}
//! {"crc":"…","seq":8,"at":"…","kind":"prompt","id":"msg_…","payload":{…}}
//! ```
//! The checksum is CRC-32 (IEEE) over everything behind it: from the quote of `"seq"` to the
//! closing brace. The members stand in this order with no spaces between them, and the payload is
//! last, so it is cut out without parsing it.

use crate::sys::Timestamp;

use super::Kind;

/// What each record's line begins with.
pub const OPEN: &[u8] = b"{\"crc\":\"";
const CRC_LEN: usize = 8;
/// Where the checksummed part of a line begins.
pub const BODY: usize = OPEN.len() + CRC_LEN + 2;
const AT_LEN: usize = 24;
/// The longest line that is a record, in bytes, without its newline. A longer one is damage.
pub const LONGEST: usize = 256 * 1024 * 1024;
/// All that a record's line has beside its payload and its id takes less than this, in bytes.
pub const AROUND: usize = 1024;

/// One record, borrowed from its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Position in the log: 0 for the header, then one more for each record.
    pub seq: u64,
    /// When it was written, in the form of [`Timestamp`]'s `Display`.
    pub at: &'a str,
    /// What it tells.
    pub kind: Kind,
    /// The message id of a prompt, the request's of an ask or answer.
    pub id: Option<&'a str>,
    /// JSON text, exactly as it was given to [`encode`].
    pub payload: &'a str,
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as a record does.
    #[error("not a record")]
    NotARecord,
    /// Its checksum does not fit its content.
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

/// The same with the time as text, in the form of [`Timestamp`]'s `Display`: where many records
/// have one time, it need not be made for each.
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

/// Reads a line without its newline.
pub fn decode(line: &[u8]) -> Result<Record<'_>, Damage> {
    let layout = Layout::of(line)?;
    layout.record(line).ok_or(Damage::Envelope)
}

/// Where the parts of a record lie in its line: all it takes to have the record again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The record's position in the log.
    pub seq: u64,
    kind: Kind,
    at: usize,
    /// Where the id begins and ends.
    id: Option<(usize, usize)>,
    payload: usize,
}

impl Layout {
    /// Checks a line without its newline.
    pub fn of(line: &[u8]) -> Result<Self, Damage> {
        if line.len() <= BODY || !line.starts_with(OPEN) || &line[BODY - 2..BODY] != b"\"," {
            return Err(Damage::NotARecord);
        }
        if !has_checksum(line, crc32fast::hash(&line[BODY..])) {
            return Err(Damage::Checksum);
        }
        // What passed the checksum was written by `encode`, unless somebody forged it.
        let layout = Self::read(line).ok_or(Damage::Envelope)?;
        let text = std::str::from_utf8(&line[BODY..]);
        text.map(|_| layout).map_err(|_| Damage::Envelope)
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
        let odd = |byte: &u8| u8::from(!byte.is_ascii() || matches!(byte, b'"' | b'\\'));
        // Counted instead of found, so that the processor can look at all of them at once.
        if time.iter().map(odd).sum::<u8>() > 0 || time[AT_LEN - 1] != b'Z' {
            return None;
        }
        let kind = skip(at + AT_LEN, b"\",\"kind\":\"")?;
        let mut end = until_quote(kind)?;
        let kind = Kind::parse(&line[kind..end]);
        let mut id = None;
        if let Some(start) = skip(end, b"\",\"id\":\"") {
            end = until_quote(start)?;
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

    /// The record in the line that this is the layout of; in another one perhaps none.
    pub fn record<'a>(&self, line: &'a [u8]) -> Option<Record<'a>> {
        let text = |from: usize, to: usize| std::str::from_utf8(line.get(from..to)?).ok();
        let id = match self.id {
            Some((from, to)) => Some(text(from, to)?),
            None => None,
        };
        Some(Record {
            seq: self.seq,
            at: text(self.at, self.at + AT_LEN)?,
            kind: self.kind,
            id,
            payload: text(self.payload, line.len().checked_sub(1)?)?,
        })
    }
}

/// Whether a line names `crc` as its checksum.
pub fn has_checksum(line: &[u8], crc: u32) -> bool {
    line.get(OPEN.len()..OPEN.len() + CRC_LEN) == Some(&hex(crc))
}

/// Whether a line, perhaps damaged or cut short, begins as a record does.
pub fn looks_like_record(line: &[u8]) -> bool {
    line.starts_with(OPEN)
}

fn hex(crc: u32) -> [u8; CRC_LEN] {
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
