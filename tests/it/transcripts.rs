//! Acts out every transcript of `fixtures/transcripts` with an agent in memory, one test for each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{env, memory, runner};

/// Makes a test of each transcript with the function of this path.
macro_rules! for_each_transcript {
    ($run:path) => {
        transcripts_as_tests! { $run, "fixtures/transcripts" =>
            seeds: [
                a_load_replays_the_whole_conversation_before_its_answer,
                an_orchestrator_comes_back_after_a_restart,
                one_method_resumes_with_a_replay_or_without,
                one_prompt_at_a_time,
                the_history_is_listed_searched_and_read,
            ],
            session: [
                a_folder_that_is_gone_is_no_obstacle,
                a_new_folder_is_written_with_the_next_prompt,
                a_new_session_is_durable_before_it_is_answered,
                a_server_of_an_unknown_type_is_no_obstacle,
                additional_directories_are_those_of_the_last_request,
                close_releases_and_may_be_repeated,
                an_expired_session_is_gone,
                delete_is_final_and_may_be_repeated,
                initialize_tells_what_works,
                nobody_else_may_read_it,
                resume_during_a_turn,
                resume_has_the_context_and_replays_nothing,
                resume_needs_no_mcp_servers,
                secrets_of_mcp_servers_are_never_written,
                sessions_do_not_touch_each_other,
                the_header_says_who_made_it,
            ],
            modes: [
                are_chosen_in_either_way,
                come_with_a_new_session,
                of_a_session_in_use_stay,
                survive_a_restart,
                that_are_gone_fall_back,
                that_are_unknown_are_refused,
            ],
            tools: [
                a_cancel_while_permission_is_asked,
                a_client_is_asked_before_it_reads_elsewhere,
                a_client_reads_and_writes_files,
                a_client_that_never_answers,
                a_client_writes_elsewhere_if_it_is_allowed_to,
                a_command_can_be_cancelled,
                a_command_is_run_here,
                a_crash_ends_a_command,
                a_crash_leaves_no_terminal,
                a_file_is_written_and_read_here,
                a_long_output_keeps_its_end,
                a_mode_that_changes_while_it_is_asked,
                a_mode_that_only_reads,
                a_terminal_is_killed_when_it_is_cancelled,
                a_terminal_of_the_client,
                a_terminal_that_comes_too_late_is_let_go,
                a_terminal_whose_client_is_silent,
                lines_of_a_file,
                nothing_outside_of_the_session_is_touched,
                the_end_of_input_ends_a_question,
                what_is_allowed_for_good_is_asked_once,
                what_is_rejected_is_not_done,
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
                a_long_text_is_parted,
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
                what_was_sent_comes_back_whole,
            ],
            load: [
                a_prompt_that_follows_at_once_waits,
                a_session_kept_open_loads_again,
                a_terminal_of_the_past_is_not_named,
                a_tool_call_that_a_crash_cut_off_has_failed,
                an_answer_that_a_crash_cut_off_is_kept,
                chunks_are_merged_unless_told_otherwise,
                chunks_that_differ_stay_apart,
                every_turn_comes_back_in_order_before_the_answer,
                only_the_last_turns_if_told_so,
                then_close_at_once,
                then_delete_at_once,
                twice_is_twice_the_same,
                two_at_once_are_two_whole_replays,
                what_is_unknown_comes_back_to_the_byte,
                while_a_turn_runs,
            ],
            fork: [
                at_a_message_ends_with_it,
                during_a_turn_takes_what_has_ended,
                is_there_only_if_asked_for,
                of_a_damaged_session_tells_so,
                of_a_fork_and_of_what_was_asked_for_before,
                of_a_session_in_use_elsewhere,
                of_a_session_that_a_crash_cut_off,
                of_nothing_is_nothing,
                shares_nothing_with_its_source,
                what_cannot_be_forked_leaves_nothing,
            ],
            unstable: [
                a_title_of_the_client_stays,
                archived_sessions_are_listed_if_asked_for,
                archiving_ends_a_turn_first,
                is_there_only_if_asked_for,
                of_a_session_in_use_elsewhere,
                status_touches_nothing,
                what_is_not_there_has_its_own_code,
            ],
            history: [
                a_crash_leaves_an_interrupted_turn,
                a_failed_turn_has_its_error,
                a_long_session_comes_in_pages,
                a_running_turn_is_read_as_far_as_it_is,
                a_session_in_use_elsewhere_can_be_read,
                an_unknown_session_is_not_found,
                content_comes_back_to_the_byte,
                damage_is_told_and_the_rest_is_read,
                is_declared,
                pages_are_bounded,
                turns_have_roles_times_and_tool_calls,
            ],
            list: [
                a_title_is_told_with_the_first_turn,
                can_be_filtered_by_folder,
                foreign_cursors_are_refused,
                has_pages,
                has_pages_by_number,
                is_newest_first,
                of_nothing_is_empty,
                one_bad_session_hides_no_other,
                search_finds_any_script,
                search_finds_words,
                search_forgets_what_is_deleted,
                search_has_no_operators,
                search_outlives_its_index,
                shows_what_was_asked_for_before,
                titles_are_one_line,
                updated_at_is_the_last_activity,
            ],
            cancel: [
                a_prompt_behind_it_is_held,
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
                a_resume_does_not_replay,
                a_relative_folder_is_named,
                a_session_is_to_be_loaded_first,
                a_wrong_parameter_is_named,
                an_unknown_session_is_not_found,
                every_error_has_a_name_and_its_sentence_twice,
                nothing_is_served_before_initialize,
                parameters_are_never_echoed,
                what_is_no_id_is_no_session,
                what_is_not_declared_is_not_there,
                without_a_store_nothing_is_loaded,
            ],
            transport: [
                a_burst_is_served_in_order,
                a_client_that_hangs_up_during_a_load,
                a_client_that_hangs_up_during_a_turn,
                a_line_beyond_the_limit_is_refused,
                a_long_load_does_not_hold_up_others,
                a_message_may_come_in_pieces,
                a_session_from_a_pipe,
                a_slow_reader_misses_nothing,
                a_version_that_is_none_is_refused,
                deep_nesting_is_no_error,
                end_of_input_before_anything,
                end_of_input_during_a_load,
                half_a_line_at_the_end,
                ids_are_echoed_exactly,
                initialize_may_be_repeated,
                invalid_requests_are_answered_under_their_id,
                line_ends_may_be_crlf,
                the_last_line_may_lack_its_line_break,
                unknown_members_are_tolerated,
                versions_beyond_ours_get_ours,
                what_is_no_json_is_a_parse_error,
                zero_may_be_negative,
            ],
            v2: [
                a_burst_is_served_in_order,
                a_client_must_say_who_it_is,
                a_cursor_that_leads_nowhere_is_refused,
                a_fork_has_its_own_id,
                a_held_prompt_can_be_cancelled_by_its_id,
                a_log_that_is_replaced_takes_no_prompt,
                a_prompt_comes_back_as_it_was_sent,
                a_prompt_is_answered_when_it_is_in_the_log,
                a_second_prompt_is_held,
                a_session_without_prompts_resumes,
                a_title_is_kept_and_told,
                a_turn_elsewhere_is_running,
                a_turn_ends_as_it_was_told,
                a_version_is_agreed_on_once,
                a_wrong_parameter_is_named,
                after_a_crash_the_session_is_idle,
                an_archived_session_is_put_away,
                an_unknown_session_is_not_found,
                cancel_takes_back_what_is_held,
                close_ends_the_turn_and_takes_back_what_is_held,
                delete_ends_the_turn_and_takes_back_what_is_held,
                end_of_input_ends_the_turn,
                initialize_agrees_on_a_version,
                nothing_before_initialize_decides_the_version,
                one_session_by_both_versions,
                resume_during_a_turn,
                resume_from_a_message,
                resume_from_the_start,
                resume_replays_nothing_unless_asked,
                settings_are_config_options,
                status_says_what_a_session_does,
                the_history_is_under_meta,
                the_user_is_asked_for_permission,
                what_is_unstable_is_there_if_asked_for,
                what_version_1_has_alone_is_not_there,
            ],
            damage: [
                a_byte_order_mark_is_reported,
                a_damaged_header_is_no_session,
                a_damaged_prompt_leaves_the_rest,
                a_file_under_another_name_is_refused,
                a_flipped_bit_in_the_middle_is_reported,
                a_foreign_line_is_reported,
                a_last_line_without_its_end_is_kept,
                a_log_that_is_removed_takes_no_prompt,
                a_log_that_is_replaced_is_loaded_anew,
                a_log_that_is_replaced_takes_no_prompt,
                a_lost_line_break_is_reported,
                a_newer_format_is_left_alone,
                a_torn_beginning_of_a_record_is_cut,
                a_torn_end_is_cut_and_the_turn_closed,
                a_turn_whose_log_is_replaced_fails,
                an_empty_file_is_no_session,
                blank_lines_are_reported,
                carriage_returns_are_reported,
                invalid_utf8_is_reported,
                nul_bytes_are_reported,
                records_of_unknown_kinds_are_passed_over,
            ],
            processes: [
                a_load_names_the_holder,
                a_process_that_ends_is_waited_for,
                a_reader_takes_over_with_a_prompt,
                a_resume_is_sent_what_was_missed,
                a_second_one_may_read,
                a_take_over_shows_what_was_missed,
                a_turn_that_runs_elsewhere_is_not_failed,
                after_a_kill_the_other_takes_over,
                both_are_in_the_list,
                delete_waits_for_nobody,
                each_load_tries_the_lock,
            ],
        }
    };
}

