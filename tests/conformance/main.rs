//! One suite, many stores: the same tests against the memory of the process and against every database, each a real
//! server that the test has started.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]
#![allow(clippy::disallowed_methods, reason = "they ask the real clock")]

mod contract;
#[cfg(feature = "mysql")]
mod mysql_tls;
#[cfg(feature = "postgres")]
mod postgres_faults;
#[path = "../support/mod.rs"]
mod support;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tables;

/// Mounts a list of tests for one server: each gets one of its own.
macro_rules! mount {
    ($name:ident, $server:ty, $tier:ident: $($test:ident)*) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    if let Some(server) = crate::support::started::<$server>() {
                        super::$tier::$test(server);
                    }
                }
            )*
        }
    };
}

/// Mounts all tiers for one server.
macro_rules! store {
    ($name:ident, $server:ty) => {
        mod $name {
            use crate::contract;
            mount!(keeping, $server, contract:
                what_was_never_written_is_not_there
                what_was_written_is_read_with_the_version_that_the_writer_was_told
                whoever_expects_another_version_is_told_what_stands_there
                whoever_expects_nothing_is_told_what_stands_there
                whoever_expects_something_is_told_that_there_is_nothing
                of_many_at_once_one_wins_each_round
                the_longest_record_comes_back_byte_for_byte
                keys_that_differ_in_one_bit_do_not_meet
                two_installations_in_one_store_do_not_meet
                what_has_outlived_its_time_is_not_there
                nothing_is_gone_before_its_time
                a_key_that_was_gone_gets_a_version_that_it_never_had
                answers_bring_a_clock_that_runs
                bytes_of_others_are_read_as_they_stand
                a_killed_server_is_an_error_and_its_return_is_noticed
                a_stopped_server_does_not_stop_whoever_gives_up
            );
        }
    };
}

/// Mounts what only databases of tables promise.
#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! tables {
    ($name:ident, $server:ty) => {
        mod $name {
            use crate::tables;
            mount!(keeping, $server, tables:
                a_limits_name_is_no_statement
                a_person_can_read_whose_bucket_it_is_and_when_it_is_full
                the_usual_questions_are_one_statement_each
                an_answer_that_came_too_late_is_nobody_elses
                a_swap_that_nobody_waits_for_is_written_once_or_not_at_all
                expired_rows_are_tidied_in_batches
                one_gate_tidies_at_a_time
                a_row_that_somebody_holds_is_contended_and_blocks_nobody_else
                a_missing_table_says_what_to_run
                a_wrong_password_is_refused_without_repeating_it
                a_database_that_may_only_be_read_is_told
                missing_rights_are_told
                a_connection_is_attempted_ten_times_a_second_at_most
            );
        }
    };
}

#[cfg(feature = "redis")]
store!(redis, crate::support::servers::redis::Redis);

#[cfg(feature = "postgres")]
store!(postgres, crate::support::servers::postgres::Postgres);
#[cfg(feature = "postgres")]
tables!(postgres_tables, crate::support::servers::postgres::Postgres);
#[cfg(feature = "postgres")]
store!(postgres_serializable, crate::support::servers::postgres::PostgresSerializable);
#[cfg(feature = "mysql")]
store!(mariadb, crate::support::servers::mysql::MariaDb);
#[cfg(feature = "mysql")]
tables!(mariadb_tables, crate::support::servers::mysql::MariaDb);
