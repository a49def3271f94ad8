"""The launcher of `hydra/launcher=slurm`. Hydra looks nowhere else for one; the work is in spikelm/sweeps/slurm.py."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn

with contextlib.suppress(ImportError):  # of the extra `launchers`; Hydra looks in here whether it is installed or not
    from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher as SubmititSlurm

    class SlurmLauncher(SubmititSlurm):
        """submitit's, with jobs that are queued again when they are stopped, and a sweep that outlives a lost job."""

        def __call__(self, *args: Any, **kwargs: Any) -> JobReturn:
            """One job, on its node."""
            from spikelm.sweeps.slurm import stoppable

            with stoppable():
                return super().__call__(*args, **kwargs)

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            """All jobs as an array, until the last has ended; each has left a record then."""
            from spikelm.sweeps.slurm import run_array

            return run_array(self, job_overrides, initial_job_idx)
