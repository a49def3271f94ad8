"""Entry points. Nothing heavy is imported before --help, --cfg and bad overrides are dealt with."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from spikelm.config.settings.schema import Config
from spikelm.errors import SpikeLMError

if TYPE_CHECKING:
    from spikelm.runs.experiment import Finished
    from spikelm.runs.plan import PlannedRun

TOLD_BY_HYDRA = {"--info", "-i", "--hydra-help", "--cfg", "-c"}
NOBODY_READS = 141  # as shells have it for a program that SIGPIPE ends


def _guard(main: Callable[[], object]) -> None:
    """Run `main`; a SpikeLMError becomes its one clear message and exit code, a signal a stop without a traceback."""
    code = _exit_code(main)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _stop_printing()
    if code:
        sys.exit(code)


def _exit_code(main: Callable[[], object]) -> int | str | None:
    from spikelm.config.redact import redacted
    from spikelm.machine.signals import INTERRUPTED, Stopped, listening

    try:
        with listening():
            done = main()
        return done if isinstance(done, int) else 0
    except SpikeLMError as error:
        print(redacted(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return _stop_printing()
    except SystemExit as ended:  # --help and --version
        return ended.code


def _stop_printing() -> int:
    """Whoever read our output has gone (| head): what is still to be printed, also at the very end, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NOBODY_READS


def run() -> None:
    """spikelm-run: one run, or a sweep with -m."""
    _guard(_run)


def _run() -> int:
    from spikelm.cli.command_line import precheck
    from spikelm.config.compose import register_schema
    from spikelm.config.paths import config_dir
    from spikelm.sweeps import summary as sweep

    # Waiting threads spin for microseconds, then sleep: jobs often share cores. Read when torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    words = precheck(sys.argv[1:])
    if words is None:
        return 0
    sys.argv[1:] = words
    register_schema()
    import hydra

    main = hydra.main(config_path=str(config_dir()), config_name="config", version_base="1.3")(job)
    if TOLD_BY_HYDRA & {word.partition("=")[0] for word in words}:
        return _told(main)
    if _launched():
        return _run_as_rank(main)
    main()
    return 1 if sweep.failures or sweep.unrecorded else 0


def _told(main: Callable[[], object]) -> int:
    """What Hydra tells of itself, printed in one piece: its loggers would meet a reader who has gone line by line."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):  # Hydra ends the program after its help
        main()
    print(said.getvalue(), end="")
    return 0


def _launched() -> bool:
    """Whether torchrun or srun started this process as one of several."""
    return any(os.environ.get(name, "1") != "1" for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"))


def _run_as_rank(main: Callable[[], object]) -> int:
    """One of the processes that torchrun or srun started: the first runs the command, the others train with it."""
    from spikelm.errors import ConfigError
    from spikelm.training.devices.ranks import join, launched_ranks, leave, tell
    from spikelm.training.launch import serve

    if {"-m", "--multirun"} & set(sys.argv[1:]):
        # A failed job would leave the other ranks inside it while the first goes on to the next.
        raise ConfigError("a sweep cannot be launched by torchrun or srun", "spikelm-run -m ... trainer.devices=N")
    ranks = launched_ranks()
    join(ranks, "env://")
    if ranks.first:
        main()
        tell(None)  # not after a failure: the launcher ends the others then
    else:
        serve(ranks)
    leave()
    return 0


def job(cfg: DictConfig) -> None:
    """One job of Hydra's: a failure in a sweep is recorded for its summary and leaves its siblings alone."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from spikelm.config.checks import typed
    from spikelm.config.devices import crowding
    from spikelm.sweeps import summary as sweep

    config = typed(cfg)
    if _launched():
        from spikelm.training.devices.ranks import launched_ranks

        config.trainer.devices = launched_ranks().world  # the launcher decides
    elif not config.dry_run and (warning := crowding(config)):
        print(f"warning: {warning}", file=sys.stderr)
    runner: Callable[[Config], PlannedRun | Finished] = _plan if config.dry_run else _train
    if HydraConfig.get().mode == RunMode.RUN:
        _guard(lambda: runner(config))  # here, because Hydra would print a traceback of its own
    else:
        sweep.run_job(config, runner)


def _plan(config: Config) -> PlannedRun:
    """Say what would be run."""
    from rich.console import Console

    from spikelm.runs.plan import plan_run, show_plan

    planned = plan_run(config)
    show_plan(config, planned, Console())
    return planned


def _train(config: Config) -> Finished:
    """Run it, or find it in the store, and print its result."""
    from rich.console import Console

    from spikelm.report.show_result import show_result
    from spikelm.runs.experiment import run_experiment

    console = Console()
    finished = run_experiment(config, console)
    show_result(finished.result, finished.directory, console)
    return finished


def report() -> None:
    """spikelm-report: runs and tables from the store."""
    from spikelm.cli.report import main

    _guard(lambda: main(sys.argv[1:]))


def energy() -> None:
    """spikelm-energy: every term of a backbone's energy, without training."""
    from spikelm.cli.energy.energy_command import energy_main

    _guard(lambda: energy_main(sys.argv[1:]))


def audit() -> None:
    """spikelm-audit RUN: which matmuls of a finished run are spike-driven."""
    from spikelm.cli.audit_command import audit_main

    _guard(lambda: audit_main(sys.argv[1:]))


def export() -> None:
    """spikelm-export RUN: a trained classifier for inference, its amplitudes in its weights."""
    from spikelm.cli.export import export_main

    _guard(lambda: export_main(sys.argv[1:]))


def predict() -> None:
    """spikelm-predict FOLDER FILE: an exported classifier's answer to every row of a file."""
    from spikelm.cli.predict import predict_main

    _guard(lambda: predict_main(sys.argv[1:]))


def generate() -> None:
    """spikelm-generate RUN "text": what a model writes, and what that takes."""
    from spikelm.cli.generate import generate_main

    _guard(lambda: generate_main(sys.argv[1:]))


def prepare() -> None:
    """spikelm-prepare: all that a run reads, fetched and tokenised before it."""
    from spikelm.cli.prepare import prepare_main

    _guard(lambda: prepare_main(sys.argv[1:]))


def verify() -> None:
    """spikelm-verify: the store against its checksums."""
    from spikelm.cli.verify import verify_main

    _guard(lambda: verify_main(sys.argv[1:]))


def harness() -> None:
    """spikelm-harness: lm-evaluation-harness on the language models of spikelm."""
    from spikelm.cli.harness.harness_command import harness_main

    _guard(lambda: harness_main(sys.argv[1:]))


def doctor() -> None:
    """spikelm-doctor: what this machine has and misses for each scale, and whether its device computes correctly."""
    from spikelm.cli.doctor import doctor_main

    _guard(lambda: doctor_main(sys.argv[1:]))


if __name__ == "__main__":
    run()
