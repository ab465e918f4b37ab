"""Our SQL, which is DuckDB's, in ClickHouse's dialect: translated once for each statement, by rules on its tree.

`sqlglot` knows most of both dialects. The rules here are for what it does not know, and for what both engines take but
answer differently. Each statement of the query API is asked of both in `tests/test_cluster_reads.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp

from collector.times import SECOND

AGGREGATES = ("any", "argMax", "argMin", "groupArray", "groupBitOr", "groupUniqArray", "max", "min")
EPOCH = 1_767_225_600 * SECOND  # 2026: seconds since then are exact to some nanoseconds as a float
PARAMETER = re.compile(r"\$(\w+)")
KEPT = 4_096  # translated statements; each takes 10 to 30 ms
MOST = 2**63 - 1

# Of a question; they make ClickHouse answer as DuckDB does.
SETTINGS = {
    "aggregate_functions_null_for_empty": "1",  # the sum of nothing is null
    "cast_keep_nullable": "1",
    "enable_named_columns_in_function_tuple": "1",
    "join_use_nulls": "1",
    "joined_subquery_requires_alias": "0",
    "least_greatest_legacy_null_behavior": "0",  # they leave nulls out
    "prefer_column_name_to_alias": "1",
    "union_default_mode": "DISTINCT",
}

Tree = exp.Expression
Types = tuple[tuple[str, str], ...]


class Translated(NamedTuple):
    """A statement in ClickHouse's dialect, and the parameters that it uses."""

    sql: str
    names: tuple[str, ...]


def types_of(params: Mapping[str, Any], sql: str) -> Types:
    """The parameters that are named in `sql`, with their types in ClickHouse."""
    names = set(PARAMETER.findall(sql))
    return tuple((name, _type(value)) for name, value in sorted(params.items()) if name in names)


def _type(value: object) -> str:
    match value:
        case None:
            return "Nullable(String)"
        case bool():
            return "Bool"
        case int():
            return "Int64" if value <= MOST else "UInt64"
        case float():
            return "Float64"
        case list() | tuple():
            return f"Array({_type(value[0]) if value else 'String'})"
    return "String"


@lru_cache(KEPT)
def translated(sql: str, types: Types) -> Translated:
    """A statement in ClickHouse's dialect; parameters `$name` become `{name:Type}`."""
    tree: Tree = sqlglot.parse_one(sql, read="duckdb")
    for rule in STRUCTURE:
        rule(tree)
    kinds = dict(types)
    for node in reversed(list(tree.walk())):  # from the leaves up, so that rules find what others have made
        changed = _changed(node, kinds)
        if changed is not node:
            node.replace(changed)
    names = dict.fromkeys(each.name for each in tree.find_all(exp.Placeholder))
    return Translated(tree.sql(dialect="clickhouse", comments=False), tuple(names))


def _fn(name: str, *arguments: Tree | str | int) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[_node(each) for each in arguments])


def _node(value: Tree | str | int) -> Tree:
    if isinstance(value, int):
        return exp.Literal.number(value)
    return exp.column(value) if isinstance(value, str) else value.copy()


# Rules on one node.


def _hash(node: Tree) -> Tree:
    return _fn("cityHash64", _fn("tuple", *node.expressions))  # of a tuple: that of a null alone would be null


def _struct(node: Tree) -> Tree:
    named = (exp.alias_(each.expression.copy(), each.this.name, quoted=True) for each in node.expressions)
    return _fn("tuple", *named)


def _listed(node: Tree, order: Sequence[Tree], value: Tree) -> Tree:
    """All values with the null ones, which ClickHouse would leave out, in the order of `order`."""
    if not order:
        return _picked(_fn("groupArray", _fn("tuple", value)), 1)
    keys = [part for each in order for part in (_fn("isNull", each.this), each.this)]  # nulls last
    return _picked(_fn("arraySort", _fn("groupArray", _fn("tuple", _fn("tuple", *keys), value))), 2)


