"""What torch was built with and whether its GPUs can be used; asked of a process of its own, so that nothing hangs.

A driver that hangs, or a library that is missing, ends that process and not ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 20  # seconds: importing torch from a slow disk takes long
_QUESTION = """
import json, sys
sys.path.insert(0, sys.argv[1])
from dataclasses import asdict
import torch
from spikelm.machine.torch_build import asked_of
json.dump(asdict(asked_of(torch)), sys.stdout)
"""


@dataclass(frozen=True)
class TorchBuild:
    """torch's version and the versions of CUDA, cuDNN and NCCL that it was built with; None for a build without."""

    version: str
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None


@dataclass(frozen=True)
class TorchAnswer:
    """A build, how many GPUs it can use, and why it cannot use them where it cannot."""

    build: TorchBuild | None
    gpus: int = 0
    trouble: str | None = None


def build_of(torch: Any) -> TorchBuild:
    """The build of torch, given the module that its user has loaded."""
    cuda = torch.version.cuda
    if cuda is None:
        return TorchBuild(torch.__version__)
    cudnn = torch.backends.cudnn.version()
    nccl = torch.cuda.nccl.version() if torch.distributed.is_nccl_available() else None
    return TorchBuild(
        torch.__version__, cuda, None if cudnn is None else str(cudnn), ".".join(map(str, nccl)) if nccl else None
    )


def asked_of(torch: Any) -> TorchAnswer:
    """What torch says of its GPUs; it may take seconds, and hangs where the driver does."""
    build = build_of(torch)
    if build.cuda is None:
        return TorchAnswer(build)
    try:
        torch.cuda.init()
        for index in range(torch.cuda.device_count()):
            if not _supported(torch.cuda.get_device_capability(index), torch.cuda.get_arch_list()):
                name, kinds = torch.cuda.get_device_name(index), " ".join(torch.cuda.get_arch_list())
                return TorchAnswer(build, 0, f"this build of torch has no kernels for a {name} (only {kinds})")
    except Exception as error:  # RuntimeError of the driver, AssertionError of torch, whatever else it has
        return TorchAnswer(build, 0, str(error).partition("\n")[0])
    return TorchAnswer(build, torch.cuda.device_count())


def _supported(capability: tuple[int, int], kinds: list[str]) -> bool:
    """Kernels of the same major version and no newer minor one run; compute_XX is compiled for any newer GPU."""
    for kind in kinds:
        word, _, digits = kind.partition("_")
        number = int("".join(digit for digit in digits if digit.isdigit()))
        version = divmod(number, 10)
        if version <= capability and (word == "compute" or version[0] == capability[0]):
            return True
    return False


def ask_torch() -> TorchAnswer:
    """What the torch of this interpreter says, or why it cannot be asked."""
    command = [sys.executable, "-W", "ignore", "-c", _QUESTION, str(Path(__file__).resolve().parents[2])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return TorchAnswer(None, 0, f"torch did not answer within {PATIENCE} seconds")
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with code {done.returncode}"]
        return TorchAnswer(None, 0, last[0])
    answer = json.loads(done.stdout)
    return TorchAnswer(TorchBuild(**answer["build"]), answer["gpus"], answer["trouble"])
