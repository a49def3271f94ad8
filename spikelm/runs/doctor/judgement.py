"""From what is there to what it is good for: one finding per subject. docs/guide/doctor.md explains every line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spikelm.catalog.quantities import gigabytes
from spikelm.machine.installed import Difference
from spikelm.runs.doctor.facts import Asked, Facts
from spikelm.runs.doctor.finding import SCALES, Finding, State, everywhere, finding

Needs = dict[str, tuple[float, float]]  # by scale: the least, and enough
OLDEST_PYTHON = (3, 11)
#: GB of disk without which not even one run of the scale and what it needs has room, and with which a table has
DISK: Needs = {"mini": (0.5, 5), "minilm": (3, 30), "paper": (60, 200)}
#: GB of memory, the same
MEMORY: Needs = {"mini": (1.5, 6), "minilm": (4, 8), "paper": (16, 64)}
SMALL_GPU = 20  # GB: below what a 24 GB card has, and what paper-scale settings were computed for
CORES_PER_GPU = 5  # trainer.workers=4 of scale=paper, and the process that trains
CUDA_TORCH = "make setup TORCH_INDEX=https://download.pytorch.org/whl/cu126, or pip install torch from that index"
NAMED = 3  # libraries that a line names


def judged(facts: Facts) -> list[Finding]:
    """Every line, in the order in which a machine is set up."""
    return [
        _python(),
        _libraries(facts.unmet, facts.others),
        _torch(facts),
        _gpus(facts),
        _compile(facts),
        _memory(facts),
        _cores(facts),
        _meters(facts),
        _disk(facts),
        _hub(facts.hub, prepared=not facts.data["paper"].missing),
        _wandb(facts.wandb),
        _slurm(facts),
        _rows(facts),
        _text(facts),
    ]


def _python() -> Finding:
    version, oldest = sys.version_info, ".".join(map(str, OLDEST_PYTHON))
    says = f"{version.major}.{version.minor}.{version.micro} in {sys.prefix}"
    state: State = "ok" if version[:2] >= OLDEST_PYTHON else "problem"
    return everywhere("Python", state, says, f"Python {oldest} or newer: make setup PYTHON=python{oldest}")


def _libraries(unmet: Sequence[Difference], others: Sequence[Difference] | None) -> Finding:
    if unmet:
        return everywhere("libraries", "problem", f"missing or too old: {_named(unmet)}", "make setup")
    if others is None:
        return everywhere("libraries", "ok", "as the package requires them (no checkout to compare with)")
    if others:
        return everywhere("libraries", "warning", f"not as in constraints.txt: {_named(others)}", "make setup")
    return everywhere("libraries", "ok", "as in constraints.txt")


def _named(others: Sequence[Difference]) -> str:
    words = [f"{item.library} {item.installed or 'missing'} (not {item.wanted})" for item in others[:NAMED]]
    return ", ".join(words) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")


def _torch(facts: Facts) -> Finding:
    answer = facts.torch
    if answer.build is None:
        return everywhere("torch", "problem", f"cannot be loaded: {answer.trouble}", "make setup")
    build = answer.build
    says = f"{build.version}, " + (
        f"CUDA {build.cuda}, cuDNN {build.cudnn}, NCCL {build.nccl}" if build.cuda else "a build for the CPU"
    )
    if build.cuda is None:
        gpus = len(facts.driver.gpus)
        if gpus:  # a machine that has them and does not use them: seldom what is meant
            return finding("torch", f"{says}, but there are {gpus} GPUs", CUDA_TORCH, "warning", "warning", "problem")
        return finding("torch", says, CUDA_TORCH, paper="problem")
    if answer.trouble:
        fix = "a newer driver, or a build for an older CUDA: make setup TORCH_INDEX=.../whl/cu126"
        return finding("torch", f"{says}; {answer.trouble}", fix, "warning", "warning", "problem")
    return everywhere("torch", "ok", says)


def _gpus(facts: Facts) -> Finding:
    gpus = facts.driver.gpus
    if not gpus:
        fix = "a machine with GPUs and their driver (nvidia-smi); trainer.accelerator=cpu for a trial"
        return finding("GPUs", facts.driver.trouble or "none that this process may use", fix, paper="problem")
    kinds = {(gpu.name, round(gpu.memory_gb), gpu.driver) for gpu in gpus}
    listed = "; ".join(
        f"{sum((gpu.name, round(gpu.memory_gb)) == (name, memory) for gpu in gpus)} x {name}, {memory} GB"
        for name, memory, _ in sorted(kinds)
    )
    says = f"{listed}; driver {gpus[0].driver}"
    if facts.torch.build is not None and facts.torch.build.cuda and facts.torch.gpus < len(gpus):
        unseen = f"{says}; torch can use {facts.torch.gpus} of them"
        return finding("GPUs", unseen, "see the line of torch", "warning", "warning", "problem")
    if min(gpu.memory_gb for gpu in gpus) < SMALL_GPU:
        return finding("GPUs", says, "trainer.micro_batch=N: spikelm-run scale=paper ... dry_run=true", paper="warning")
    return everywhere("GPUs", "ok", says)


def _compile(facts: Facts) -> Finding:
    on_gpu = bool(facts.driver.gpus)
    missing = facts.missing_on_gpu if on_gpu else facts.missing_on_cpu
    device = "a GPU" if on_gpu else "the CPU"
    if not missing:
        tools = "headers, Triton and a C compiler" if on_gpu else "headers, OpenMP and a C++ compiler"
        return everywhere("torch.compile", "ok", f"has what it needs for {device}: {tools}")
    says = f"for {device} there is no {', no '.join(item.what.removeprefix('a ') for item in missing)}"
    fix = "; ".join(item.fix for item in missing)
    return finding("torch.compile", f"{says}; neurons are slower without", fix, paper="warning")


def _by_scale(value: float, needs: Needs) -> dict[str, State]:
    return {
        scale: "problem" if value < least else "warning" if value < enough else "ok"
        for scale, (least, enough) in needs.items()
    }


def _stated(needs: Needs, states: dict[str, State]) -> str:
    """What the first scale needs that does not have enough."""
    for scale in SCALES:
        if states[scale] != "ok":
            least, enough = needs[scale]
            return f"{scale} needs {least:g} GB, {enough:g} for a table"
    return ""


def _memory(facts: Facts) -> Finding:
    if facts.memory is None:
        return everywhere("memory", "ok", "this system does not say")
    states = _by_scale(facts.memory.available_gb, MEMORY)
    says = f"{gigabytes(facts.memory.available_gb)} of {gigabytes(facts.memory.total_gb)} available"
    fix = f"{_stated(MEMORY, states)}: fewer jobs at a time, or a larger machine"
    return finding("memory", says, fix, **states)


def _cores(facts: Facts) -> Finding:
    wanted = CORES_PER_GPU * max(1, len(facts.driver.gpus))
    enough = facts.cores >= wanted
    fix = f"{CORES_PER_GPU} cores for each GPU (cpus_per_task on Slurm), or trainer.workers=1"
    return finding("cores", f"{facts.cores} usable", fix, paper="ok" if enough else "warning")


def _meters(facts: Facts) -> Finding:
    """No run needs them: without, its measured energy is left out."""
    missing = facts.meters.missing
    if facts.meters.found:
        says = "; ".join([str(facts.meters), *(f"{one.what} is not counted: {one.because}" for one in missing)])
    else:
        says = "none: " + "; ".join(one.because for one in missing)
    fix = "; ".join(one.fix for one in missing if one.fix)
    return finding("energy meters", says, fix, paper="warning" if fix else "ok")


def _disk(facts: Facts) -> Finding:
    disk = facts.disk
    elsewhere = "SPIKELM_RUNS=/other/disk, or runs_dir=/other/disk"
    if not disk.writable:
        return everywhere("disk", "problem", f"{disk.folder} cannot be written to", elsewhere)
    states = _by_scale(disk.free_gb, DISK)
    says = f"{gigabytes(disk.free_gb)} free at {disk.folder}"
    return finding("disk", says, f"{_stated(DISK, states)}: {elsewhere}", **states)


def _hub(asked: Asked, prepared: bool) -> Finding:
    service = asked.service
    token = "a token is there" if service.logged_in else "no token"
    if asked.trouble is None:
        variable = service.forbidden.partition("=")[0]
        says = f"not asked, because {service.forbidden} is set; {token}"
        return finding("hub", says, f"unset {variable}", paper="warning" if prepared else "problem")
    if asked.trouble:
        says = f"{service.host} is not reachable ({asked.trouble}); {token}"
        fix = "a connection or proxy (HTTPS_PROXY, HF_ENDPOINT), or source.mirror=DIR with the repositories"
        return finding("hub", says, fix, paper="warning" if prepared else "problem")
    says = f"{service.host} is reachable; {token}"
    return finding("hub", says, "hf auth login: downloads without it are slowed", paper=_needs(service.logged_in))


def _needs(condition: bool) -> State:
    return "ok" if condition else "warning"


def _wandb(asked: Asked) -> Finding:
    """A tracker never stops a run: offline records can be sent later."""
    service = asked.service
    login = "logged in" if service.logged_in else "not logged in"
    if asked.trouble is None:
        variable = service.forbidden.partition("=")[0]
        says = f"not asked, because {service.forbidden} is set; {login}"
        return finding("W&B", says, f"unset {variable}, then tracker.mode=online", paper="warning")
    if asked.trouble:
        says = f"{service.host} is not reachable ({asked.trouble}); {login}"
        return finding("W&B", says, "runs are kept offline: wandb sync sends them later", paper="warning")
    says = f"{service.host} is reachable; {login}"
    return finding("W&B", says, "wandb login, then tracker.mode=online", paper=_needs(service.logged_in))


def _slurm(facts: Facts) -> Finding:
    if facts.allocation:
        return everywhere("Slurm", "ok", f"inside job {facts.allocation}")
    says = "sinfo and sbatch are there" if facts.slurm else "none; runs start on this machine"
    return everywhere("Slurm", "ok", says)


def _rows(facts: Facts) -> Finding:
    data = facts.data["minilm"]
    says = data.missing or data.there
    fix = data.fix or "spikelm-doctor --scale minilm source.root=DIR looks for the files there"
    return finding("data (minilm)", says, fix, minilm="problem" if data.missing else "ok")


def _text(facts: Facts) -> Finding:
    data = facts.data["paper"]
    says = "; ".join(word for word in (data.missing, data.there) if word)
    return finding("data (paper)", says, data.fix, paper="problem" if data.missing else "ok")
