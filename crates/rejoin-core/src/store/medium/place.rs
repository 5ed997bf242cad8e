//! Names of stores: folders, and addresses of databases.

use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The beginnings of addresses.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The option of an address that names a command which prints the password.
const PASSWORD_COMMAND: &str = "password_command=";

/// Whether a store is in a database, and not a folder.
pub fn is_address(place: &Path) -> bool {
    let text = place.to_string_lossy();
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// The scheme of a place that looks like an address, if no store has such addresses: `s3` of
/// `s3://bucket`, and `postgres` of `postgres:/host/database`. A single letter is a drive.
pub fn unknown_scheme(place: &Path) -> Option<String> {
    let text = place.to_string_lossy();
    let (scheme, _) = text.split_once(":/")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (is_scheme && !is_address(place)).then(|| scheme.to_owned())
}

/// The place as it may be shown: an address without its password, and without the command that prints
/// it.
pub fn shown(place: &Path) -> String {
    let text = place.to_string_lossy();
    let Some((user, at)) = user_of(&text) else {
        return without_command(&text);
    };
    let name = user.split(':').next().unwrap_or_default();
    without_command(&format!(
        "{}{name}{}",
        &text[..at],
        &text[at + user.len()..]
    ))
}

/// An address that names a command which prints the password. Other places stay as they are.
#[must_use]
pub fn with_password_command(place: &Path, command: &str) -> PathBuf {
    if !is_address(place) {
        return place.to_owned();
    }
    let text = place.to_string_lossy();
    let sign = if text.contains('?') { '&' } else { '?' };
    let command = utf8_percent_encode(command, NON_ALPHANUMERIC);
    format!("{text}{sign}{PASSWORD_COMMAND}{command}").into()
}

fn without_command(address: &str) -> String {
    let is_shown = |option: &&str| !option.starts_with(PASSWORD_COMMAND);
    match address
        .split_once('?')
        .filter(|_| is_address(Path::new(address)))
    {
        None => address.to_owned(),
        Some((base, options)) => {
            let shown: Vec<_> = options.split('&').filter(is_shown).collect();
            if shown.is_empty() {
                base.to_owned()
            } else {
                format!("{base}?{}", shown.join("&"))
            }
        }
    }
}

/// Whether an address has a password.
pub fn has_password(place: &Path) -> bool {
    let text = place.to_string_lossy();
    user_of(&text).is_some_and(|(user, _)| user.contains(':'))
}

/// The user and password of an address, and where they begin.
fn user_of(text: &str) -> Option<(&str, usize)> {
    let scheme = SCHEMES.iter().find(|scheme| text.starts_with(**scheme))?;
    let rest = &text[scheme.len()..];
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let end = host.rfind('@')?;
    Some((&host[..end], scheme.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_address_is_no_folder() {
        for (place, scheme) in [
            ("s3://bucket/a", Some("s3")),
            ("postgres:/host/db", Some("postgres")),
            ("http://h", Some("http")),
            ("postgres://host/db", None),
            ("postgresql://host/db", None),
            ("C:/data", None),
            ("C:\\data", None),
            ("/data/a:/b", None),
            ("./s3:/b", None),
            ("a:b/c", None),
            ("data", None),
        ] {
            assert_eq!(
                unknown_scheme(Path::new(place)).as_deref(),
                scheme,
                "{place}"
            );
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        for (address, expected) in [
            ("postgres://u:secret@h/d", "postgres://u@h/d"),
            (
                "postgres://u:s@cret@h:1/d?schema=x",
                "postgres://u@h:1/d?schema=x",
            ),
            ("postgres://h/d", "postgres://h/d"),
            ("postgresql://u@h", "postgresql://u@h"),
            ("/a:b@c/d", "/a:b@c/d"),
            ("postgres://h/d?password_command=x", "postgres://h/d"),
            (
                "postgres://h/d?a=1&password_command=x&b=2",
                "postgres://h/d?a=1&b=2",
            ),
        ] {
            assert_eq!(shown(Path::new(address)), expected);
        }
        let place = with_password_command(Path::new("postgres://h/d?a=1"), "get --it '&'");
        let expected = "postgres://h/d?a=1&password_command=get%20%2D%2Dit%20%27%26%27";
        assert_eq!(place, Path::new(expected));
        assert!(has_password(Path::new("postgres://u:secret@h/d")));
        assert!(!has_password(Path::new("postgres://u@h/d?schema=a:b@c")));
    }
}
