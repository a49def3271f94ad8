"""A real Slurm of one node on loopback, from Debian's slurm-wlm: munged, slurmctld and slurmd in a folder of their own.

    python tests/faults/one_node.py COMMAND ...     # run a command inside it; it is taken down whatever happens

No systemd, no cgroups, no accounting. `clusters()` is the same as a context manager.
"""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
PATIENCE = 60.0  # seconds
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl.h
CONF = """\
ClusterName=onenode
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=30
MinJobAge={keep}
RebootProgram=/bin/true
NodeName={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> str:
    """Why there can be no Slurm here, empty when there can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "slurmd is started by root only"


@contextlib.contextmanager
def clusters(cpus: int = 2, keep: int = 300) -> Iterator[dict[str, str]]:
    """A running Slurm; what its commands need in the environment.

    Of two partitions, `high` preempts `low`, the default. `keep` is for how many seconds an ended job is remembered.
    """
    folder = Path(tempfile.mkdtemp(prefix="one-node-slurm-"))
    folder.chmod(0o755)
    env = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        _write(folder, cpus, keep)
        for command in _commands(folder):
            daemons.append(_start(command, env, folder / f"{Path(command[0]).name}.out"))
            if command[0] == "munged":
                _until((folder / "munge" / "socket").exists, "munged opens its socket", folder)
        _until(
            lambda: _answer(env, "sinfo", "--noheader", "--format=%T") in ("idle", "idle\nidle"), "idle node", folder
        )
        yield env
    finally:
        _stop(daemons, folder, env)
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, cpus: int, keep: int) -> None:
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 - 256
    text = CONF.format(
        host=socket.gethostname().partition(".")[0], ports=_free_ports(2), user=getpass.getuser(),
        folder=folder, cpus=cpus, memory=memory, keep=keep,
    )  # fmt: skip
    (folder / "slurm.conf").write_text(text)


def _commands(folder: Path) -> list[list[str]]:
    munge = folder / "munge"
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    files = [f"--{option}={munge / name}" for option, name in names.items()]
    return [["munged", "--foreground", "--force", *files], ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c"]]


def _start(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A daemon in the foreground, which the kernel ends if we are killed ourselves."""
    program = shutil.which(command[0], path=env["PATH"])
    assert program is not None
    libc = ctypes.CDLL(None)
    with open(log, "wb") as file:
        return subprocess.Popen(
            [program, *command[1:]], env={**os.environ, **env}, stdout=file, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, preexec_fn=lambda: libc.prctl(_DIE_WITH_PARENT, signal.SIGTERM),
        )  # fmt: skip


def _stop(daemons: list[subprocess.Popen[bytes]], folder: Path, env: dict[str, str]) -> None:
    """Jobs first, then the daemons, then whatever still has this Slurm's config in its environment."""
    if len(daemons) == 3:
        _answer(env, "scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}")
        _answer(env, "scancel", f"--user={getpass.getuser()}")
    for daemon in reversed(daemons):
        daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(10)
        daemon.kill()
        daemon.wait()
    for pid in _of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _of(folder: Path) -> list[int]:
    """Processes of this Slurm's jobs: their environment names its config, which no other does."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"SLURM_CONF={folder}/".encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def _answer(env: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def _until(true: Callable[[], object], what: str, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            logs = "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in _logs(folder))
            raise RuntimeError(f"waited {PATIENCE:.0f} s for: {what}\n{logs}")
        time.sleep(0.2)


def _logs(folder: Path) -> list[Path]:
    return [*folder.glob("*.log"), *folder.glob("*.out"), *folder.glob("munge/log")]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def main(command: list[str]) -> int:
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with clusters(cpus=os.cpu_count() or 1) as env:
        return subprocess.run(command, env={**os.environ, **env}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["sinfo"]))