def _picked(tuples: Tree, place: int) -> Tree:
    name = exp.to_identifier("each")
    return _fn("arrayMap", exp.Lambda(this=_fn("tupleElement", "each", place), expressions=[name]), tuples)


def _array_agg(node: Tree) -> Tree:
    ordered = node.this
    if isinstance(node.parent, exp.Window):  # of rows, which are never null
        return _fn("groupArray", ordered)
    if isinstance(ordered, exp.Order):
        return _listed(node, ordered.expressions, ordered.this)
    return _listed(node, (), ordered)


def _joined(node: Tree) -> Tree:
    """`string_agg`, which leaves nulls out as `groupArray` does."""
    inner, separator = node.this, node.args["separator"]
    order = inner.expressions if isinstance(inner, exp.Order) else ()
    value = inner.this if isinstance(inner, exp.Order) else inner
    if isinstance(value, exp.Distinct):  # always in the order of the values themselves
        joined = _fn("arrayStringConcat", _fn("arraySort", _fn("groupUniqArray", value.expressions[0])), separator)
    else:
        joined = _fn("arrayStringConcat", _listed(node, order, value), separator)
    return _fn("nullIf", joined, exp.Literal.string(""))


def _lag(node: Tree) -> Tree:
    """Beyond the edge of a window, ClickHouse gives a column that is never null its default."""
    copied = node.copy()
    copied.set("this", _fn("toNullable", node.this))
    return copied if not (isinstance(node.this, exp.Anonymous) and node.this.name == "toNullable") else node


def _quantile(node: Tree) -> Tree:
    fraction = node.expression.name if isinstance(node, exp.PercentileCont) else "0.5"
    return exp.ParameterizedAgg(
        this="quantileExactInclusive", expressions=[exp.Literal.number(fraction)], params=[node.this.copy()]
    )


def _range(node: Tree) -> Tree:
    return _fn("range", *(_fn("toInt64", node.args[end]) for end in ("start", "end")))


def _concat_ws(node: Tree) -> Tree:
    separator, *parts = node.expressions
    return _fn("arrayStringConcat", exp.Array(expressions=[part.copy() for part in parts]), separator)


def _cast(node: Tree) -> Tree:
    """Neither nothing nor a time needs a type: DuckDB's names of these are unknown."""
    time = isinstance(node.this, exp.Anonymous) and node.this.name == "fromUnixTimestamp64Nano"
    return node.this if time or isinstance(node.this, exp.Null) else node


def _json_type(node: Tree) -> Tree:
    return exp.func("upper", _fn("toString", _fn("JSONType", node.this)))


def _full_match(node: Tree) -> Tree:
    options = node.args.get("options")
    flags = f"(?{options.name})" if options else ""
    return _fn("match", node.this, exp.Literal.string(f"{flags}^(?:{node.expression.name})$"))


def _filtered(node: Tree) -> Tree:
    """The condition of an aggregate that stands inside of other functions now."""
    if not isinstance(node.this, exp.Anonymous):
        return node
    inner = node.this.find(exp.Anonymous, bfs=True) if node.this.name in AGGREGATES else None
    inner = inner or next(each for each in node.this.find_all(exp.Anonymous) if each.name in AGGREGATES)
    inner.set("this", f"{inner.name}If")
    inner.append("expressions", node.expression.this.copy())
    return node.this


def _window(node: Tree) -> Tree:
    """A frame of nanoseconds as one of seconds: ClickHouse's offsets have 32 bits."""
    spec, order = node.args.get("spec"), node.args.get("order")
    ends = [end for end in ("start", "end") if spec and isinstance(spec.args.get(end), exp.Literal)]
    if not ends or spec.args["kind"].upper() != "RANGE":
        return node
    for end in ends:
        spec.set(end, exp.Literal.number(f"{int(spec.args[end].name) / SECOND:g}"))
    key = order.expressions[0]
    since = exp.Sub(this=exp.paren(key.this.copy()), expression=_node(EPOCH))
    key.set("this", exp.Div(this=_fn("toFloat64", since), expression=_node(SECOND)))
    return node


