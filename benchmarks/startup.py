"""How long a command takes to answer: --help and --cfg job beside a bare `import hydra`, each in a process of its own.

python -m benchmarks.startup [--quick]
"""

from __future__ import annotations

from benchmarks.processes import children
from benchmarks.timing import arguments, ratio, report

COMMANDS = {
    "import hydra": ["-c", "import hydra"],
    "spikelm-run --help": ["-c", "import sys; sys.argv[1:] = ['--help']; from spikelm.cli.main import run; run()"],
    "spikelm-run --cfg job": ["-m", "spikelm.cli.main", "--cfg", "job"],
    "spikelm-run task=glue/rtee": ["-m", "spikelm.cli.main", "task=glue/rtee"],
    "spikelm-export --help": [
        "-c",
        "import sys; sys.argv[1:] = ['--help']; from spikelm.cli.main import export; export()",
    ],
}


def main() -> None:
    args = arguments("Start-up")
    timings = children(COMMANDS, 2 if args.quick else min(args.repeats, 7))
    rows = [
        {
            "command": name,
            "/ import hydra": ratio(timing, timings["import hydra"]),
            "CPU seconds": timing.seconds,
            "seconds": timing.record(),
        }
        for name, timing in timings.items()
    ]
    report("startup", "start-up, CPU time", rows, args)


if __name__ == "__main__":
    main()