macro_rules! transcripts_as_tests {
    ($run:path, $root:literal => $($folder:ident: [$($name:ident),* $(,)?],)*) => {
        $(mod $folder {
            $(#[test]
            fn $name() {
                $run(concat!(stringify!($folder), "/", stringify!($name)));
            })*
        })*

        #[test]
        fn no_transcript_is_forgotten() {
            let listed = [$($(concat!(stringify!($folder), "/", stringify!($name)),)*)*];
            crate::transcripts::compare_with_folder($root, &listed);
        }
    };
}

for_each_transcript!(crate::transcripts::in_memory);

/// Acts out one transcript. With `UPDATE_FIXTURES=1`, what is expected becomes what came.
pub(crate) fn in_memory(name: &str) {
    runner::run(&path_of(name), memory::start, env::update_fixtures());
}

pub(crate) fn path_of(name: &str) -> PathBuf {
    Path::new("fixtures/transcripts").join(format!("{name}.acp"))
}

/// The list above must have every file there is.
pub(crate) fn compare_with_folder(folder: &str, listed: &[&str]) {
    let mut found = BTreeSet::new();
    for topic in std::fs::read_dir(folder).unwrap() {
        let topic = topic.unwrap().path();
        if !topic.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&topic).unwrap() {
            let file = file.unwrap().path();
            let name = file.strip_prefix(folder).unwrap().with_extension("");
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let listed: BTreeSet<_> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed, found);
}
