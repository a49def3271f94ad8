"""Where a run was made: commit, platform, versions of libraries, GPUs and what drives them."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spikelm import __version__
from spikelm.machine.gpus import Gpu, gpus
from spikelm.machine.torch_build import TorchBuild

LIBRARIES = (
    "torch", "lightning", "transformers", "tokenizers", "datasets", "torchmetrics", "safetensors",
    "hydra-core", "omegaconf", "wandb", "numpy", "sacrebleu", "rouge-score",
)  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """environment.json: the commit (None outside a checkout of this project), the platform, the libraries, the GPUs.

    `cuda`, `cudnn` and `nccl` are those that torch was built with: None for a build without CUDA.
    """

    git_commit: str | None
    git_dirty: bool | None
    python: str
    platform: str
    cpu_count: int | None
    versions: dict[str, str]
    gpus: tuple[Gpu, ...] = ()
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None


def _git(*arguments: str) -> str | None:
    package = Path(__file__).resolve().parents[1]
    command = ["git", "--no-optional-locks", "-C", str(package), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def environment(torch_build: TorchBuild | None = None) -> Environment:
    """Commit, platform, versions and GPUs; no environment variables, no host or user names.

    Whoever has loaded torch passes on what it was built with.
    """
    # An installed copy inside somebody else's checkout must not claim that checkout's commit.
    ours = _git("rev-parse", "--show-toplevel") == str(Path(__file__).resolve().parents[2])
    commit = _git("rev-parse", "HEAD") if ours else None
    status = _git("status", "--porcelain") if commit else None
    versions = {library: version for library in LIBRARIES if (version := _version(library))}
    versions["spikelm"] = __version__  # a checkout that was never installed has no metadata
    return Environment(
        git_commit=commit,
        git_dirty=None if status is None else bool(status),
        python=platform.python_version(),
        platform=platform.platform(),
        cpu_count=os.cpu_count(),
        versions=versions,
        gpus=gpus(),
        cuda=torch_build.cuda if torch_build else None,
        cudnn=torch_build.cudnn if torch_build else None,
        nccl=torch_build.nccl if torch_build else None,
    )
