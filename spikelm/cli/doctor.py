"""spikelm-doctor: is this machine ready for a scale; with --check, does its device compute what the CPU computes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import add_runs_dir
from spikelm.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from spikelm.runs.doctor.finding import Finding

DOCTOR = Manual(
    "spikelm-doctor",
    "what this machine has and what it misses for each scale",
    "Looks at cores, memory, disk, GPUs, compilers, libraries, the network and the data of a scale, and gives the "
    "command that mends each shortcoming. With --check it compares the device's arithmetic with the CPU's instead.",
    {
        "spikelm-doctor": "is this machine ready for the first runs?",
        "spikelm-doctor --scale minilm source.root=DIR": "and for MiniLM's weights, with the files of GLUE in DIR?",
        "spikelm-doctor --check --quick": "does the device compute what the CPU computes? A minute or two",
    },
    {0: "ready", 1: "something is a problem at the scale that was asked for", 2: MISTAKE},
    ("docs/guide/doctor.md",),
)
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}
WIDTH = 100  # where nobody says how wide the page is


def doctor_main(argv: Sequence[str]) -> int:
    """Print what is there and what is missing; 1 when something is a problem at the scale that was asked for."""
    parser = ManualParser(DOCTOR)
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="where the data of the scale are, as for spikelm-run"
    )
    parser.add_argument("--scale", choices=("smoke", "mini", "minilm", "paper"), default="mini", help="ready for what")
    add_runs_dir(parser, trains=True)
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON, printed or written to a file")
    parser.add_argument("--check", action="store_true", help="compare the device's arithmetic with the CPU's instead")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="of --check (default: cuda where there is a GPU)")
    parser.add_argument("--quick", action="store_true", help="of --check: small models, a minute or two")
    args = parser.parse_intermixed_args(argv)
    if args.check:
        return _check(args)
    if args.device or args.quick:
        raise ConfigError("--device and --quick are for --check", "spikelm-doctor --check --quick")
    if args.overrides and args.scale in ("smoke", "mini"):
        raise ConfigError(
            f"{' '.join(args.overrides)}: scale={args.scale} reads no data of yours", "spikelm-doctor --scale minilm"
        )
    from rich.console import Console

    from spikelm.runs.doctor.facts import gather
    from spikelm.runs.doctor.judgement import judged

    findings = judged(gather(args.runs_dir, args.scale, args.overrides))
    ready = all(finding.at(args.scale) != "problem" for finding in findings)
    record = {"scale": args.scale, "ready": ready, "findings": [asdict(finding) for finding in findings]}
    _as_json(record, args.json)
    if args.json != "-":
        _show(findings, args.scale, ready, _console(Console))
    return 0 if ready else 1


def _console(kind: type[Console]) -> Console:
    console = kind(highlight=False)
    return console if console.is_terminal else kind(highlight=False, width=max(console.width, WIDTH))


def _as_json(record: dict[str, object], where: str | None) -> None:
    """A token in an address (HF_ENDPOINT) must not come out here either."""
    from spikelm.config.redact import redacted

    if where is None:
        return
    text = redacted(json.dumps(record, indent=1, default=str))
    if where == "-":
        print(text)
    else:
        try:
            Path(where).parent.mkdir(parents=True, exist_ok=True)
            Path(where).write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--json {where} cannot be written: {error.strerror}", "--json FILE") from error


def _show(findings: Sequence[Finding], scale: str, ready: bool, console: Console) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from spikelm.config.redact import redacted
    from spikelm.runs.doctor.finding import SCALES

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("what is there", ratio=1)
    for title in ("smoke, mini", "minilm", "paper"):
        table.add_column(title, no_wrap=True)
    for finding in findings:
        states = [f"[{STYLES[state]}]{state}[/]" for state in finding.states.values()]
        table.add_row(finding.subject, escape(redacted(finding.says)), *states)
    console.print(table)
    wanting = [finding for finding in findings if finding.at(scale) != "ok"]
    for finding in sorted(wanting, key=lambda finding: finding.at(scale) != "problem"):
        state = finding.at(scale)
        says = f"[{STYLES[state]}]{state}[/] {finding.subject}: {escape(redacted(finding.fix))}"
        console.print(says, soft_wrap=True)
    wanted = "mini" if scale == "smoke" else scale
    short = [name for name in SCALES if any(finding.at(name) != "ok" for finding in findings)]
    others = [f"--scale {name}" for name in short if name != wanted]
    fixes = f"; the fixes of other scales: spikelm-doctor {' or '.join(others)}" if others else ""
    console.print(f"scale={scale}: {'ready' if ready else '[bold red]not ready[/]'}{fixes}", soft_wrap=True)


def _check(args: argparse.Namespace) -> int:
    """Run the comparisons; the record goes to a file, a table for an issue to the screen."""
    from rich.console import Console

    from spikelm.cli.device_table import print_device_report, told
    from spikelm.machine.gpus import gpus
    from spikelm.training.device_check.report import check_device
    from spikelm.training.fit import quiet_libraries

    quiet_libraries()
    progress = Console(stderr=True, highlight=False)
    with progress.status("checking"):
        device = args.device or ("cuda" if gpus() else "cpu")
        report = check_device(device, args.quick, lambda result: progress.print(told(result), soft_wrap=True))
    _as_json(asdict(report), args.json)
    if args.json != "-":
        print_device_report(report)
    return 1 if report.problems else 0
