"""Our SQL, which is DuckDB's, in ClickHouse's dialect: translated once for each statement, by rules on its tree.

`sqlglot` knows most of both dialects. The rules here are for what it does not know, and for what both engines take but
answer differently. Each statement of the query API is asked of both in `tests/test_cluster_reads.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp

from collector.cluster.only import confine
from collector.cluster.shape import STRUCTURE, Tree, call, node_of
from collector.times import SECOND

AGGREGATES = ("any", "argMax", "argMin", "groupArray", "groupBitOr", "groupUniqArray", "max", "min")
EPOCH = 1_767_225_600 * SECOND  # 2026: seconds since then are exact to some nanoseconds as a float
PARAMETER = re.compile(r"\$(\w+)")
AT = "fromUnixTimestamp64Nano"
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
            return f"Array({_type(max(value)) if value else 'String'})"  # the largest id needs most bits
    return "String"


@lru_cache(KEPT)
def translated(sql: str, types: Types, project: str | None = None) -> Translated:
    """A statement in ClickHouse's dialect, of the rows of one project if it is named; parameters `$name` become
    `{name:Type}`.
    """
    tree: Tree = sqlglot.parse_one(sql, read="duckdb")
    if project is not None:
        confine(tree, project)
    for rule in STRUCTURE:
        rule(tree)
    kinds = dict(types)
    for node in reversed(list(tree.walk())):  # from the leaves up, so that rules find what others have made
        changed = _changed(node, kinds)
        if changed is not node:
            node.replace(changed)
    names = dict.fromkeys(each.name for each in tree.find_all(exp.Placeholder))
    return Translated(tree.sql(dialect="clickhouse", comments=False), tuple(names))


def _hash(node: Tree) -> Tree:
    return call("cityHash64", call("tuple", *node.expressions))  # of a tuple: that of a null alone would be null


def _struct(node: Tree) -> Tree:
    named = (exp.alias_(each.expression.copy(), each.this.name, quoted=True) for each in node.expressions)
    return call("tuple", *named)


def _listed(order: Sequence[Tree], value: Tree) -> Tree:
    """All values with the null ones, which ClickHouse would leave out, in the order of `order`."""
    if not order:
        return _picked(call("groupArray", call("tuple", value)), 1)
    keys = [part for each in order for part in (call("isNull", each.this), each.this)]  # nulls last
    return _picked(call("arraySort", call("groupArray", call("tuple", call("tuple", *keys), value))), 2)


def _picked(tuples: Tree, place: int) -> Tree:
    name = exp.to_identifier("each")
    return call("arrayMap", exp.Lambda(this=call("tupleElement", "each", place), expressions=[name]), tuples)


def _array_agg(node: Tree) -> Tree:
    if isinstance(node.parent, exp.Window):  # of rows, which are never null
        return call("groupArray", node.this)
    if isinstance(node.this, exp.Order):
        return _listed(node.this.expressions, node.this.this)
    return _listed((), node.this)


def _joined(node: Tree) -> Tree:
    """`string_agg`, which leaves nulls out as `groupArray` does."""
    inner, separator = node.this, node.args["separator"]
    order = inner.expressions if isinstance(inner, exp.Order) else ()
    value = inner.this if isinstance(inner, exp.Order) else inner
    if isinstance(value, exp.Distinct):  # always in the order of the values themselves
        joined = call("arrayStringConcat", call("arraySort", call("groupUniqArray", value.expressions[0])), separator)
    else:
        joined = call("arrayStringConcat", _listed(order, value), separator)
    return call("nullIf", joined, exp.Literal.string(""))


def _lag(node: Tree) -> Tree:
    """Beyond the edge of a window, ClickHouse gives a column that is never null its default."""
    node.set("this", call("toNullable", node.this))
    return node


def _quantile(node: Tree) -> Tree:
    fraction = node.expression.name if isinstance(node, exp.PercentileCont) else "0.5"
    return exp.ParameterizedAgg(
        this="quantileExactInclusive", expressions=[exp.Literal.number(fraction)], params=[node.this.copy()]
    )


def _range(node: Tree) -> Tree:
    return call("range", *(call("toInt64", node.args[end]) for end in ("start", "end")))


def _concat_ws(node: Tree) -> Tree:
    separator, *parts = node.expressions
    return call("arrayStringConcat", exp.Array(expressions=[part.copy() for part in parts]), separator)


def _cast(node: Tree) -> Tree:
    """Nothing needs no type, and DuckDB's names of times are unknown: one without a zone has microseconds."""
    if isinstance(node.this, exp.Null):
        return node.this
    if not (isinstance(node.this, exp.Anonymous) and node.this.name == AT):
        return node
    if node.to.is_type("timestampntz"):
        micros = call("intDiv", exp.Add(this=node.this.expressions[0].copy(), expression=node_of(500)), 1000)  # rounded
        return call("fromUnixTimestamp64Micro", micros, exp.Literal.string("UTC"))
    return node.this


def _json_type(node: Tree) -> Tree:
    return exp.func("upper", call("toString", call("JSONType", node.this)))


