//! Damage in the middle of a file, one kind after the other.

use proptest::prelude::*;
use rejoin::record::Kind;
use rejoin::store::{DamageReason, DamageReport};

use super::support::*;

/// The sequence numbers that come back, and the reports.
fn read_all(content: &[u8]) -> (Vec<u64>, Vec<DamageReport>) {
    let (disk, store) = store_of(content);
    let mut reader = store.read(&id()).unwrap();
    let seqs = rest(&mut reader).iter().map(|record| record.seq).collect();
    let damage = reader.damage().to_owned();
    let scan = reader.scan().unwrap();
    assert_eq!(scan.damage, damage, "a scan reports the same");
    assert_eq!(bytes(&disk), content);
    (seqs, damage)
}

/// The sequence numbers of the sample.
fn all() -> Vec<u64> {
    (0..9).collect()
}

/// Puts `bytes` between the third and fourth line of the sample; returns the one report's parts.
fn inserted(bytes: &[u8]) -> (u64, u64, u64, u64, DamageReason) {
    let mut lines = sample();
    let at = lines[..3].concat().len() as u64;
    lines.insert(3, bytes.to_owned());
    let (seqs, damage) = read_all(&lines.concat());
    assert_eq!(seqs, all(), "all records come back");
    assert_eq!(damage.len(), 1, "{damage:?}");
    let report = &damage[0];
    let (line, lines) = (report.line, report.lines);
    (line, report.offset - at, report.len, lines, report.reason)
}

#[test]
fn foreign_lines_are_skipped() {
    assert_eq!(inserted(b"hello\n"), (4, 0, 6, 1, DamageReason::NotARecord));
    assert_eq!(
        inserted(b"{}\n[]\n\"\"\n"),
        (4, 0, 9, 3, DamageReason::NotARecord)
    );
    assert_eq!(inserted(b"\n\n"), (4, 0, 2, 2, DamageReason::Blank));
    assert_eq!(
        inserted(b"\xff\xfe\n"),
        (4, 0, 3, 1, DamageReason::InvalidUtf8)
    );
    assert_eq!(inserted(b"\0\0\0\n"), (4, 0, 4, 1, DamageReason::Nul));
    assert_eq!(
        inserted(b"{\"crc\":\"\n"),
        (4, 0, 9, 1, DamageReason::NotARecord)
    );
    let mut forged = line(3, Kind::Update, CHUNK);
    forged[40] = b'x';
    let len = forged.len() as u64;
    assert_eq!(inserted(&forged), (4, 0, len, 1, DamageReason::Checksum));
    // With no line break of its own: the record behind it comes back too.
    assert_eq!(inserted(&[0; 4096]), (4, 0, 4096, 1, DamageReason::Nul));
    assert_eq!(inserted(b"torn"), (4, 0, 4, 1, DamageReason::NotARecord));
    let half = &line(3, Kind::Update, CHUNK)[..60];
    assert_eq!(inserted(half), (4, 0, 60, 1, DamageReason::Checksum));
}

