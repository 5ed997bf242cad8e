//! Names of stores: folders, and addresses of databases.

use std::path::Path;

/// The beginnings of addresses.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Whether a store is in a database, and not a folder.
pub fn is_address(place: &Path) -> bool {
    let text = place.to_string_lossy();
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// The place as it may be shown: an address without its password.
pub fn shown(place: &Path) -> String {
    let text = place.to_string_lossy();
    let Some((user, at)) = user_of(&text) else {
        return text.into_owned();
    };
    let name = user.split(':').next().unwrap_or_default();
    format!("{}{name}{}", &text[..at], &text[at + user.len()..])
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
        ] {
            assert_eq!(shown(Path::new(address)), expected);
        }
        assert!(has_password(Path::new("postgres://u:secret@h/d")));
        assert!(!has_password(Path::new("postgres://u@h/d?schema=a:b@c")));
    }
}
