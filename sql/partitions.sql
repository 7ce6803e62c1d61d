-- The first partitions of the history; the janitor makes the following ones.
select skipmq.create_history_partitions();
