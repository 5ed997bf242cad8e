//! Acts out every transcript of `fixtures/mcp`: the real binary, with MCP servers whose tools do what
//! servers may do.

use std::path::Path;

use crate::support::{env, process, runner};

transcripts_as_tests! { crate::mcp::with_servers, "fixtures/mcp" =>
    http: [
        a_server_is_found_again,
        headers_are_sent,
    ],
    servers: [
        are_connected_anew_after_a_restart,
        are_connected_when_a_session_is_made,
        are_started_at_a_take_over,
        come_and_go_with_the_session_that_wants_them,
        end_with_their_session,
        end_with_us_however_we_end,
        need_a_transport_that_is_spoken_here,
        one_that_died_is_started_again,
        one_that_fails_is_reported_and_the_rest_is_used,
        one_that_is_slow_holds_up_nothing,
        that_fail_are_named_in_the_first_answer,
        that_fail_are_named_in_version_2,
        their_secrets_are_nowhere,
    ],
    tools: [
        a_cancelled_call_is_cancelled_there,
        a_call_that_makes_no_sense_is_explained,
        a_list_without_end_is_cut,
        a_long_list_is_cut,
        an_answer_that_is_too_long_is_discarded,
        answer_with_every_kind_of_content,
        are_listed,
        are_not_granted_what_is_the_users,
        many_requests_are_answered,
        that_change_something_are_asked_about,
        that_fail_have_failed,
        that_were_learned_are_found,
        work_where_the_session_does,
    ],
}

/// Acts out one transcript. With `UPDATE_FIXTURES=1`, what is expected becomes what came.
pub(crate) fn with_servers(name: &str) {
    let path = Path::new("fixtures/mcp").join(format!("{name}.acp"));
    runner::run(&path, process::start, env::update_fixtures());
}
