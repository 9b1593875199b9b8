//! Runs controllers: queue, runner, triggers, lease. Knows keys, not kinds.
