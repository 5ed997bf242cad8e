//! A file with one byte that is not as it was written.

use rejoin::record::Kind;
use rejoin::store::{DamageReason, StoreError};

use super::support::*;

#[test]
fn flip_of_any_byte_keeps_other_records() {
    let lines = sample();
    let whole = lines.concat();
    let records = sample_records();
    let mut start = 0;
    for (number, line) in lines.iter().enumerate() {
        for at in start..start + line.len() {
            for mask in [0x01, 0x07, 0x20, 0x71, 0x80, 0xff] {
                check(&whole, &records, number, at, mask);
            }
        }
        start += line.len();
    }
}

fn check(whole: &[u8], records: &[Owned], number: usize, at: usize, mask: u8) {
    let mut damaged = whole.to_owned();
    damaged[at] ^= mask;
    let what = format!("byte {at} of line {} ^ {mask:#x}", number + 1);
    let (disk, store) = store_of(&damaged);
    let line_break = whole[at] == b'\n';
    if number == 0 && !line_break {
        if damaged[at].is_ascii_digit() && whole[..at].ends_with(b"\"format\":") {
            // The checksum says which version it was.
            assert_eq!(rest(&mut store.read(&id()).unwrap()), records, "{what}");
            return;
        }
        for refused in [
            store.read(&id()).map(drop).unwrap_err(),
            store.open_log(&id()).map(drop).unwrap_err(),
        ] {
            // A damaged digit of the version looks like a later version.
            let expected = matches!(
                refused,
                StoreError::Headerless { .. } | StoreError::Newer { .. }
            );
            assert!(expected, "{what}: {refused}");
        }
        assert_eq!(bytes(&disk), damaged, "{what}");
        return;
    }
    let mut reader = store.read(&id()).unwrap();
    let mut left = records.to_owned();
    if !line_break {
        left.remove(number);
    }
    assert_eq!(rest(&mut reader), left, "{what}");
    assert_eq!(bytes(&disk), damaged, "{what}: reading changes nothing");

    let reports = reader.damage();
    let cut_in_two = damaged[at] == b'\n';
    assert_eq!(
        reports.len(),
        1 + usize::from(cut_in_two),
        "{what}: {reports:?}"
    );
    let report = &reports[0];
    let bytes_of_report = report.offset..report.offset + report.len;
    assert_eq!(report.line, number as u64 + 1, "{what}");
    assert!(bytes_of_report.contains(&(at as u64)), "{what}: {report}");
    assert_eq!(
        report.reason == DamageReason::LineBreak,
        line_break,
        "{what}"
    );

    // Writing goes on behind it, and damage inside is left where it is.
    let mut opened = store.open_log(&id()).unwrap();
    add(&mut opened.log, Kind::Prompt, PROMPT).unwrap();
    let inside = if at + 1 == whole.len() {
        at
    } else {
        whole.len()
    };
    assert_eq!(bytes(&disk)[..inside], damaged[..inside], "{what}");
    let after = read(&store);
    assert_eq!(after[..left.len()], left, "{what}");
    assert_eq!(after.last().unwrap().kind, Kind::Prompt, "{what}");
}
