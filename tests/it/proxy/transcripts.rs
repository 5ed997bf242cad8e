//! Plays the fixtures of `rejoin wrap` again, with a conductor between `rejoin proxy` and the agent:
//! what an agent is to its client does not depend on which program started it.
//!
//! Not played: fixtures in which the agent ends and is started again, since a chain ends with its
//! agent.

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{conductor, runner};

test_each_path! { for ["acp"] in "fixtures/wrap/adoption" as adoption => chained ignore {
    "an_agent_is_told_what_others_did_meanwhile" => "runs without an agent in between",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/foreign" as foreign => chained ignore {
    "an_agent_that_is_gone_is_no_obstacle" => "kills the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/fork" as fork => chained ignore {
    "an_agent_that_ends_in_a_fork" => "restarts the agent",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/pass_through" as pass_through => chained }
test_each_path! { for ["acp"] in "fixtures/wrap/recording" as recording => chained ignore {
    "sessions_do_not_touch_each_other" => "counts how often the agent is started",
} }
test_each_path! { for ["acp"] in "fixtures/wrap/restoring" as restoring => chained ignore {
    "an_agent_that_fails_to_start_is_no_agent_that_forgot" => "restarts the agent",
    "by_resume" => "counts how often the agent is started",
    "closed_and_loaded_again_in_one_life" => "counts how often the agent is started",
} }

fn chained([fixture]: [&Path; 1]) {
    runner::run(fixture, conductor::start, false);
}
