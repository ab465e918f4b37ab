-- What is kept of the sessions that are computed anew, as it was before; with MISSTEP_CLUSTER, to note what becomes different.
create or replace temporary table old_streaks as
select k.* from kept_streaks k semi join bounds b on k.session = b.session and k.service is not distinct from b.service
where k.until_ns >= $changed_ns;

create or replace temporary table old_chains as
select k.* from kept_chains k semi join bounds b on k.session = b.session and k.service is not distinct from b.service
where k.time_ns >= least($low_ns, $changed_ns - $window)
