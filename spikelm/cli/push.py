"""A folder uploaded to the Hugging Face hub, with the token of the environment or of the hub's login."""

from __future__ import annotations

import re

from spikelm.config.redact import redacted
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.machine.offline import offline_variables
from spikelm.machine.services import hub, hub_silence
from spikelm.store.written_files import WrittenFiles

MANUAL = "hf upload OWNER/NAME FOLDER"


def check_push(repository: str) -> None:
    """Raise where an upload could not work: the name is none, a variable forbids the network, or there is no token."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
        named = re.fullmatch(r"[^/]+/[^/]+", repository) is not None
    except HFValidationError:
        named = False
    if not named:
        raise ConfigError(f"--push {repository} is not the name of a repository", "--push OWNER/NAME")
    if variables := offline_variables():
        names = " ".join(variable.partition("=")[0] for variable in variables)
        raise ConfigError(f"--push: {' and '.join(variables)} forbids the network", f"unset {names}")
    if not hub().logged_in:
        raise ConfigError(
            "--push: there is no token for the hub",
            f"hf auth login, or set HF_TOKEN; without --push the folder can be uploaded later: {MANUAL}",
        )
    if silence := hub_silence():
        raise SpikeLMError(f"--push: {silence}", f"export without --push, and later: {MANUAL}")


def push(written: WrittenFiles, repository: str, private: bool) -> str:
    """Upload what was written, and nothing else of its folder, to a repository that is made if need be; its address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api, folder = HfApi(library_name="spikelm"), written.folder
    names = [str(path.relative_to(folder)) for path in written.paths()]
    try:
        address = api.create_repo(repository, private=private or None, exist_ok=True)
        if private and not api.model_info(repository).private:
            raise ConfigError(f"{repository} is there already, and everybody sees it", "another name, or no --private")
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="spikelm-export", allow_patterns=names)
    except (HfHubHTTPError, OSError, ValueError) as error:
        told = redacted(" ".join(str(error).split()))
        raise SpikeLMError(
            f"the hub did not take {repository}: {told}", f"the folder is whole: hf upload {repository} {folder}"
        ) from error
    return str(address)
