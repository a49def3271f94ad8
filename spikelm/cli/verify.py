"""spikelm-verify: everything in the store that has a checksum is read and compared; what is damaged is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spikelm.catalog.quantities import counted
from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import add_runs_dir
from spikelm.store.checksums import SEAL, SUMS, broken_seal, damaged, damaged_in
from spikelm.store.store import RESULT_ONLY, Run, Store

if TYPE_CHECKING:
    from spikelm.store.result import Result

AGAIN = "force=true makes the run again"

VERIFY = Manual(
    "spikelm-verify",
    "the store against its checksums",
    "Reads every file of the runs, checkpoints and caches that has a checksum (sha256), and names those that are "
    "missing or not as they were written, with what becomes of each. Nothing is changed, unless --repair asks for it.",
    {
        "spikelm-verify": "look at the whole store",
        "spikelm-verify --repair": "and write damaged config.yaml files again",
    },
    {0: "nothing is damaged", 1: "something is, and stays so", 2: MISTAKE},
    ("docs/internals/reliability.md",),
)


@dataclass(frozen=True)
class Damage:
    """A damaged file and what becomes of it."""

    path: Path
    remedy: str


def verify_main(argv: Sequence[str]) -> int:
    """List what is damaged; 1 when something is and stays so. Without --repair nothing is written or moved."""
    parser = ManualParser(VERIFY)
    add_runs_dir(parser)
    parser.add_argument("--repair", action="store_true", help="write a damaged config.yaml again, from its result")
    args = parser.parse_args(argv)
    left = runs = only = 0
    for run in Store(args.runs_dir).runs():
        result, _ = run.examine()
        runs, only = runs + 1, only + (result is not None and run.has_only(result))
        for found in damage_of(run):
            repaired = args.repair and found.path.name == "config.yaml" and _write_config(run)
            left += not repaired
            print(f"{found.path}: {'written again from the result' if repaired else found.remedy}")
    for found in damaged_caches(args.runs_dir / ".cache"):
        left += 1
        print(f"{found.path}: {found.remedy}")
    if only:
        print(f"{RESULT_ONLY}: {only} of the runs, which came without weights and curves; their results are whole")
    print(f"{counted(runs, 'run')} looked at, {counted(left, 'file')} damaged")
    return 1 if left else 0


def damage_of(run: Run) -> Iterator[Damage]:
    """What of a run is missing or not as it was written."""
    result, problem = run.examine()
    if problem is not None:
        yield Damage(run.directory / "result.json", f"{problem}; the same command makes the run again")
    names = damaged(run.directory, result.files) if result and not run.has_only(result) else []
    for name in names:
        yield Damage(run.directory / name, f"{_wrong(run.directory / name)}; {_remedy(name)}")
    if "metrics.csv" not in names and (gap := missing_steps(run, result)):
        yield Damage(run.directory / "metrics.csv", f"{gap}; {_remedy('metrics.csv') if result else AGAIN}")
    for seal in sorted(run.checkpoints.glob(f"*.ckpt{SEAL}")):
        path = seal.with_name(seal.name.removesuffix(SEAL))
        if path.exists() and broken_seal(path):
            yield Damage(path, f"{_wrong(path)}; a run that goes on puts it aside and takes the one before it")


def missing_steps(run: Run, result: Result | None) -> str:
    """What is missing at the beginning of metrics.csv, in words; empty where it begins with the first logged loss."""
    rows, config = run.metrics(), result.config if result else run.saved_config()
    if not rows or config is None:
        return ""
    first = min(config.trainer.log_every, result.steps if result else config.trainer.log_every)
    losses = [step for step, name, _ in rows if name == "train/loss"]
    trained = 0 < first <= max(step for step, _, _ in rows)  # a run may not have come so far yet
    if not trained or (losses and min(losses) <= first):
        return ""
    begins = min(losses or [step for step, _, _ in rows])
    return f"begins at step {begins}, without the loss of step {first}, the first that the run logs"


def _wrong(path: Path) -> str:
    return "not as it was written" if path.exists() else "missing"


def _remedy(name: str) -> str:
    if name.startswith("model/"):
        return "a run that needs it makes it again"
    if name == "config.yaml":
        return "spikelm-verify --repair writes it again from the result, which is whole"
    return f"the result itself is whole; {AGAIN}"


def _write_config(run: Run) -> bool:
    if (result := run.result()) is None:
        return False
    run.write_config(result.config)
    return not damaged(run.directory, result.files, "config.yaml")


def damaged_caches(cache: Path) -> Iterator[Damage]:
    """Tokenised text, teachers' outputs and tokenizers that are not what they were."""
    remedy = "the next run that needs it makes it again"
    for sums in sorted(cache.glob(f"*/*/{SUMS}")):
        for name in damaged_in(sums.parent):
            yield Damage(sums.parent / name, f"{_wrong(sums.parent / name)}; {remedy}")
    for seal in sorted(cache.rglob(f"*{SEAL}")):
        path = seal.with_name(seal.name.removesuffix(SEAL))
        if path.exists() and broken_seal(path):
            yield Damage(path, f"{_wrong(path)}; {remedy}")
