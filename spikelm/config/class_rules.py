"""What the arguments of a class may be, read from the annotations in its source: nothing is imported.

A config is checked before torch is loaded, so the class itself is not at hand. These annotations are understood:
bool, int, float, str, Literal[...], list[X], X | None, Annotated[X, Rule(...)], and a name that stands for one of them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spikelm.errors import ConfigError
from spikelm.rules import Rule

#: arguments that the program gives, not the config
GIVEN = ("self", "T", "memory")
PLAIN = {"bool": Rule(flag=True), "int": Rule(whole=True), "float": Rule(), "str": Rule(text=True)}


def rules_of(target: str) -> Mapping[str, Rule]:
    """Argument -> what it may be, for the class with this dotted name."""
    module, _, name = target.rpartition(".")
    definition = _find(module, name) if module else None
    if definition is None or not isinstance(definition.node, ast.ClassDef):
        raise ConfigError(f"there is no class {target}", "check the name of the class in `_target_`")
    return _rules(definition, target)


@dataclass(frozen=True)
class _Definition:
    """A class, or the value of an assignment, in the source of a module."""

    module: str
    node: ast.ClassDef | ast.expr


def _rules(definition: _Definition, target: str) -> dict[str, Rule]:
    body = definition.node.body if isinstance(definition.node, ast.ClassDef) else []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return {each.arg: _rule(each, definition.module, target) for each in named if each.arg not in GIVEN}
    for base in getattr(definition.node, "bases", []):
        inherited = _find(definition.module, base.id) if isinstance(base, ast.Name) else None
        if inherited is not None and isinstance(inherited.node, ast.ClassDef):
            return _rules(inherited, target)
    return {}


def _rule(argument: ast.arg, module: str, target: str) -> Rule:
    rule = _understood(argument.annotation, module) if argument.annotation else None
    if rule is None:
        said = ast.unparse(argument.annotation) if argument.annotation else "nothing"
        raise ConfigError(
            f"{target}: the annotation of {argument.arg} ({said}) does not say what it may be",
            "annotate it with bool, int, float, str, Literal[...] or Annotated[float, Rule(above=0)]",
        )
    return rule


def _understood(node: ast.expr, module: str) -> Rule | None:
    """The rule that an annotation means; None where it is of no known form."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _understood(ast.parse(node.value, mode="eval").body, module)
    if isinstance(node, ast.Name):
        if node.id in PLAIN:
            return PLAIN[node.id]
        alias = _find(module, node.id)
        return _understood(alias.node, alias.module) if alias and isinstance(alias.node, ast.expr) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and ast.unparse(node.right) == "None":
        inner = _understood(node.left, module)
        return inner and replace(inner, optional=True)
    if isinstance(node, ast.Subscript):
        return _subscripted(ast.unparse(node.value), node.slice, module)
    return None


def _subscripted(name: str, inside: ast.expr, module: str) -> Rule | None:
    parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    if name == "Literal":
        return Rule(choices=tuple(ast.literal_eval(part) for part in parts))
    first = _understood(parts[0], module)
    if name == "list":
        return first and replace(first, many=True)
    call = parts[-1]
    if name == "Annotated" and first and isinstance(call, ast.Call) and ast.unparse(call.func) == "Rule":
        bounds: dict[str, Any] = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        return replace(first, **bounds)
    return None


def _find(module: str, name: str) -> _Definition | None:
    """Where a name of a module is defined, imports followed; None where it is found in no source."""
    path = _path(module)
    for node in _parsed(path).body if path else []:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _Definition(module, node)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return _Definition(module, node.value)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _find(_imported(node, module, path), alias.name)
    return None


def _imported(node: ast.ImportFrom, module: str, path: Path | None) -> str:
    """The full name of the module that names are imported from; dots are counted from the package."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    up = node.level - (path is not None and path.name == "__init__.py")
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _path(module: str) -> Path | None:
    """The file of a module; only the spec of its top package is looked up, which imports nothing."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None
    if not spec.submodule_search_locations:
        return Path(spec.origin) if not rest and spec.origin and Path(spec.origin).is_file() else None
    for folder in spec.submodule_search_locations:
        place = Path(folder, *rest)
        for path in (place.with_suffix(".py") if rest else place, place / "__init__.py"):
            if path.is_file():
                return path
    return None
