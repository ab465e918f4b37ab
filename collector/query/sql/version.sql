-- A version as a list of integers that compares as people do: eight numbers, the stage (dev, a, b, rc, others, release, post), its numbers.
list_concat(
  list_resize(list_transform(string_split(regexp_extract({of}, '[0-9]+([.][0-9]+)*'), '.'), lambda part: part::bigint), 8, 0::bigint),
  [case
    when regexp_matches({rest}, '^([-.]?post|-[0-9]+-g[0-9a-f]+$)') then 6
    when {rest} = '' or starts_with({rest}, '+') then 5
    when regexp_matches({rest}, '^[-.]?(rc|pre|c[0-9])') then 3
    when regexp_matches({rest}, '^[-.]?b') then 2
    when regexp_matches({rest}, '^[-.]?a') then 1
    when regexp_matches({rest}, '^[-.]?dev') then 0
    else 4
  end::bigint],
  list_transform(regexp_extract_all(split_part({rest}, '+', 1), '[0-9]{{1,15}}'), lambda part: part::bigint)
)
