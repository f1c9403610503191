"""torch.hub: models from a folder's hubconf.py. Nothing is downloaded; only files in the cache are used."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from ... import config, serialization
from ...errors import ShadergradError

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: str | None = None


class HubError(ShadergradError, RuntimeError):
    """A model or file that would have to be downloaded."""


def _get_torch_home() -> str:
    return str(config.torch_home())


def get_dir() -> str:
    """The folder of cached models: that of set_dir, or hub in $TORCH_HOME."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: Any) -> None:
    """Set the folder of cached models."""
    global _folder
    _folder = os.path.expanduser(d)


def _hubconf(repo_or_dir: Any, source: str) -> ModuleType:
    if source != "local":
        raise HubError(
            f"[hub] {repo_or_dir} lies on {source}, and nothing is fetched here. "
            "Hint: clone it, and give its folder: torch.hub.load(folder, model, source='local')."
        )
    path = Path(repo_or_dir).expanduser() / "hubconf.py"
    if not path.is_file():
        raise HubError(f"[hub] there is no {path}. Hint: source='local' takes the folder of a repository.")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None
    assert spec.loader is not None  # the path ends with .py
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise HubError(f"[hub] hubconf.py has no {name!r}. It has: {', '.join(_entries(module)) or 'nothing'}.")
    return found


def _entries(module: ModuleType) -> Any:
    return [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """The result of the function `model` in a folder's hubconf.py. Raises HubError for source='github'."""
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(  # PyTorch's name
    repo_or_dir: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
    source: str = "github",
) -> Any:
    """The names of the functions in a folder's hubconf.py. A path of a folder is used as such, whatever `source` is."""
    return _entries(_hubconf(repo_or_dir, "local" if Path(str(repo_or_dir)).is_dir() else source))


def help(repo_or_dir: Any, model: str, source: str = "github", **kwargs: Any) -> Any:
    """The docstring of a function of a folder's hubconf.py."""
    return _entry(_hubconf(repo_or_dir, "local" if Path(str(repo_or_dir)).is_dir() else source), model).__doc__


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Raises HubError, because nothing is downloaded."""
    raise HubError(f"[hub] {url} is not fetched here. Hint: download it, and put it at {dst}.")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The state dict in the cached file of that name. Raises HubError if it does not exist, or its hash is not that in its name."""
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        download_url_to_file(url, path)
    wanted = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
    if wanted and not hashlib.sha256(Path(path).read_bytes()).hexdigest().startswith(wanted[1]):
        raise HubError(f"[hub] {path} is not the file that its name says: its SHA-256 does not begin with {wanted[1]}.")
    return serialization.load(path, map_location, weights_only=weights_only)
