//! The terminal: text that fits, with styles, results on stdout, messages and questions on stderr.

mod ask;
mod count;
mod foreground;
mod line;
mod markdown;
mod note;
mod output;
mod pager;
mod printable;
mod relative_time;
mod signals;
mod style;
mod width;
mod wrap;

pub(super) use ask::{Progress, answers, ask, busy, confirm, stdin_is_terminal};
pub(super) use count::{count, masked_keys};
pub(super) use foreground::Foreground;
pub(super) use line::{Span, StyledLine};
pub(super) use markdown::markdown;
pub(super) use note::{note, report, successes};
pub(super) use output::Output;
pub(super) use pager::{Pager, pager_stays};
pub(super) use printable::{one_line, printable, printable_json};
pub(super) use signals::EndSignals;
pub(super) use style::{
    ACTIVE, AGENT, BAD, FAINT, GOOD, HIT, ID, Look, PLAIN, STRONG, USER, WAITING, WRONG,
    of_decision, of_sign,
};
pub(super) use width::{cut, cut_start, pad, width, wrapped};
pub(super) use wrap::wrap;
