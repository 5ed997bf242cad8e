//! Plays the fixtures of `rejoin wrap` again, with a conductor between `rejoin proxy` and the
//! agent: what an agent is to its client does not depend on which program started it.
//!
//! Not played: fixtures in which the agent ends and is started again, since a chain ends with its
//! agent.

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{conductor, runner};

test_each_path! { for ["acp"] in "fixtures/wrap/adoption" as adoption => chained ignore {
    "turns_of_others_meanwhile" => "runs without an agent in between",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/cursors" as cursors => chained }
test_each_path! { for ["acp"] in "fixtures/wrap/foreign" as foreign => chained ignore {
    "list_after_agent_exit" => "kills the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/fork" as fork => chained ignore {
    "agent_exit_during_fork" => "restarts the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/keys" as keys => chained ignore {
    "agent_that_did_not_get_it" => "runs without an agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/pass_through" as pass_through => chained ignore {
    "errors_of_agent_and_ours" => "ends the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/recording" as recording => chained ignore {
    "concurrent_sessions" => "counts how often the agent is started",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/restoring" as restoring => chained ignore {
    "failed_start" => "restarts the agent",
    "resume" => "counts how often the agent is started",
    "close_and_load_again" => "counts how often the agent is started",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/rewind" as rewind => chained }
test_each_path! { for ["acp"] in "fixtures/wrap/subagents" as subagents => chained ignore {
    "agent_exit" => "kills the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/version_2" as version_2 => chained ignore {
    "failed_start" => "runs without an agent",
} }

test_each_path! { for ["acp"] in "fixtures/wrap/version_2_native" as version_2_native => chained ignore {
    "exit_during_turn" => "ends the agent",
    "subagents" => "kills the agent",
} }

fn chained([fixture]: [&Path; 1]) {
    runner::run(fixture, conductor::start, false);
}
