"""The check of a device as Markdown, to be pasted into an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spikelm.catalog.quantities import duration, gigabytes

if TYPE_CHECKING:
    from spikelm.training.device_check.comparison import Check, Measured
    from spikelm.training.device_check.report import DeviceReport
    from spikelm.training.device_check.speed import Speed


def told(result: Check | Speed) -> str:
    """One result as it comes, in one line."""
    from spikelm.training.device_check.speed import Speed

    if isinstance(result, Speed):
        return f"speed {result.system}, {result.setting}: {result.tokens_per_second:,.0f} tokens per second"
    return f"{result.state} {result.part} {result.name}{f': {result.note}' if result.note else ''}"


def print_device_report(report: DeviceReport) -> None:
    """Where it ran, one row per part with its largest numbers, all that is not ok, and the speeds."""
    about = report.environment
    gpus = "; ".join(f"{gpu.name}, {gpu.memory_gb:.0f} GB, driver {gpu.driver}" for gpu in about.gpus) or "no GPU"
    versions = f"torch {about.versions.get('torch')}, CUDA {about.cuda}, cuDNN {about.cudnn}, NCCL {about.nccl}"
    how = "quick" if report.quick else "full"
    print(f"**spikelm-doctor --check** on {report.device} ({how}, {duration(report.seconds)}): {_verdict(report)}\n")
    print(f"spikelm {about.versions['spikelm']}, commit {about.git_commit}, {versions}; {gpus}; {about.platform}\n")
    print("| part | ok | largest difference (limit) |\n|---|---|---|")
    for part in dict.fromkeys(check.part for check in report.checks):
        checks = [check for check in report.checks if check.part == part]
        passed = sum(check.state == "ok" for check in checks)
        print(f"| {part} | {passed} of {len(checks)} | {'; '.join(_largest(checks)) or '-'} |")
    rest = [check for check in report.checks if check.state != "ok"]
    if rest:
        print("\n| not ok | what | why |\n|---|---|---|")
    for check in rest:
        why = check.note or "; ".join(_number(item) for item in check.measured if not item.within)
        print(f"| {check.state} | {check.part} {check.name} | {why} |")
    print("\n| training step | system | rows x tokens | tokens per second | plain steps | memory | estimated memory |")
    print("|---|---|---|---|---|---|---|")
    for speed in report.speeds:
        memory = "-" if speed.memory_gb is None else gigabytes(speed.memory_gb)
        estimate = "-" if speed.estimated_gb is None else gigabytes(speed.estimated_gb)
        rate, size = f"{speed.tokens_per_second:,.0f}", f"{speed.rows} x {speed.length}"
        print(
            f"| {speed.setting} | {speed.system} | {size} | {rate} | {speed.times_plain:.2f} | {memory} | {estimate} |"
        )


def _verdict(report: DeviceReport) -> str:
    skipped = sum(check.state == "skipped" for check in report.checks)
    return f"checks {len(report.checks)}, problems {len(report.problems)}, skipped {skipped}"


def _largest(checks: list[Check]) -> list[str]:
    """Of every number with a limit, the one that is nearest to it."""
    nearest: dict[str, Measured] = {}
    for item in (item for check in checks for item in check.measured if item.limit is not None):
        if item.name not in nearest or _used(item) > _used(nearest[item.name]):
            nearest[item.name] = item
    return [_number(item) for item in nearest.values()]


def _used(item: Measured) -> float:
    """How much of its limit a number takes; what is no number takes all."""
    share = item.value / item.limit if item.limit else item.value
    return share if share == share else float("inf")


def _number(item: Measured) -> str:
    value = "0" if item.value == 0 else f"{item.value:.1e}"
    return f"{item.name} {value}" + ("" if item.limit is None else f" ({item.limit:g})")
