-- Whether an event tells that a group came back which was resolved in a version: it is of this version or a later one. Versions that are numbers,
-- such as 1.10.0-rc1, are compared as these; of others, those are later that were not known when the group was resolved, or were known as later.
resolved_version is null or coalesce(service is not distinct from resolved_service and case
  when regexp_full_match(service_version, '{numbers}', 'i') and regexp_full_match(resolved_version, '{numbers}', 'i')
    then {version} >= {resolved}
  else service_version = resolved_version or not list_contains(earlier_versions, service_version)
end, false)