def _json_text(node: Tree) -> Tree:
    """A text as it is, another value as JSON, null where there is none; by a path, or the JSON pointer of a name."""
    text, path = exp.func("coalesce", node.this, exp.Literal.string("")), node.expression
    if isinstance(path, exp.JSONPath):
        keys: list[Tree] = [
            exp.Literal.string(each.name) for each in path.expressions if isinstance(each, exp.JSONPathKey)
        ]
    else:
        keys = [call("substring", path, 2)]
        for escaped, plain in (("~1", "/"), ("~0", "~")):
            keys = [call("replaceAll", keys[0], exp.Literal.string(escaped), exp.Literal.string(plain))]
    is_text = exp.EQ(this=call("JSONType", text, *keys), expression=exp.Literal.string("String"))
    told = call("JSONExtractRaw", text, *keys)
    for nothing in ("", "null"):
        told = call("nullIf", told, exp.Literal.string(nothing))
    return call("if", is_text, call("toNullable", call("JSONExtractString", text, *keys)), told)


def _full_match(node: Tree) -> Tree:
    options = node.args.get("options")
    flags = f"(?{options.name})" if options else ""
    return call("match", node.this, exp.Literal.string(f"{flags}^(?:{node.expression.name})$"))


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
    since = exp.Sub(this=exp.paren(key.this.copy()), expression=node_of(EPOCH))
    key.set("this", exp.Div(this=call("toFloat64", since), expression=node_of(SECOND)))
    return node


def _extract(node: Tree) -> Tree:
    options, group = node.args.get("parameters"), node.args.get("group")
    flags = f"(?{options.name})" if options else ""
    pattern = call("concat", exp.Literal.string(flags), node.expression)
    return call("regexpExtract", node.this, pattern, group or 0)


def _placeholder(node: Tree, types: Mapping[str, str]) -> Tree:
    return exp.Placeholder(this=node.name, kind=types[node.name])


def _named(name: str, *keys: str) -> Callable[[Tree], Tree]:
    """A function of this name, of these arguments of the node."""
    return lambda node: call(name, *(node.args[key] for key in keys or ("this",)))


RULES: Mapping[type[exp.Expr], Callable[[Tree], Tree]] = {
    exp.ArrayAgg: _array_agg,
    exp.ArrayContains: _named("has", "this", "expression"),
    exp.ArrayDistinct: lambda node: call("arrayDistinct", node.this),
    exp.ArraySort: _named("arraySort"),
    exp.ArrayFilter: _named("arrayFilter", "expression", "this"),
    exp.BitwiseAnd: _named("bitAnd", "this", "expression"),
    exp.BitwiseLeftShift: _named("bitShiftLeft", "this", "expression"),
    exp.BitwiseOrAgg: _named("groupBitOr"),
    exp.Cast: _cast,
    exp.ConcatWs: _concat_ws,
    exp.Contains: lambda node: exp.GT(this=call("position", node.this, node.expression), expression=node_of(0)),
    exp.Explode: _named("arrayJoin"),
    exp.Filter: _filtered,
    exp.GenerateSeries: _range,
    exp.GroupConcat: _joined,
    exp.JSONExtractScalar: _json_text,
    exp.JSONKeys: lambda node: call("JSONExtractKeys", exp.func("coalesce", node.this, exp.Literal.string(""))),
    exp.JSONType: _json_type,
    exp.Lag: _lag,
    exp.Lead: _lag,
    exp.Left: _named("leftUTF8", "this", "expression"),
    exp.IgnoreNulls: lambda node: call("any", node.this.this),
    exp.IntDiv: _named("intDiv", "this", "expression"),
    exp.Length: _named("length"),  # always of a list
    exp.LogicalAnd: _named("min"),
    exp.LogicalOr: _named("max"),
    exp.Lower: _named("lowerUTF8"),
    exp.Median: _quantile,
    exp.PercentileCont: _quantile,
    exp.RegexpExtract: _extract,
    exp.RegexpExtractAll: _named("extractAll", "this", "expression"),
    exp.RegexpFullMatch: _full_match,
    exp.Right: _named("rightUTF8", "this", "expression"),
    exp.SplitPart: lambda node: exp.Bracket(
        this=call("splitByString", node.args["delimiter"], node.this), expressions=[node.args["part_index"]]
    ),
    exp.Struct: _struct,
    exp.Transform: _named("arrayMap", "expression", "this"),
    exp.Window: _window,
}

FUNCTIONS: Mapping[str, Callable[[Tree], Tree]] = {
    "arg_min_null": lambda node: call(
        "tupleElement", call("argMin", call("tuple", node.expressions[0]), node.expressions[1]), 1
    ),
    "hash": _hash,
    "make_timestamp_ns": lambda node: call(AT, node.expressions[0], exp.Literal.string("UTC")),
    "list_resize": lambda node: call("arrayResize", *node.expressions),
}


def _changed(node: Tree, types: Mapping[str, str]) -> Tree:
    if isinstance(node, exp.Placeholder) and not node.args.get("kind"):
        return _placeholder(node, types)
    if isinstance(node, exp.Table) and node.db == "main":  # as search.sql says it, of the local store
        return exp.to_table(node.name, alias=node.alias or None)
    if isinstance(node, exp.Column) and node.name == "rowid":
        return exp.column("event_id", node.table or None)
    called = isinstance(node, exp.Anonymous)
    rule = FUNCTIONS.get(node.name.lower()) if called else RULES.get(type(node))
    return rule(node) if rule else node