def _extract(node: Tree) -> Tree:
    options, group = node.args.get("parameters"), node.args.get("group")
    flags = f"(?{options.name})" if options else ""
    pattern = _fn("concat", exp.Literal.string(flags), node.expression)
    return _fn("regexpExtract", node.this, pattern, group or 0)


def _placeholder(node: Tree, types: Mapping[str, str]) -> Tree:
    return exp.Placeholder(this=node.name, kind=types[node.name])


def _call(name: str, *keys: str) -> Callable[[Tree], Tree]:
    """A function of this name, of these arguments of the node."""
    return lambda node: _fn(name, *(node.args[key] for key in keys or ("this",)))


RULES: Mapping[type[exp.Expr], Callable[[Tree], Tree]] = {
    exp.ArrayAgg: _array_agg,
    exp.ArrayContains: _call("has", "this", "expression"),
    exp.ArrayDistinct: lambda node: _fn("arrayDistinct", node.this),
    exp.ArraySort: _call("arraySort"),
    exp.ArrayFilter: _call("arrayFilter", "expression", "this"),
    exp.BitwiseAnd: _call("bitAnd", "this", "expression"),
    exp.BitwiseLeftShift: _call("bitShiftLeft", "this", "expression"),
    exp.BitwiseOrAgg: _call("groupBitOr"),
    exp.Cast: _cast,
    exp.ConcatWs: _concat_ws,
    exp.Contains: lambda node: exp.GT(this=_fn("position", node.this, node.expression), expression=_node(0)),
    exp.Explode: _call("arrayJoin"),
    exp.Filter: _filtered,
    exp.GenerateSeries: _range,
    exp.GroupConcat: _joined,
    exp.JSONKeys: lambda node: _fn("JSONExtractKeys", exp.func("coalesce", node.this, exp.Literal.string(""))),
    exp.JSONType: _json_type,
    exp.Lag: _lag,
    exp.Lead: _lag,
    exp.Left: _call("leftUTF8", "this", "expression"),
    exp.IgnoreNulls: lambda node: _fn("any", node.this.this),
    exp.IntDiv: _call("intDiv", "this", "expression"),
    exp.Length: _call("length"),  # always of a list
    exp.LogicalAnd: _call("min"),
    exp.LogicalOr: _call("max"),
    exp.Lower: _call("lowerUTF8"),
    exp.Median: _quantile,
    exp.PercentileCont: _quantile,
    exp.RegexpExtract: _extract,
    exp.RegexpExtractAll: _call("extractAll", "this", "expression"),
    exp.RegexpFullMatch: _full_match,
    exp.Right: _call("rightUTF8", "this", "expression"),
    exp.SplitPart: lambda node: exp.Bracket(
        this=_fn("splitByString", node.args["delimiter"], node.this), expressions=[node.args["part_index"]]
    ),
    exp.Struct: _struct,
    exp.Transform: _call("arrayMap", "expression", "this"),
    exp.Window: _window,
}

FUNCTIONS: Mapping[str, Callable[[Tree], Tree]] = {
    "arg_min_null": lambda node: _fn(
        "tupleElement", _fn("argMin", _fn("tuple", node.expressions[0]), node.expressions[1]), 1
    ),
    "hash": _hash,
    "make_timestamp_ns": lambda node: _fn("fromUnixTimestamp64Nano", node.expressions[0], exp.Literal.string("UTC")),
    "list_resize": lambda node: _fn("arrayResize", *node.expressions),
}


def _changed(node: Tree, types: Mapping[str, str]) -> Tree:
    if isinstance(node, exp.Placeholder) and not node.args.get("kind"):
        return _placeholder(node, types)
    if isinstance(node, exp.Column) and node.name == "rowid":
        return exp.column("event_id", node.table or None)
    if isinstance(node, exp.Anonymous):
        rule = FUNCTIONS.get(node.name.lower())
    else:
        rule = RULES.get(type(node))
    return rule(node) if rule else node


# Rules on the shape of a statement.


