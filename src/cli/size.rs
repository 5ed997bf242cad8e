//! Sizes as options: `64K`, `1M`, or `none`.

use std::str::FromStr;

/// A number of bytes, or that there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) Option<usize>);

/// The default of limits to what is replayed, for a variable that is set but empty, too.
const USUAL: Size = Size(Some(64 << 10));

/// A limit below this would leave little but markers.
const LEAST: usize = 1024;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => return Ok(USUAL),
            "none" => return Ok(Self(None)),
            _ => {}
        }
        let bytes = bytes(text).map_err(|wrong| format!("{wrong}, or `none`"))?;
        if bytes < LEAST {
            return Err(format!(
                "the least is {LEAST} bytes; `none` leaves nothing out"
            ));
        }
        Ok(Self(Some(bytes)))
    }
}

/// Parses a number of bytes, with or without a unit.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "write a size as `64K` or `1M`".to_owned();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = number.parse().map_err(|_| wrong())?;
    Ok(number.saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit_or_be_none() {
        for (text, size) in [
            ("2000", Some(2000)),
            ("64K", Some(65_536)),
            ("1MiB", Some(1 << 20)),
            ("99999999999G", Some(usize::MAX)),
            ("none", None),
            ("", Some(65_536)),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)), "{text}");
        }
        for text in ["K", "1.5M", "-1", "64 K", "64KB/s", "0", "1023"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
