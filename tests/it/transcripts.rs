//! Acts out every transcript of `fixtures/transcripts` with an agent in memory, one test for each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{memory, runner};

/// Makes a test of each transcript with the function of this path.
macro_rules! for_each_transcript {
    ($run:path) => {
        transcripts_as_tests! { $run =>
            session: [
                a_folder_that_is_gone_is_no_obstacle,
                a_new_folder_is_written_with_the_next_prompt,
                a_new_session_is_durable_before_it_is_answered,
                additional_directories_are_those_of_the_last_request,
                close_releases_and_may_be_repeated,
                delete_is_final_and_may_be_repeated,
                initialize_tells_what_works,
                resume_has_the_context_and_replays_nothing,
                resume_needs_no_mcp_servers,
                secrets_of_mcp_servers_are_never_written,
                sessions_do_not_touch_each_other,
                the_header_says_who_made_it,
            ],
            turn: [
                a_failed_tool_call_stays_failed,
                a_second_prompt_is_refused,
                a_turn_ends_as_it_was_told,
                an_edit_keeps_its_diff,
                each_plan_stays_where_it_was,
                everything_is_logged_before_it_is_sent,
                kinds_of_updates_keep_their_interleaving,
                plain_text_is_answered_from_the_conversation,
                raw_values_of_any_type_come_back,
                thoughts_stay_thoughts,
                two_locations_come_back,
            ],
            content: [
                a_picture_in_an_answer,
                annotations_and_meta_are_not_touched,
                attachments_alone_are_a_prompt,
                audio_stays_audio,
                line_breaks_between_tokens_are_spaces,
                meta_of_a_prompt_is_kept,
                odd_characters_come_back_to_the_byte,
                resources_in_an_answer,
                resources_stay_resources,
                text_image_text_are_three_chunks,
            ],
            load: [
                a_prompt_that_follows_at_once_waits,
                a_session_kept_open_loads_again,
                a_tool_call_that_a_crash_cut_off_has_failed,
                an_answer_that_a_crash_cut_off_is_kept,
                chunks_are_merged_unless_told_otherwise,
                every_turn_comes_back_in_order_before_the_answer,
                only_the_last_turns_if_told_so,
                then_close_at_once,
                then_delete_at_once,
                twice_is_twice_the_same,
                two_at_once_are_two_whole_replays,
                while_a_turn_runs,
            ],
            cancel: [
                a_signal_ends_the_turn,
                close_ends_the_turn_first,
                closes_the_open_tool_call,
                delete_ends_the_turn_first,
                end_of_input_ends_the_turn,
                in_the_middle_of_an_answer,
                of_a_load_ends_the_replay,
                of_a_request_by_its_id,
                one_session_only,
                right_behind_the_prompt,
                twice_is_once,
                with_nothing_running_does_nothing,
            ],
            errors: [
                a_relative_folder_is_named,
                a_wrong_parameter_is_named,
                an_unknown_session_is_not_found,
                nothing_is_served_before_initialize,
                parameters_are_never_echoed,
                what_is_no_id_is_no_session,
                what_is_not_declared_is_not_there,
                without_a_store_nothing_is_loaded,
            ],
        }
    };
}

macro_rules! transcripts_as_tests {
    ($run:path => $($folder:ident: [$($name:ident),* $(,)?],)*) => {
        $(mod $folder {
            $(#[test]
            fn $name() {
                $run(concat!(stringify!($folder), "/", stringify!($name)));
            })*
        })*

        #[test]
        fn no_transcript_is_forgotten() {
            let listed = [$($(concat!(stringify!($folder), "/", stringify!($name)),)*)*];
            crate::transcripts::compare_with_folder(&listed);
        }
    };
}

for_each_transcript!(crate::transcripts::in_memory);

/// Acts out one transcript. With `UPDATE_FIXTURES=1`, what is expected becomes what came.
pub(crate) fn in_memory(name: &str) {
    let rewrite = std::env::var_os("UPDATE_FIXTURES").is_some_and(|value| value == "1");
    runner::run(&path_of(name), memory::start, rewrite);
}

pub(crate) fn path_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.acp"))
}

fn folder() -> &'static Path {
    Path::new("fixtures/transcripts")
}

/// The list above must have every file there is.
pub(crate) fn compare_with_folder(listed: &[&str]) {
    let mut found = BTreeSet::new();
    for topic in std::fs::read_dir(folder()).unwrap() {
        let topic = topic.unwrap().path();
        if !topic.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&topic).unwrap() {
            let file = file.unwrap().path();
            let name = file.strip_prefix(folder()).unwrap().with_extension("");
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let listed: BTreeSet<_> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed, found);
}
