"""The hub and W&B as this machine sees them: reachable, forbidden by a variable, logged in. No key is passed on."""

from __future__ import annotations

import http.client
import netrc
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from spikelm.machine.offline import offline_reason, offline_variables
from spikelm.machine.questions import Question

HUB = "https://huggingface.co"
WANDB = "https://api.wandb.ai"
PORTS = {"http": 80, "https": 443}
PATIENCE = 5  # seconds for the hub to say anything
_answered: set[str] = set()  # addresses of hubs that did
WANDB_OFF = ("offline", "disabled", "dryrun")


@dataclass(frozen=True)
class Service:
    """One service: its address, the setting that forbids to ask it, and whether a key is at hand."""

    address: str
    forbidden: str  # NAME=value of the variable, or nothing
    logged_in: bool

    @property
    def host(self) -> str:
        """The address without a name and password that it may have."""
        return urlsplit(self.address).hostname or self.address.rpartition("@")[2]


def hub() -> Service:
    """The hub, as huggingface_hub looks for it and its token."""
    forbidden = next(iter(offline_variables()), "")
    named = any(_said(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
    file = Path(_said("HF_TOKEN_PATH") or hub_home() / "token").expanduser()
    return Service(_said("HF_ENDPOINT") or HUB, forbidden, named or _has_text(file))


def hub_home() -> Path:
    """Where the hub's library keeps its token and its cache."""
    cache = Path(_said("XDG_CACHE_HOME") or "~/.cache")
    return Path(_said("HF_HOME") or cache / "huggingface").expanduser()


def hub_cache() -> Path:
    """The hub's cache of repositories."""
    return Path(_said("HF_HUB_CACHE") or hub_home() / "hub").expanduser()


def wandb() -> Service:
    """W&B, as its library looks for it and its key."""
    address, mode = _said("WANDB_BASE_URL") or WANDB, _said("WANDB_MODE").lower()
    forbidden = f"WANDB_MODE={mode}" if mode in WANDB_OFF else ""
    return Service(address, forbidden, bool(_said("WANDB_API_KEY")) or _in_netrc(urlsplit(address).hostname or ""))


def unreachable(address: str, seconds: float) -> str:
    """Why an address does not answer, or nothing; proxies are used as the libraries use them.

    A resolver may take longer than `seconds`: whoever asks waits no longer than they want to (questions.py).
    """
    try:
        return _asked(address, seconds)
    except urllib.error.HTTPError as answer:  # whatever it answers, it is there; but not when it is down
        return f"it answers with code {answer.code}" if answer.code >= 500 else ""


def cannot_fetch() -> str:
    """Why what the hub's cache lacks cannot be fetched, to stand after a colon; nothing where the hub answers."""
    if reason := offline_reason():
        return reason
    silence = hub_silence()
    return f"it is not in the hub's cache, and {silence}" if silence else ""


def hub_silence() -> str:
    """That the hub does not answer, and why; nothing where it does, or where a variable forbids to ask.

    Its library would try again and again for a minute or two before it says a word.
    """
    service = hub()
    if service.forbidden or service.address in _answered:
        return ""
    silence = Question(lambda: _silence(service.address)).answer(PATIENCE + 1)
    if silence == "":
        _answered.add(service.address)
        return ""
    return f"{service.host} cannot be reached ({silence or f'no answer within {PATIENCE} seconds'})"


def _silence(address: str) -> str:
    """Why nobody answers at all: a refusal is an answer, and a certificate that Python does not know is one, too."""
    try:
        reason = _asked(address, PATIENCE)
    except urllib.error.HTTPError:
        return ""
    return "" if "CERTIFICATE_VERIFY_FAILED" in reason else reason


def _asked(address: str, seconds: float) -> str:
    """Why there is no answer, or nothing; an answer that is a refusal is raised."""
    try:
        parts = urlsplit(address)
        place = f"{parts.scheme}://{parts.hostname}:{parts.port or PORTS[parts.scheme]}/"  # no name, no password
    except (KeyError, ValueError):
        return "it is no address of the web"
    request = urllib.request.Request(place, method="HEAD", headers={"User-Agent": "spikelm-doctor"})
    try:
        with urllib.request.urlopen(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__


def _said(name: str) -> str:
    return os.environ.get(name, "").strip()


def _has_text(file: Path) -> bool:
    try:
        return bool(file.read_text().strip())
    except (OSError, ValueError):
        return False


def _in_netrc(host: str) -> bool:
    names = [_said("NETRC")] if _said("NETRC") else ["~/.netrc", "~/_netrc"]
    for name in names:
        try:
            entry = netrc.netrc(str(Path(name).expanduser())).hosts.get(host)
        except (OSError, netrc.NetrcParseError, RuntimeError):
            continue
        if entry is not None and entry[2]:
            return True
    return False