#[test]
fn damaged_payload_has_a_reason() {
    for (byte, reason) in [
        (b'?', DamageReason::Checksum),
        (0, DamageReason::Nul),
        (0xff, DamageReason::InvalidUtf8),
    ] {
        let mut lines = sample();
        lines[2][100] = byte;
        let (seqs, damage) = read_all(&lines.concat());
        assert_eq!(seqs, [0, 1, 3, 4, 5, 6, 7, 8]);
        assert_eq!(damage.len(), 1);
        assert_eq!((damage[0].line, damage[0].reason), (3, reason));
        assert_eq!(damage[0].len, lines[2].len() as u64);
        let offset = lines[..2].concat().len();
        let text = format!("line 3, byte {offset}: {} bytes: {reason}", lines[2].len());
        assert_eq!(damage[0].to_string(), text);
    }
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_tolerated() {
    let text = String::from_utf8(sample().concat()).unwrap();
    let crlf = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let (seqs, damage) = read_all(crlf.as_bytes());
    assert_eq!(seqs, all());
    let found: Vec<_> = damage
        .iter()
        .map(|report| (report.line, report.offset, report.lines, report.reason))
        .collect();
    assert_eq!(
        found,
        [
            (1, 0, 1, DamageReason::ByteOrderMark),
            (1, 3, 9, DamageReason::CarriageReturn)
        ]
    );
    assert!(damage.iter().all(|report| !report.reason.is_loss()));
}

#[test]
fn lost_line_breaks_lose_no_record() {
    let lines = sample();
    for glue in [&b""[..], b" ", b"\0"] {
        let cut = |i: usize| lines[i].strip_suffix(b"\n").unwrap();
        let glued = [cut(0), cut(1), cut(2), cut(3)].join(glue);
        let rest = lines[4..].concat();
        let (seqs, damage) = read_all(&[&glued[..], b"\n", &rest].concat());
        assert_eq!(seqs, all(), "{glue:?}");
        let reasons: Vec<_> = damage.iter().map(|report| report.reason).collect();
        assert_eq!(reasons, [DamageReason::LineBreak; 3], "{damage:?}");
        assert!(damage.iter().all(|report| report.line == 1));
    }
}

#[test]
fn missing_and_repeated_records_are_reported() {
    let lines = sample();
    let gap = [&lines[..3], &lines[5..]].concat().concat();
    let (seqs, damage) = read_all(&gap);
    assert_eq!(seqs, [0, 1, 2, 5, 6, 7, 8]);
    assert_eq!(damage.len(), 1);
    let offset = lines[..3].concat().len() as u64;
    let reason = DamageReason::Gap {
        expected: 3,
        found: 5,
    };
    let report = &damage[0];
    assert_eq!((report.line, report.offset), (4, offset));
    assert_eq!((report.len, report.reason), (0, reason));

    let repeat = [&lines[..3], &lines[1..]].concat().concat();
    let (seqs, damage) = read_all(&repeat);
    assert_eq!(seqs, [0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    let reason = DamageReason::Repeat {
        expected: 3,
        found: 1,
    };
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].reason, reason);
    let (_disk, store) = store_of(&repeat);
    assert_eq!(store.open_log(&id()).unwrap().scan.next_seq, 11);
}

#[test]
fn record_inside_a_payload_is_not_a_record() {
    let nested = line(40, Kind::Update, CHUNK);
    let nested = std::str::from_utf8(&nested).unwrap().trim_end();
    for payload in [
        nested.to_owned(),
        format!("[{nested},{nested}]"),
        format!(r#"{{"rawInput":{nested}}}"#),
    ] {
        let mut lines = sample();
        lines[2] = line(2, Kind::Unknown, &payload);
        let (seqs, damage) = read_all(&lines.concat());
        assert_eq!(seqs, all(), "an intact line is one record");
        assert_eq!(damage, []);
        // Nor does damage around it make it one, wherever that is.
        for at in 0..lines[2].len() - 1 {
            let mut lines = lines.clone();
            lines[2][at] ^= 0x20;
            let (seqs, _) = read_all(&lines.concat());
            assert_eq!(seqs, [0, 1, 3, 4, 5, 6, 7, 8], "byte {at} of {payload}");
        }
        // Nor at the end of the file, where the line is still being written.
        for cut in 0..lines[2].len() - 1 {
            let begun = [&lines[..2].concat(), &lines[2][..cut]].concat();
            assert_eq!(read_all(&begun).0, [0, 1], "cut at {cut} of {payload}");
        }
    }
}

#[test]
fn record_at_the_end_of_a_payload_is_recognized_by_its_number() {
    let nested = line(1, Kind::Update, CHUNK);
    let mut lines = sample();
    lines[2] = line(
        2,
        Kind::Update,
        std::str::from_utf8(&nested).unwrap().trim_end(),
    );
    let brace = lines[2].len() - 2;
    lines[2][brace] = b'\n';
    let (seqs, damage) = read_all(&lines.concat());
    assert_eq!(seqs, [0, 1, 3, 4, 5, 6, 7, 8]);
    let reasons: Vec<_> = damage.iter().map(|report| report.reason).collect();
    assert_eq!(reasons, [DamageReason::Checksum, DamageReason::Blank]);
}

#[test]
fn the_list_of_reports_is_bounded() {
    let mut content = sample()[0].clone();
    for i in 0..3000 {
        content.extend(if i % 2 == 0 { &b"x\n"[..] } else { b"\n" });
    }
    content.extend(line(1, Kind::Prompt, PROMPT));
    let (seqs, damage) = read_all(&content);
    assert_eq!(seqs, [0, 1]);
    assert_eq!(damage.len(), 1000);
}

#[test]
fn crafted_line_costs_linear_time() {
    let mut evil = br#"{"crc":"00000000","seq":9,"#.repeat(100_000);
    evil.push(b'\n');
    let mut lines = sample();
    lines.insert(3, evil);
    let (seqs, damage) = read_all(&lines.concat());
    assert_eq!(seqs, all());
    assert_eq!(damage.len(), 1);
}

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Blow {
    Flip(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Zero(usize, usize),
    Cut(usize),
}

fn blow() -> impl Strategy<Value = Blow> {
    let at = 0..3000_usize;
    let len = 1..400_usize;
    prop_oneof![
        (at.clone(), 1..=255_u8).prop_map(|(at, mask)| Blow::Flip(at, mask)),
        (at.clone(), len.clone()).prop_map(|(at, len)| Blow::Remove(at, len)),
        (at.clone(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, bytes)| Blow::Insert(at, bytes)),
        (at.clone(), len).prop_map(|(at, len)| Blow::Zero(at, len)),
        at.prop_map(Blow::Cut),
    ]
}

fn strike(content: &mut Vec<u8>, blow: Blow) {
    let range = |at: usize, len: usize| at.min(content.len())..(at + len).min(content.len());
    match blow {
        Blow::Flip(at, mask) => {
            if let Some(byte) = content.get_mut(at) {
                *byte ^= mask;
            }
        }
        Blow::Remove(at, len) => {
            let range = range(at, len);
            content.drain(range);
        }
        Blow::Insert(at, bytes) => {
            let at = at.min(content.len());
            content.splice(at..at, bytes);
        }
        Blow::Zero(at, len) => {
            let range = range(at, len);
            content[range].fill(0);
        }
        Blow::Cut(at) => content.truncate(at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever happens behind the header: what is read was written, in the order in which it
    /// was, and the file takes new records.
    #[test]
    fn damage_makes_up_nothing(blows in prop::collection::vec(blow(), 1..6)) {
        let head = sample()[0].clone();
        let mut tail = sample()[1..].concat();
        for blow in blows {
            strike(&mut tail, blow);
        }
        let content = [head, tail].concat();
        let (disk, store) = store_of(&content);
        let mut reader = store.read(&id()).unwrap();
        let found = rest(&mut reader);
        let mut written = sample_records().into_iter();
        for record in &found {
            prop_assert!(written.any(|other| other == *record), "{record:?}");
        }
        let torn = reader.torn();
        let whole = content.len() - torn.map_or(0, |torn| torn.len as usize);
        let mut opened = store.open_log(&id()).unwrap();
        add(&mut opened.log, Kind::Prompt, PROMPT).unwrap();
        prop_assert_eq!(&bytes(&disk)[..whole], &content[..whole]);
        let after = read(&store);
        prop_assert_eq!(&after[..found.len()], &found[..]);
        prop_assert_eq!(after.last().unwrap().kind, Kind::Prompt);
        let aside: Vec<u8> = trash(&disk).into_iter().flat_map(|(_, bytes)| bytes).collect();
        prop_assert_eq!(&aside[..], &content[whole..]);
    }
}

#[test]
fn payload_of_wrong_shape_is_damage() {
    let closes = format!(r#"{CHUNK}}},"id":77,"method":"fs/write_text_file","params":{{"a":1"#);
    for (kind, payload) in [
        (Kind::Update, closes.as_str()),
        (Kind::Update, r#"{"sessionUpdate":"#),
        (Kind::Update, "[]"),
        (Kind::Update, r#"{"sessionUpdate":7}"#),
        (Kind::Prompt, r#"{"prompt":{}}"#),
        (Kind::Info, r#"{"sessionUpdate":7}"#),
        (Kind::Unknown, "{}}"),
    ] {
        let mut lines = sample();
        lines[2] = line(2, kind, payload);
        let (seqs, damage) = read_all(&lines.concat());
        assert_eq!(seqs, [0, 1, 3, 4, 5, 6, 7, 8], "{payload}");
        let reports: Vec<_> = damage.iter().map(|one| (one.line, one.reason)).collect();
        assert_eq!(reports, [(3, DamageReason::Payload)], "{payload}");

        // At the end of the file, nothing takes its number.
        let head = lines[..3].concat();
        let (disk, store) = store_of(&head);
        let mut opened = store.open_log(&id()).unwrap();
        assert_eq!(
            add(&mut opened.log, Kind::Update, CHUNK).unwrap(),
            opened.scan.next_seq
        );
        assert!(bytes(&disk).starts_with(&head));
        let seqs: Vec<_> = read(&store).iter().map(|record| record.seq).collect();
        assert!(!seqs.contains(&2) && seqs.contains(&3), "{seqs:?}");
    }
}
