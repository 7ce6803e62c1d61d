-- The first partitions of the history; the janitor creates later ones.
select skipmq.create_history_partitions();
