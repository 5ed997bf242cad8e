//! Tests of lines that are longer than memory should have to hold.

use super::*;

/// A file that is made up as it is read: a few stretches of one byte each.
#[derive(Debug)]
struct Made(Vec<(u8, u64)>);

impl Image for Made {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut start = 0;
        for (byte, len) in &self.0 {
            let end = start + len;
            if offset < end {
                let len = usize::try_from(end - offset)
                    .map_or(buffer.len(), |left| left.min(buffer.len()));
                buffer[..len].fill(*byte);
                return Ok(len);
            }
            start = end;
        }
        Ok(0)
    }

    fn path(&self) -> &std::path::Path {
        std::path::Path::new("made")
    }
}

/// Far more than is to be held, and little enough to be read in no time.
const LONG: u64 = 1 << 26;

#[test]
fn what_can_be_no_record_is_not_held() {
    for middle in [0, b'x', 0xff, 0x80] {
        let file = Made(vec![
            (b'a', 10),
            (middle, LONG),
            (b'b', 20),
            (b'\n', 1),
            (b'c', 5),
            (b'\n', 1),
        ]);
        let mut lines = LineBuffer::new();
        let long = lines.next(&file).unwrap().unwrap();
        assert_eq!((long.offset, long.ended), (0, true));
        assert_eq!(long.offset_of(long.len), LONG + 30);
        assert!(long.len < 4 * KEPT, "{}", long.len);
        let bytes = lines.bytes(&long);
        assert!(bytes.starts_with(b"aaaaaaaaaa") && bytes.ends_with(&[b'b'; 20]));
        assert!(long.is_whole(0, 10) && long.is_whole(long.len - 20, long.len));
        assert!(!long.is_whole(0, long.len));
        assert_eq!(lines.number(&long, &file).unwrap(), 1);
        let next = lines.next(&file).unwrap().unwrap();
        assert_eq!(lines.bytes(&next), b"ccccc");
        assert_eq!((next.offset, next.offset_of(5)), (LONG + 31, LONG + 36));
        assert!(lines.buffer.len() <= 4 * KEPT, "{}", lines.buffer.len());
        assert!(lines.next(&file).unwrap().is_none());

        lines.again(&long, long.len - 20);
        let rest = lines.next(&file).unwrap().unwrap();
        assert_eq!(lines.bytes(&rest), [b'b'; 20]);
    }
}

#[test]
fn the_end_of_a_file_need_not_be_held_either() {
    let file = Made(vec![(b'{', 1), (0, LONG)]);
    let mut lines = LineBuffer::new();
    let long = lines.next(&file).unwrap().unwrap();
    assert_eq!((long.ended, long.offset_of(long.len)), (false, LONG + 1));
    assert!(lines.buffer.len() <= 4 * KEPT);
    assert!(lines.next(&file).unwrap().is_none());
}

#[test]
fn a_place_is_not_inside_a_character() {
    let text = "aé€😀".as_bytes();
    let places: Vec<_> = (0..=text.len()).map(|at| floor(text, at)).collect();
    assert_eq!(places, [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10]);
    assert_eq!(floor(&[0x80; 9], 8), 8);
}
