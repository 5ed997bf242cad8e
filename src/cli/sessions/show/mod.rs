//! `rejoin show`.

pub(in crate::cli) mod painter;

use crate::cli::exit::Failure;
use crate::cli::sources;
use crate::cli::term::{FAINT, Output, Pager, count, pager_stays, printable_json};
use crate::cli::values::number;
use rejoin::export::parts::{self, ConversationPart, NO_END, PartOptions};
use rejoin::export::{self, Format, Options};
use rejoin::index::ToolBranch;
use rejoin::store::LogReader;
use rejoin::sys::SessionId;

use super::context::CommandContext;
use super::id::{find_readable, given};
use super::list::tool_title;
use super::named::{SESSION_OR_LIST, ShortIds};
use painter::ConversationPainter;

/// What to show.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(in crate::cli) id: Option<String>,
    /// Only the last N turns.
    #[arg(long, value_name = "N", value_parser = number)]
    last: Option<usize>,
    /// Print to the terminal itself, not through the pager. $PAGER names another pager than
    /// `less -FRX`.
    #[arg(long)]
    no_pager: bool,
    /// Also what rewinds have undone, in the order in which it was said, and what another tool has
    /// written to its conversation since that was continued here.
    #[arg(long)]
    all_branches: bool,
    /// Print a JSON object, as `rejoin export --format json` does.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(in crate::cli) sources: sources::Args,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let id = find_readable(context, given(args.id.as_ref())?)?;
    let mut reader = if args.all_branches {
        context.read_all(&id)?
    } else {
        context.read(&id)?
    };
    let tool_branch = context.tool_branch(&reader)?;
    let options = Options {
        last: args.last.map(|last| last as u64),
        tool_branch: tool_branch.as_ref(),
        ..Options::default()
    };
    if args.json {
        return export::write(&mut reader, Format::Json, options, &mut |text| {
            output.raw(&printable_json(text))
        });
    }
    // With all branches, that of the tool is shown itself.
    let hidden = options.tool_branch.filter(|_| !args.all_branches);
    let end_notes = EndNotes::of(context, &id, hidden);
    if args.no_pager {
        return print(&mut reader, options, &end_notes, output);
    }
    if !page(&mut reader, options, &end_notes, false, output)? {
        print(&mut reader, options, &end_notes, output)?;
    }
    Ok(())
}

/// Explanations at the end of a conversation.
pub(super) struct EndNotes {
    /// The meaning of a last turn without an end.
    no_end: String,
    /// The branch of its tool, and how to see that.
    tool_branch: Option<String>,
}

impl EndNotes {
    /// The notes for a session, and for the branch of its tool if that is not shown.
    pub(super) fn of(
        context: &CommandContext<'_>,
        id: &SessionId,
        tool_branch: Option<&ToolBranch>,
    ) -> Self {
        Self {
            no_end: no_end(context, id),
            tool_branch: tool_branch.map(|branch| how_to_see(context, id, branch)),
        }
    }
}

/// A sentence about the turns of a tool: how to see them, and to go on from there.
fn how_to_see(context: &CommandContext<'_>, id: &SessionId, branch: &ToolBranch) -> String {
    let short = ShortIds::of([id]).id(id);
    let command = |command: String| context.global.with_store(&format!("`rejoin {command}`"));
    let see = command(format!("show {short} --all-branches"));
    let go_on = command(format!("fork {short} --tool-branch"));
    format!(
        "{} since in {}: {see} shows what was said there, {go_on} goes on from there.",
        count(branch.turns as usize, "turn"),
        tool_title(branch),
    )
}

/// The meaning of a last turn without an end.
fn no_end(context: &CommandContext<'_>, id: &SessionId) -> String {
    if context.store.is_open(id) {
        let short = ShortIds::of([id]).id(id);
        let follow = context
            .global
            .with_store(&format!("`rejoin attach {short}`"));
        return format!("The agent is still answering: {follow} follows it.");
    }
    match context.store.exists(id) {
        Ok(true) => {
            "The answer ends here: the process was killed while the agent answered.".to_owned()
        }
        // Other tools do not say whether they still run.
        _ => NO_END.to_owned(),
    }
}

/// Shows a whole conversation in a terminal. Whether a pager keeps it there until the user has read it.
pub(super) fn show_whole(
    reader: &mut LogReader,
    end_notes: &EndNotes,
    output: &mut Output,
) -> Result<bool, Failure> {
    let paged = page(reader, Options::default(), end_notes, true, output)?;
    if !paged {
        print(reader, Options::default(), end_notes, output)?;
        output.flush()?;
    }
    Ok(paged && pager_stays())
}

/// Shows a conversation through the pager. False if nothing is shown so.
fn page(
    reader: &mut LogReader,
    options: Options<'_>,
    end_notes: &EndNotes,
    stays: bool,
    output: &Output,
) -> Result<bool, Failure> {
    let Some((pager, stdin)) = Pager::start(output.look(), stays) else {
        return Ok(false);
    };
    let mut paged = Output::on(stdin, output.look().clone());
    print(reader, options, end_notes, &mut paged)?;
    paged.finish()?;
    pager.wait()
}

fn print(
    reader: &mut LogReader,
    options: Options<'_>,
    end_notes: &EndNotes,
    output: &mut Output,
) -> Result<(), Failure> {
    let look = output.look().clone();
    let mut painter = ConversationPainter::new(&look);
    let choice = PartOptions {
        options,
        ..PartOptions::default()
    };
    reader.seek(0);
    let mut is_blank = true;
    let mut print = |part: ConversationPart<'_>| {
        let part = match part {
            ConversationPart::Ended(NO_END) => ConversationPart::Ended(&end_notes.no_end),
            part => part,
        };
        for line in painter.part(part) {
            let text = line.text(look.colour);
            // A single blank line is enough.
            if !(text.is_empty() && is_blank) {
                output.line(&text)?;
            }
            is_blank = text.is_empty();
        }
        if output.closed() {
            Err(PrintStop::Closed)
        } else {
            Ok(())
        }
    };
    match parts::read(reader, choice, &mut print) {
        Ok(_) => {}
        Err(PrintStop::Closed) => return Ok(()),
        Err(PrintStop::Failed(failure)) => return Err(failure),
    }
    if let Some(text) = &end_notes.tool_branch {
        output.line("")?;
        output.line(look.paint(FAINT, text))?;
    }
    Ok(())
}

/// Why a conversation is not printed to its end.
enum PrintStop {
    /// Nobody reads it.
    Closed,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for PrintStop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
