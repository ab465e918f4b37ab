"""The shape of statements as ClickHouse takes it: what they read, how it is joined, how columns are named.

Each rule changes a tree of `sqlglot` in place; what stands in single nodes is for `dialect.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

Tree = Any  # a node of sqlglot, which knows only when it runs what it has


FLAGS = (
    exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean, exp.LogicalAnd, exp.LogicalOr, exp.RegexpLike, exp.StartsWith,
)  # fmt: skip
# What is of the type of what it contains.
LIKE_FIRST = (
    exp.Paren, exp.Max, exp.Min, exp.ArgMax, exp.ArgMin, exp.AnyValue, exp.Filter, exp.IgnoreNulls, exp.Window,
)  # fmt: skip


def call(name: str, *arguments: Tree | str | int) -> exp.Anonymous:
    """A function of ClickHouse; a text is the name of a column."""
    return exp.Anonymous(this=name, expressions=[node_of(each) for each in arguments])


def node_of(value: Tree | str | int) -> Tree:
    """A copy of a node, a column of this name, or a number."""
    if isinstance(value, int):
        return exp.Literal.number(value)
    return exp.column(value) if isinstance(value, str) else value.copy()


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
    found = {
        type(each): each.expression.name for each in where.find_all(exp.GTE, exp.LT) if each.this.name == "time_ns"
    }
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
            other, keys, more = _keys(join)
            there = exp.select(*(right for _, right in keys)).from_(other).where(*more)
            found: Tree = exp.In(this=exp.Tuple(expressions=[left for left, _ in keys]), query=there.subquery())
            join.pop()
            select.where(exp.not_(found) if join.kind == "ANTI" else found, copy=False)


def _keys(join: Tree) -> tuple[Tree, list[tuple[Tree, Tree]], list[Tree]]:
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
            pairs.append((call("isNull", left), call("isNull", right)))
            left, right = (exp.func("coalesce", side, exp.Literal.string("")) for side in (left, right))
        pairs.append((left, right))
    return join.this.copy(), pairs, more


def _without_nulls(tree: Tree) -> None:
    """Refuses `exists` with comparisons that take nulls for equal: where a column of the outer row is null, ClickHouse
    26.9 finds nothing. A semi or an anti join says the same, and `_half_joins` makes it right.
    """
    for each in tree.find_all(exp.Exists):
        if each.find(exp.NullSafeEQ):
            raise ValueError(f"{each.sql(dialect='duckdb')}: a semi or an anti join, for ClickHouse")


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
            listed.replace(call("arrayJoin", listed.expressions[0].copy()))


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


def _replaced(tree: Tree) -> None:
    """`insert or replace … by name`: rows are versions, of which the last counts."""
    if isinstance(tree, exp.Delete):
        tree.set("this", exp.to_table(f"{tree.this.name}_rows"))
    if isinstance(tree, exp.Insert):
        table: Tree = exp.to_table(f"{tree.this.name}_rows")
        told = tree.expression
        if isinstance(told, exp.Values):
            tree.set("expression", exp.select(*told.expressions[0].expressions))
        else:
            columns = [exp.to_identifier(name) for name in told.named_selects]
            table = exp.Schema(this=table, expressions=columns)
        tree.set("this", table)
        tree.set("alternative", None)
        tree.set("by_name", None)


def _not_materialized(tree: Tree) -> None:
    """ClickHouse 26.9 reads what WITH materializes before it is complete where it is read more than once."""
    for each in tree.find_all(exp.CTE):
        each.set("materialized", None)


def _is_flag(node: Tree) -> bool:
    """Whether an expression is true or false: ClickHouse makes 1 and 0 of some."""
    if isinstance(node, LIKE_FIRST):
        return _is_flag(node.this)
    if isinstance(node, exp.Coalesce):
        return any(_is_flag(each) for each in (node.this, *node.expressions))
    if isinstance(node, exp.Case):
        ends = (*(each.args["true"] for each in node.args["ifs"]), node.args.get("default"))
        return any(_is_flag(each) for each in ends if each)
    return isinstance(node, FLAGS)


STRUCTURE: tuple[Callable[[Tree], None], ...] = (
    _replaced, _without_hours, _by_name, _half_joins, _without_nulls, _unnested, _signed, _named,
    _flags, _not_materialized,
)  # fmt: skip