AS_THEY_COME = {"as_sorted": ("number", "time_ns"), "as_placed": ("place",)}
HOURS = ("hourly", "hourly_sessions", "hourly_chains")


def _without_hours(tree: Tree) -> None:
    """Counts come from the events of the whole range, not from counted hours, which the cluster does not have.

    Of the parts of `hours.sql` and `hourly_chains.sql`, the one before the first counted hour is left, up to the end.
    """
    for union in list(tree.find_all(exp.Union)):
        parts = list(_parts(union))
        before = [each for each in parts if _bounds(each)[1].startswith("low_")]
        if not before or union.parent is None:
            continue
        [left], until = before, _until(parts[-1])
        _until(left).replace(until.copy())
        for own, name in zip(list(left.expressions), parts[0].named_selects, strict=True):
            own.replace(exp.alias_(own.unalias().copy(), name, quoted=True))
        union.replace(left)


def _until(part: Tree) -> Tree:
    return next(each for each in part.args["where"].find_all(exp.LT) if each.this.name == "time_ns").expression


def _parts(union: Tree) -> Iterator[Tree]:
    if isinstance(union, exp.Union):
        yield from _parts(union.left)
        yield union.right
    else:
        yield union


def _bounds(part: Tree) -> tuple[str, str]:
    """The parameters from which and until which a part of a union reads."""
    where = part.args.get("where")
    if not where:
        return "", ""
    found = {type(each): each.expression.name for each in where.find_all(exp.GTE, exp.LT) if each.this.name == "time_ns"}
    return found.get(exp.GTE, ""), found.get(exp.LT, "")


def _by_name(tree: Tree) -> None:
    """`union all by name` has the same columns in each part, in one order."""
    for union in [each for each in tree.find_all(exp.Union) if each.args.get("by_name")]:
        parts = list(_parts(union))
        nothing = {each.alias_or_name: _nothing(each) for part in reversed(parts) for each in part.expressions}
        names = dict.fromkeys(name for part in parts for name in part.named_selects)
        for part in parts:
            own = {each.alias_or_name: each for each in part.expressions}
            padded = (own.get(name) or exp.alias_(nothing[name], name, quoted=True) for name in names)
            part.set("expressions", list(padded))
        for each in (union, *union.find_all(exp.Union)):
            each.set("by_name", False)


def _nothing(told: Tree) -> Tree:
    """The value of a column where it is not told: a list is empty, as it cannot be null."""
    return exp.Array() if told.find(exp.ArrayAgg) else exp.Null()


def _half_joins(tree: Tree) -> None:
    """`semi join` and `anti join` as conditions: in ClickHouse, `*` would have the columns of both sides."""
    for select in list(tree.find_all(exp.Select)):
        for join in [each for each in select.args.get("joins") or () if each.kind in ("SEMI", "ANTI")]:
            other, keys, more = _keys(select, join)
            there = exp.select(*(right for _, right in keys)).from_(other).where(*more)
            found: Tree = exp.In(this=exp.Tuple(expressions=[left for left, _ in keys]), query=there.subquery())
            join.pop()
            select.where(exp.not_(found) if join.kind == "ANTI" else found, copy=False)


def _keys(select: Tree, join: Tree) -> tuple[Tree, list[tuple[Tree, Tree]], list[Tree]]:
    """The other side, the pairs that must be equal, and what else is said of the other side."""
    name = join.this.alias_or_name
    if using := join.args.get("using"):
        return join.this.copy(), [(exp.column(each.name), exp.column(each.name)) for each in using], []
    pairs: list[tuple[Tree, Tree]] = []
    more: list[Tree] = []
    for each in join.args["on"].flatten() if isinstance(join.args["on"], exp.And) else (join.args["on"],):
        sides = [each.this, each.expression]
        theirs = [any(column.table == name for column in side.find_all(exp.Column)) for side in sides]
        if theirs.count(True) != 1 or not any(True for _ in sides[1 - theirs.index(True)].find_all(exp.Column)):
            more.append(each.copy())
            continue
        left, right = (side.copy() for side in (sides if theirs[1] else reversed(sides)))
        if isinstance(each, exp.NullSafeEQ):
            pairs.append((_fn("isNull", left), _fn("isNull", right)))
            left, right = (exp.func("coalesce", side, exp.Literal.string("")) for side in (left, right))
        pairs.append((left, right))
    return join.this.copy(), pairs, more


