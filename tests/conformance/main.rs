//! One suite, many stores: the same tests against the memory of the process and against every database, each a real
//! server that the test has started.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

mod arithmetic;
mod contract;
mod deciding;
#[cfg(feature = "dynamodb")]
mod dynamodb_questions;
mod gate;
#[cfg(feature = "memcached")]
mod memcached_arithmetic;
#[cfg(feature = "memcached")]
mod memcached_faults;
#[cfg(feature = "mysql")]
mod mysql_tls;
#[cfg(feature = "postgres")]
mod postgres_faults;
#[cfg(feature = "redis")]
mod redis_arithmetic;
#[cfg(feature = "redis")]
mod redis_faults;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sql_arithmetic;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tables;

/// Mounts all tiers for one server.
macro_rules! store {
    ($name:ident, $server:ty) => {
        mod $name {
            use support::mount;
            mount!(keeping, $server, contract:
                what_was_never_written_is_not_there
                what_was_written_is_read_with_the_version_that_the_writer_was_told
                a_swap_that_expects_another_version_returns_the_record
                a_swap_that_expects_no_record_returns_the_one_there_is
                a_swap_that_expects_a_record_is_told_that_there_is_none
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
                a_stopped_server_does_not_hold_a_caller_that_gives_up
            );
            mount!(basic, $server, deciding:
                a_bucket_admits_its_burst_and_no_more
                every_shape_is_the_same_as_in_memory
                what_is_given_back_can_be_taken_again
                buckets_of_different_keys_and_limits_do_not_meet
            );
            mount!(time, $server, deciding:
                a_wait_is_as_long_as_it_was_told
                a_bucket_that_was_full_again_is_as_if_never_seen
            );
            mount!(contention, $server, deciding:
                processes_share_one_bucket
                processes_together_get_what_one_would_get_over_time
            );
            mount!(faults, $server, deciding:
                while_the_store_is_away_each_process_decides_by_what_it_saw
                a_stopped_store_costs_the_timeout_and_then_nothing
                who_asked_for_deny_or_allow_gets_it
                foreign_bytes_give_no_token_to_a_gate_that_saw_the_bucket
            );
        }
    };
}

mod memory {
    use support::mount;
    mount!(basic, support::servers::Memory, deciding:
        a_bucket_admits_its_burst_and_no_more
        every_shape_is_the_same_as_in_memory
        what_is_given_back_can_be_taken_again
        buckets_of_different_keys_and_limits_do_not_meet
    );
    mount!(time, support::servers::Memory, deciding:
        a_wait_is_as_long_as_it_was_told
    );
}

/// Mounts what only databases of tables promise.
#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! tables {
    ($name:ident, $server:ty) => {
        mod $name {
            use support::mount;
            mount!(keeping, $server, tables:
                a_limits_name_is_no_statement
                a_person_can_read_whose_bucket_it_is_and_when_it_is_full
                the_usual_questions_are_one_statement_each
                a_late_answer_goes_to_no_other_caller
                a_swap_without_a_caller_is_written_once_or_not_at_all
                expired_rows_are_tidied_in_batches
                one_gate_tidies_at_a_time
                a_locked_row_is_contended_and_blocks_no_other
                a_missing_table_says_what_to_run
                a_probe_fails_while_the_table_is_away_or_not_as_it_should_be
                a_wrong_password_is_refused_without_repeating_it
                a_database_that_may_only_be_read_is_told
                missing_rights_are_told
                a_connection_is_attempted_ten_times_a_second_at_most
            );
            mount!(stepping, $server, sql_arithmetic: a_continuous_bucket_is_stepped_as_by_the_gate);
        }
    };
}

/// Mounts what databases with arithmetic promise.
macro_rules! arithmetic {
    ($name:ident, $server:ty) => {
        mod $name {
            use support::mount;
            mount!(arithmetic, $server, arithmetic:
                a_lost_race_is_a_step_and_one_question
                what_differs_in_more_than_its_state_is_not_stepped
                a_late_step_is_not_taken
            );
        }
    };
}

#[cfg(feature = "redis")]
arithmetic!(redis_steps, support::servers::redis::Redis);
#[cfg(feature = "redis")]
arithmetic!(redis_cluster_steps, support::servers::redis::RedisCluster);
#[cfg(feature = "postgres")]
arithmetic!(postgres_steps, support::servers::postgres::Postgres);
#[cfg(feature = "redis")]
support::mount!(redis_together, support::servers::redis::Redis, arithmetic: several_buckets_in_one_request_are_each_done_by_itself);
#[cfg(feature = "postgres")]
support::mount!(postgres_together, support::servers::postgres::Postgres, arithmetic: several_buckets_in_one_request_are_each_done_by_itself);
#[cfg(feature = "mysql")]
support::mount!(mariadb_together, support::servers::mysql::MariaDb, arithmetic: several_buckets_in_one_request_are_each_done_by_itself);
#[cfg(feature = "mysql")]
arithmetic!(mariadb_steps, support::servers::mysql::MariaDb);

#[cfg(feature = "redis")]
store!(redis, support::servers::redis::Redis);
#[cfg(feature = "memcached")]
store!(memcached, support::servers::memcached::Memcached);
#[cfg(feature = "memcached")]
store!(memcacheds, support::servers::memcached::Memcacheds);
#[cfg(feature = "redis")]
store!(redis_tls, support::servers::redis::RedisTls);
#[cfg(feature = "redis")]
store!(redis_cluster, support::servers::redis::RedisCluster);
#[cfg(feature = "dynamodb")]
store!(dynamodb, support::servers::dynamodb::Dynalite);

#[cfg(feature = "postgres")]
store!(postgres, support::servers::postgres::Postgres);
#[cfg(feature = "postgres")]
tables!(postgres_tables, support::servers::postgres::Postgres);
#[cfg(feature = "postgres")]
store!(postgres_serializable, support::servers::postgres::PostgresSerializable);
#[cfg(feature = "mysql")]
store!(mariadb, support::servers::mysql::MariaDb);
#[cfg(feature = "mysql")]
tables!(mariadb_tables, support::servers::mysql::MariaDb);
