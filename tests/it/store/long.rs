//! Stretches of a file that are far longer than any line.

use rejoin::record::Kind;
use rejoin::store::{DamageReason, StoreError, Sync, Torn};

use super::support::*;

const MIB: usize = 1024 * 1024;

fn update(seq: u64, len: usize) -> Vec<u8> {
    line(seq, Kind::Unknown, &format!("\"{}\"", "x".repeat(len)))
}

/// The sequence numbers that come back; offset, length and reason of each report; what is torn.
type Found = (Vec<u64>, Vec<(u64, u64, DamageReason)>, Option<Torn>);

fn seqs(content: &[u8]) -> Found {
    let (_disk, store) = store_of(content);
    let mut reader = store.read(&id()).unwrap();
    let seqs = rest(&mut reader).iter().map(|record| record.seq).collect();
    let damage = reader.damage().iter();
    let damage = damage.map(|report| (report.offset, report.len, report.reason));
    (seqs, damage.collect(), reader.torn())
}

#[test]
fn records_on_both_sides_of_long_damage_come_back() {
    let (head, before, behind) = (sample()[0].clone(), update(1, 5), update(2, 5));
    let start = (head.len() + before.len()) as u64;
    let long = 9 * MIB;
    for (byte, reason) in [
        (0, DamageReason::Nul),
        (b'x', DamageReason::NotARecord),
        (0xff, DamageReason::InvalidUtf8),
    ] {
        let damage = vec![byte; long];
        let lines = [&head[..], &before, &damage, b"\n", &behind].concat();
        assert_eq!(
            seqs(&lines),
            (vec![0, 1, 2], vec![(start, long as u64 + 1, reason)], None)
        );
        let glued = [&head[..], &before, &damage, &behind].concat();
        let damaged = vec![(start, long as u64, reason)];
        assert_eq!(seqs(&glued), (vec![0, 1, 2], damaged, None));
        if byte != 0 {
            continue;
        }
        // The line break before it is damaged, too.
        let cut = before.strip_suffix(b"\n").unwrap();
        for (before, after, from) in [(cut, &b"\n"[..], start - 1), (cut, b"", start - 1)] {
            let glued = [&head[..], before, &damage, after, &behind].concat();
            let len = (long + after.len()) as u64;
            assert_eq!(
                seqs(&glued),
                (vec![0, 1, 2], vec![(from, len, reason)], None),
                "{reason}"
            );
        }
    }
}

#[test]
fn a_long_record_behind_nul_bytes_comes_back() {
    let head = sample()[0].clone();
    for (nuls, len) in [(1, 3 * MIB), (5 * MIB, 3 * MIB), (MIB - 1, MIB + 1)] {
        let content = [&head[..], &vec![0; nuls], &update(1, len), &update(2, 5)].concat();
        let damage = vec![(head.len() as u64, nuls as u64, DamageReason::Nul)];
        assert_eq!(seqs(&content), (vec![0, 1, 2], damage, None));
    }
}

#[test]
fn a_long_torn_end_is_cut_off_and_kept() {
    let whole = sample().concat();
    for (end, reason) in [
        ([&b"{\"crc\":\"12"[..], &vec![0; 5 * MIB]].concat(), None),
        (vec![0; 5 * MIB], Some(DamageReason::Nul)),
        (vec![b'x'; 5 * MIB], Some(DamageReason::NotARecord)),
    ] {
        let content = [&whole[..], &end].concat();
        let torn = Torn {
            offset: whole.len() as u64,
            len: end.len() as u64,
        };
        let (found, damage, found_torn) = seqs(&content);
        assert_eq!((found.len(), found_torn), (9, Some(torn)));
        let reported: Vec<_> = damage.iter().map(|report| report.2).collect();
        assert!(reported.len() <= 1 && (reason.is_none() || reported == Vec::from_iter(reason)));
        assert!(
            damage
                .iter()
                .all(|report| (report.0, report.1) == (torn.offset, torn.len))
        );

        let (disk, store) = store_of(&content);
        let mut opened = store.open_log(&id()).unwrap();
        add(&mut opened.log, Kind::Prompt, PROMPT).unwrap();
        assert_eq!(&bytes(&disk)[..whole.len()], whole);
        let aside: Vec<_> = trash(&disk).into_iter().map(|(_, bytes)| bytes).collect();
        assert!(aside == [end], "not a byte is thrown away");
    }
}

#[test]
fn a_record_that_nul_bytes_follow_is_whole() {
    let whole = sample().concat();
    for nuls in [1, 100, 5 * MIB] {
        let cut = whole.strip_suffix(b"\n").unwrap();
        let content = [cut, &vec![0; nuls]].concat();
        let (found, _, torn) = seqs(&content);
        let torn = torn.unwrap();
        assert_eq!((found.len(), torn.offset), (9, cut.len() as u64), "{nuls}");
        assert_eq!(torn.len, nuls as u64);
        let (disk, store) = store_of(&content);
        let mut opened = store.open_log(&id()).unwrap();
        add(&mut opened.log, Kind::Prompt, PROMPT).unwrap();
        assert!(bytes(&disk).starts_with(&whole), "its line break came back");
        assert_eq!(read(&store).len(), 12);
    }
}

#[test]
fn overlong_record_is_not_written() {
    let (disk, store) = store_of(&sample().concat());
    let mut opened = store.open_log(&id()).unwrap();
    let before = bytes(&disk);
    let payload = "1".repeat(rejoin::record::line::LONGEST);
    let refused = opened
        .log
        .append(Kind::Update, None, &payload, Sync::Buffered);
    assert!(matches!(refused, Err(StoreError::TooLong { .. })));
    assert_eq!(bytes(&disk), before);
    add(&mut opened.log, Kind::Update, CHUNK).unwrap();
}
