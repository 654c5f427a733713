"""PEP 517 backend of all Python packages: scikit-build-core, run on this tree for `tilewright`.

The setting `package=runtime` builds `tilewright-runtime` instead, from a copy of the tree whose
pyproject.toml has the changes of [tool.tilewright.runtime]; `package=provider` likewise builds
`onnxruntime-ep-tilewright`. An sdist keeps them, and needs no setting any more.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from typing import Any, Iterator, Mapping

import tomlkit
from scikit_build_core import build as _build

Settings = Mapping[str, Any]
# Folders at the top that are no sources.
_IGNORED = (".git", "build", "dist", "wheelhouse", ".venv")


def changed(text: str, package: str) -> str:
    """pyproject.toml of another package: `text` with its table [tool.tilewright.PACKAGE] merged in."""
    document = tomlkit.parse(text)
    packages = document["tool"].pop("tilewright", {})
    if package not in packages:
        known = ", ".join(["tilewright", *packages])
        raise SystemExit(f"package={package}: no such package; there are: {known}")
    _merge(document, packages[package])
    return tomlkit.dumps(document)


def _merge(into: Any, changes: Any) -> None:
    """Tables are merged, anything else is replaced; an empty table removes what it stands for."""
    for key, value in changes.items():
        if not isinstance(value, dict) or (value and key not in into):
            into[key] = value
        elif not value:
            into.pop(key, None)
        else:
            _merge(into[key], value)


@contextlib.contextmanager
def _tree(settings: Settings | None) -> Iterator[Settings]:
    """Works in the tree of the package that the settings name; they come without that name."""
    rest = dict(settings or {})
    package = rest.pop("package", "tilewright")
    if package == "tilewright":
        yield rest
        return
    here = pathlib.Path.cwd()
    text = changed((here / "pyproject.toml").read_text(encoding="utf-8"), package)

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names
                if name == "__pycache__" or pathlib.Path(folder) == here and name in _IGNORED]

    with tempfile.TemporaryDirectory(prefix="tilewright-") as temporary:
        tree = pathlib.Path(temporary, package)
        shutil.copytree(here, tree, ignore=ignored, symlinks=True)
        (tree / "pyproject.toml").write_text(text, encoding="utf-8")
        os.chdir(tree)
        try:
            yield rest
        finally:
            os.chdir(here)


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    with _tree(config_settings) as settings:
        return _build.get_requires_for_build_sdist(settings)


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    with _tree(config_settings) as settings:
        return _build.get_requires_for_build_wheel(settings)


def prepare_metadata_for_build_wheel(metadata_directory: str,
                                     config_settings: Settings | None = None) -> str:
    folder = os.path.abspath(metadata_directory)
    with _tree(config_settings) as settings:
        return _build.prepare_metadata_for_build_wheel(folder, settings)


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    folder = os.path.abspath(sdist_directory)
    with _tree(config_settings) as settings:
        return _build.build_sdist(folder, settings)


def build_wheel(wheel_directory: str, config_settings: Settings | None = None,
                metadata_directory: str | None = None) -> str:
    folder = os.path.abspath(wheel_directory)
    metadata = os.path.abspath(metadata_directory) if metadata_directory else None
    with _tree(config_settings) as settings:
        return _build.build_wheel(folder, settings, metadata)
