//! How answers of the built-in engine are broken off.

use super::*;

/// Prompts that between them run through every command.
const ALL: [&str; 18] = [
    "hello",
    "/tmp is full",
    "/nope",
    "/help",
    "/history",
    "/recall",
    "/echo hello",
    "/think",
    "/plan 1",
    "/tool",
    "/tool fail",
    "/tool slow 10",
    "/image",
    "/resource",
    "/demo 1",
    "/slow 10",
    "/flood 100",
    "/fail",
];

#[test]
fn cancelling_ends_every_answer_at_any_point() {
    for asked in ALL {
        let whole = asks(&["before"], asked);
        for at in 0..whole.lines.len() {
            let answer = run(async {
                let mut cancelled = None;
                let asked = prompt(&text(asked));
                let conversation = open(vec![Some(text("before"))]);
                let answer = converse(conversation, &asked, |count, _| {
                    cancelled = cancelled.or((count == at).then(Instant::now));
                    count == at
                });
                let answer = answer.await;
                let since = cancelled.map(|moment| moment.elapsed());
                assert_eq!(since, Some(Duration::ZERO), "{asked:?} at {at}");
                answer
            });
            check(&answer);
            // What was in the channel already may still come, and a call that is open is closed.
            assert!(answer.lines.len() <= at + 18, "{asked} went on after {at}");
            let cancelled = answer.end == Ok(StopReason::Cancelled);
            assert!(
                cancelled || answer == whole,
                "{asked} at {at}: {:?}",
                answer.end
            );
        }
    }
}

#[test]
fn nothing_is_sent_after_a_cancel_but_the_end_of_a_tool_call() {
    let answer = run(async {
        let asked = prompt(&text("/tool slow 3600"));
        let begun = |_, line: &str| line.contains("in_progress");
        converse(open(Vec::new()), &asked, begun).await
    });
    check(&answer);
    assert_eq!(answer.end, Ok(StopReason::Cancelled));
    assert_eq!(answer.runs().last().unwrap().0, "tool_call_update");
    assert_eq!(answer.last_status(), "failed");

    for asked in ALL {
        let cancel = Cancel::default();
        cancel.cancel();
        let asked = prompt(&text(asked));
        let mut talk = open(vec![Some(text("before"))]);
        let end = run(talk.conversation.prompt(asked, cancel));
        assert_eq!(end.map(reason), Ok(StopReason::Cancelled));
        assert!(talk.said.try_recv().is_err());
    }
}

#[test]
fn a_reader_that_stalls_does_not_hold_up_a_cancel() {
    for asked in ["/flood 1000000", "/slow 3600"] {
        let cancel = Cancel::default();
        let asked = prompt(&text(asked));
        let talk = open(Vec::new());
        let end = run(async {
            let cancelling = async {
                tokio::time::sleep(Duration::from_mins(1)).await;
                cancel.cancel();
            };
            let (end, ()) =
                tokio::join!(talk.conversation.prompt(asked, cancel.clone()), cancelling);
            end
        });
        assert_eq!(end.map(reason), Ok(StopReason::Cancelled));
        drop(talk.said);
    }
}

#[test]
fn a_closed_outlet_fails_the_turn() {
    for asked in ALL {
        let talk = open(vec![Some(text("before"))]);
        drop(talk.said);
        let asked = prompt(&text(asked));
        let end = run(talk.conversation.prompt(asked, Cancel::default()));
        assert_eq!(end.unwrap_err().code, -32603);
    }
}
