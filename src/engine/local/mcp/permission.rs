//! Whether a tool may be called: a decision without an effect, from what the user has allowed in
//! general and what the server says of the tool.

/// What the user has allowed in general.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "sessions have one mode so far"))]
pub(super) enum Allowed {
    /// Everything.
    All,
    /// What changes nothing; the user is asked about the rest.
    Asked,
    /// What changes nothing.
    Reading,
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is made.
    Go,
    /// The user is asked first.
    Ask,
    /// It is not made.
    No,
}

/// Decides about a tool. `read_only` is the server's own word that the tool changes nothing, which
/// is believed as far as the server is: the user has chosen it.
pub(super) fn may_call(allowed: Allowed, read_only: bool) -> Verdict {
    match allowed {
        _ if read_only => Verdict::Go,
        Allowed::All => Verdict::Go,
        Allowed::Asked => Verdict::Ask,
        Allowed::Reading => Verdict::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_always_may() {
        for (allowed, read_only, verdict) in [
            (Allowed::All, false, Verdict::Go),
            (Allowed::All, true, Verdict::Go),
            (Allowed::Asked, false, Verdict::Ask),
            (Allowed::Asked, true, Verdict::Go),
            (Allowed::Reading, false, Verdict::No),
            (Allowed::Reading, true, Verdict::Go),
        ] {
            assert_eq!(may_call(allowed, read_only), verdict);
        }
    }
}