def _unnested(tree: Tree) -> None:
    """Lists in FROM, which ClickHouse calls ARRAY JOIN."""
    for join in list(tree.find_all(exp.Join)):
        listed = join.this
        inner = listed.expressions[0] if isinstance(listed, exp.Unnest) else listed.this
        if isinstance(listed, exp.Unnest) or isinstance(inner, exp.GenerateSeries):
            column = listed.args["alias"].columns[0].name
            join.replace(exp.Join(this=exp.alias_(inner.copy(), column, quoted=True), kind="ARRAY"))
    for listed in list(tree.find_all(exp.Unnest)):
        if not isinstance(listed.parent, (exp.From, exp.Join)):
            listed.replace(_fn("arrayJoin", listed.expressions[0].copy()))


def _signed(tree: Tree) -> None:
    """Counts and numbers are signed: beside others, unsigned ones would become a type of their own."""
    for alias in list(tree.find_all(exp.Alias)):
        if alias.this.is_int:
            alias.this.replace(exp.cast(alias.this.copy(), "BIGINT"))
    for count in list(tree.find_all(exp.Count, exp.RowNumber)):
        whole: Tree = count
        while isinstance(whole.parent, (exp.Filter, exp.Window)) and whole.parent.this is whole:
            whole = whole.parent
        if not isinstance(whole.parent, exp.Cast):
            whole.replace(exp.cast(whole.copy(), "BIGINT"))


def _named(tree: Tree) -> None:
    """Columns of a side of a join keep their names without the side's."""
    for select in tree.find_all(exp.Select):
        for each in list(select.expressions):
            if isinstance(each, exp.Column) and each.table and not isinstance(each.this, exp.Star):
                each.replace(exp.alias_(each.copy(), each.name, quoted=True))


def _flags(tree: Tree) -> None:
    """What is true or false stays so: ClickHouse makes 1 and 0 of comparisons."""
    for alias in list(tree.find_all(exp.Alias)):
        if isinstance(alias.parent, exp.Select) and _is_flag(alias.this):
            alias.this.replace(exp.cast(alias.this.copy(), "BOOLEAN"))


def _sorted(tree: Tree) -> None:
    """Windows of rows as they come, which are sorted in DuckDB (query/sql/storms.sql)."""
    for window in list(tree.find_all(exp.Window)):
        if (order := AS_THEY_COME.get(window.name)) and window.arg_key == "windows":
            window.set("order", exp.Order(expressions=[exp.Ordered(this=exp.column(name)) for name in order]))


def _not_materialized(tree: Tree) -> None:
    """ClickHouse 26.9 reads what WITH materializes before it is complete where it is read more than once."""
    for each in tree.find_all(exp.CTE):
        each.set("materialized", None)


FLAGS = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean, exp.LogicalAnd, exp.LogicalOr, exp.RegexpLike, exp.StartsWith)


def _is_flag(node: Tree) -> bool:
    """Whether an expression is true or false: ClickHouse makes 1 and 0 of some."""
    match node:
        case exp.Paren() | exp.Max() | exp.Min() | exp.ArgMax() | exp.ArgMin() | exp.AnyValue() | exp.Filter() | exp.Window():
            return _is_flag(node.this)
        case exp.Coalesce():
            return any(_is_flag(each) for each in (node.this, *node.expressions))
        case exp.Case():
            ends = [each.args["true"] for each in node.args["ifs"]]
            return any(_is_flag(each) for each in (*ends, *filter(None, (node.args.get("default"),))))
    return isinstance(node, FLAGS)


STRUCTURE: tuple[Callable[[Tree], None], ...] = (
    _without_hours, _by_name, _half_joins, _unnested, _signed, _named, _flags, _sorted, _not_materialized,
)  # fmt: skip
