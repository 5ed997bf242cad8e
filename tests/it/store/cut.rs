//! A file that ends anywhere, as a crash in the middle of a write leaves it.

use rejoin::record::Kind;
use rejoin::store::StoreError;

use super::support::*;

#[test]
fn cut_at_any_byte_keeps_whole_records() {
    let lines = sample();
    let whole = lines.concat();
    let records = sample_records();
    for cut in 0..=whole.len() {
        check(&lines, &whole, &records, cut);
    }
}

fn check(lines: &[Vec<u8>], whole: &[u8], records: &[Owned], cut: usize) {
    let (disk, store) = store_of(&whole[..cut]);
    if cut < lines[0].len() - 1 {
        let refused = store.open_log(&id()).unwrap_err();
        assert!(matches!(refused, StoreError::Headerless { .. }), "{cut}");
        let refused = store.read(&id()).unwrap_err();
        assert!(matches!(refused, StoreError::Headerless { .. }), "{cut}");
        assert_eq!(bytes(&disk), &whole[..cut]);
        assert_eq!(trash(&disk), []);
        return;
    }
    // A record is whole with its closing brace; its line break may be missing.
    let ends = lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    });
    let complete = ends.clone().filter(|end| end - 1 <= cut).count();
    let end = ends.clone().rfind_whole(cut);

    assert_eq!(read(&store), records[..complete], "a reader at {cut}");
    assert_eq!(bytes(&disk), &whole[..cut], "a reader changes nothing");

    let opened = store.open_log(&id()).unwrap();
    assert!(opened.scan.damage.is_empty(), "{cut}: {:?}", opened.scan);
    assert!(!opened.scan.turn_open());
    drop(opened.log);
    let after = read(&store);
    assert_eq!(after[..complete], records[..complete], "{cut}");
    assert_eq!(kinds(&after[complete..]), closing(complete), "{cut}");
    let recovered = bytes(&disk);
    assert_eq!(recovered[..end], whole[..end]);
    let aside = trash(&disk);
    if end < cut {
        assert_eq!(aside.len(), 1, "{cut}");
        assert!(aside[0].0.starts_with(&format!("{}.torn-{end}-", id())));
        assert_eq!(aside[0].1, whole[end..cut]);
        assert!(opened.kept_aside.unwrap().ends_with(&aside[0].0));
    } else {
        assert_eq!(aside, []);
        assert_eq!(opened.kept_aside, None);
    }

    let mut again = store.open_log(&id()).unwrap();
    // A missing line break is all that may be left to add.
    assert_eq!(bytes(&disk), recovered, "recovering twice at {cut}");
    assert_eq!(trash(&disk), aside);
    assert_eq!(again.scan.next_seq, after.len() as u64);
    assert_eq!(again.scan.records, after.len() as u64);
    assert_eq!(again.scan.end, again.log.end());
    add(&mut again.log, Kind::Prompt, PROMPT).unwrap();
    drop(again.log);
    let mut reader = store.read(&id()).unwrap();
    let last = rest(&mut reader).pop().unwrap();
    assert_eq!((last.seq, last.kind), (after.len() as u64, Kind::Prompt));
    assert!(reader.damage().is_empty(), "{cut}");
    assert_eq!(reader.torn(), None);
}

/// What recovery adds to the first so many records of the sample.
fn closing(complete: usize) -> &'static [Kind] {
    match complete {
        4 | 8.. => &[Kind::Update, Kind::End],
        2..=5 | 7 => &[Kind::End],
        _ => &[],
    }
}

trait RfindWhole {
    /// The end of the last whole record, with its line break as far as it is there.
    fn rfind_whole(self, cut: usize) -> usize;
}

impl<I: Iterator<Item = usize>> RfindWhole for I {
    fn rfind_whole(self, cut: usize) -> usize {
        self.filter(|end| end - 1 <= cut).last().unwrap().min(cut)
    }
}
