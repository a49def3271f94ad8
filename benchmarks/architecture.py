"""The house in numbers: modules, rooms, names used twice, contracts, config keys, long functions, import cycles.

python -m benchmarks.architecture [FOLDER] [-v]     FOLDER: a checkout (default: this one), to compare two of them
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

PACKAGE = "spikelm"
MANY = 8  # parameters

Graph = dict[str, set[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Line:
    """One line of the table; `details` are printed with -v."""

    what: str
    value: str
    details: tuple[str, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description="Numbers of the architecture of a checkout of spikelm.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("-v", "--verbose", action="store_true", help="list the names behind the counts")
    args = parser.parse_args()
    folder = args.folder.resolve()
    if not (folder / PACKAGE).is_dir():
        parser.error(f"{folder} has no folder {PACKAGE}/")
    show([*source_lines(folder), contract_line(folder), config_line(folder)], args.verbose)


def show(lines: list[Line], verbose: bool) -> None:
    width = max(len(line.what) for line in lines)
    for line in lines:
        print(f"{line.what:<{width}}  {line.value}")
        for detail in line.details if verbose else ():
            print(f"{'':<{width}}    {detail}")


def source_lines(folder: Path) -> list[Line]:
    """All that is read from the source files alone."""
    package = folder / PACKAGE
    sources = {path.relative_to(package): path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    modules = [path for path in sources if path.name != "__init__.py"]
    room, size = largest_room(modules)
    names = Counter(path.name for path in modules)
    repeated = sorted(name for name, count in names.items() if count > 1)
    functions = {f"{path}: {name}": node for path, tree in trees.items() for name, node in functions_of(tree)}
    longest = max(functions, key=lambda name: length(functions[name]), default="")
    crowded = {name: parameters(node) for name, node in functions.items() if parameters(node) > MANY}
    cycles = [members for members in components(room_graph(trees)) if len(members) > 1]
    twice = tuple(f"{name}: {names[name]} times" for name in repeated)
    many = tuple(f"{name}: {count}" for name, count in crowded.items())
    knots = tuple(", ".join(sorted(members)) for members in cycles)
    return [
        Line("modules", str(len(modules))),
        Line("modules at the top", str(sum(len(path.parts) == 1 for path in modules))),
        Line("largest room", f"{room}/ with {size} modules" if room else "none"),
        Line("file names used more than once", str(len(twice)), twice),
        Line("dict[str, Any]", str(sum(text.count("dict[str, Any]") for text in sources.values()))),
        Line("longest function", f"{longest}, {length(functions[longest])} lines" if longest else "none"),
        Line(f"functions with more than {MANY} parameters", str(len(many)), many),
        Line("import cycles between rooms", str(len(knots)), knots),
    ]


def largest_room(modules: list[Path]) -> tuple[str, int]:
    """The folder below the package with most modules directly in it."""
    counts = Counter(path.parent.as_posix() for path in modules if len(path.parts) > 1)
    return max(sorted(counts.items()), key=lambda item: item[1], default=("", 0))


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions of a module with their qualified names, methods and nested ones included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
        inner = f"{prefix}{node.name}." if isinstance(node, Function | ast.ClassDef) else prefix
        yield from functions_of(node, inner)


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """How many a caller may give: `self` and `cls` do not count."""
    given = function.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    return sum(name.arg not in ("self", "cls") for name in names)


def room_graph(trees: dict[Path, ast.Module]) -> Graph:
    """Which room imports which, wherever in a file it does; a module at the top of the package is a room by itself."""
    rooms = {path.parts[0].removesuffix(".py") for path in trees} - {"__init__"}
    graph: Graph = {room: set() for room in rooms}
    for path, tree in trees.items():
        room = path.parts[0].removesuffix(".py")
        if room in rooms:
            imported = {name for module in imports(tree, path) for name in module.split(".")[1:2]}
            graph[room] |= (imported & rooms) - {room}
    return graph


def imports(tree: ast.Module, path: Path) -> Iterator[str]:
    """Full names of what a file of the package imports from the package; `from a import b` gives a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = [PACKAGE, *path.parts[:-1]]
            start = above[: len(above) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == PACKAGE)


def components(graph: Graph) -> list[set[str]]:
    """Strongly connected components: rooms that reach each other. The graph is small, so reachability is enough."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {node: frozenset({node, *(other for other in reach[node] if node in reach[other])}) for node in graph}
    return sorted((set(group) for group in set(groups.values())), key=lambda group: (-len(group), sorted(group)))


def reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        waiting += (new := graph[waiting.pop()] - seen)
        seen |= new
    return seen


def contract_line(folder: Path) -> Line:
    """What lint-imports says about the contracts of the checkout's pyproject.toml."""
    what = "import contracts"
    project = folder / "pyproject.toml"
    if not project.exists() or "importlinter" not in tomllib.loads(project.read_text()).get("tool", {}):
        return Line(what, "0 kept")
    linter = Path(sys.executable).with_name("lint-imports")
    done = run_in(folder, str(linter), "--no-cache", "--no-logo")
    verdict = re.search(r"Contracts: (\d+ kept, \d+ broken)", done.stdout)
    broken = tuple(re.findall(r"^(.+) BROKEN\b", done.stdout, re.MULTILINE))
    return Line(what, verdict[1] if verdict else failure(done), broken)


def config_line(folder: Path) -> Line:
    """Keys of what `spikelm-run --cfg job` prints without any override."""
    what = "config keys of a default run"
    main = next((name for name in ("cli/main.py", "cli.py") if (folder / PACKAGE / name).exists()), None)
    if main is None:
        return Line(what, "no command line")
    module = f"{PACKAGE}/{main}".removesuffix(".py").replace("/", ".")
    done = run_in(folder, sys.executable, "-m", module, "--cfg", "job")
    if done.returncode:
        return Line(what, failure(done))
    config = yaml.safe_load(done.stdout)
    return Line(what, str(leaves(config)), tuple(f"{key}: {leaves(value)}" for key, value in config.items()))


def leaves(value: object) -> int:
    """A list is one leaf, and so is an empty mapping."""
    return sum(map(leaves, value.values())) if isinstance(value, dict) and value else 1


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"failed with exit code {done.returncode}: {said[-1] if said else 'nothing was said'}"


if __name__ == "__main__":
    main()
