"""Statements of the paper as checks on results (conf/claims.yaml): held, failed or not run, with the numbers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

import yaml

from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.report.claims.quantities import Quantity, measured
from spikelm.report.query.selection import Found, Results

Status = Literal["held", "failed", "not run"]


@dataclass(frozen=True)
class Claim:
    """A statement, the quantities it is about and what has to hold between them."""

    id: str
    section: str
    statement: str
    ours: dict[str, Quantity]
    holds: str  # a comparison of their names, as in Python
    paper: dict[str, float]  # the same quantities as the paper has them; may be fewer


@dataclass(frozen=True)
class Verdict:
    """A claim and what the runs of a selection say about it."""

    id: str
    section: str
    statement: str
    status: Status
    check: str  # what was compared
    numbers: dict[str, float] = field(default_factory=dict)  # ours, by name
    paper: dict[str, float] = field(default_factory=dict)  # the paper's own numbers, by name
    runs: tuple[str, ...] = ()  # ids
    missing: tuple[str, ...] = ()  # commands of the runs that are not finished
    reason: str = ""  # why it cannot be checked at this scale at all

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return dict(vars(self)) | {"runs": list(self.runs), "missing": list(self.missing)}


def load_claims() -> list[Claim]:
    """All claims, in the order of the paper."""
    raw = yaml.safe_load((config_dir() / "claims.yaml").read_text())
    return [
        Claim(**{**one, "ours": {name: Quantity(**of) for name, of in one["ours"].items()}}) for one in raw["claims"]
    ]


def check_claims(results: Results) -> list[Verdict]:
    """Every claim on whatever runs of the selection exist."""
    return [check_claim(claim, results) for claim in load_claims()]


def check_claim(claim: Claim, results: Results) -> Verdict:
    """Mean over the seeds that all of its quantities have; not run as long as there is no such seed."""
    values: dict[str, dict[int, float]] = {name: {} for name in claim.ours}
    used: dict[tuple[str, int], list[Found]] = {}
    missing: dict[str, None] = {}
    reason = ""
    for name, quantity in claim.ours.items():
        for seed in results.selection.seeds:
            try:
                value, used[name, seed] = measured(quantity, results, seed)
            except ConfigError as error:  # what this scale cannot run
                reason = error.what
                break
            lacking = [run for run in used[name, seed] if run.result is None]
            missing |= dict.fromkeys(run.wanted.command(results.selection) for run in lacking)
            if value is not None:
                values[name][seed] = value
    common = set.intersection(*(set(found) for found in values.values()))
    if common:  # means over other seeds for each quantity would compare seeds, not systems
        values = {name: {seed: found[seed] for seed in found if seed in common} for name, found in values.items()}
    numbers = {name: fmean(found.values()) for name, found in values.items() if found}
    runs = {run.run.id: None for name, found in values.items() for seed in found for run in used[name, seed]}
    status: Status = "not run"
    if len(numbers) == len(claim.ours):
        status = "held" if evaluate(claim.holds, numbers) else "failed"
    return Verdict(
        claim.id,
        claim.section,
        claim.statement,
        status,
        claim.holds,
        numbers,
        claim.paper,
        tuple(runs),
        tuple(missing),
        reason,
    )


_OPERATIONS: dict[type, Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq},
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


def evaluate(text: str, numbers: Mapping[str, float]) -> Any:
    """Arithmetic and comparisons of named numbers; nothing else of Python is let in."""

    def walk(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return walk(body)
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name) if name in numbers:
                return numbers[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](walk(left), walk(right))
            case ast.BoolOp(op=ast.And(), values=values):
                return all(walk(value) for value in values)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                sides = [walk(left), *map(walk, rest)]
                pairs = zip(sides[:-1], ops, sides[1:], strict=True)
                return all(_OPERATIONS[type(op)](a, b) for a, op, b in pairs)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(walk, args))
        raise ConfigError(f"a claim cannot say {ast.unparse(node)!r}", "arithmetic and comparisons of its quantities")

    return walk(ast.parse(text, mode="eval"))
