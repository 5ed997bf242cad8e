//! Acts out every transcript of `fixtures/wrap`: the real binary, wrapping an agent that does what
//! its prompts say.

use std::path::Path;

use crate::support::{env, process, runner};

transcripts_as_tests! { crate::wrap::wrapped, "fixtures/wrap" =>
    pass_through: [
        initialize_is_the_agents_and_ours,
    ],
}

/// Acts out one transcript. With `UPDATE_FIXTURES=1`, what is expected becomes what came.
pub(crate) fn wrapped(name: &str) {
    let path = Path::new("fixtures/wrap").join(format!("{name}.acp"));
    runner::run(&path, process::start, env::update_fixtures());
}
