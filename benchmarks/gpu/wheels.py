"""Small packages that a GPU machine without network may lack: collected into a folder here, installed from it there.

    python benchmarks/gpu/wheels.py FOLDER [--python 3.12] [--packages "keras namex"]

Imports only the standard library. Not here: frameworks, OpenCV and DALI, which are large; the machine has them, or the table
lists them as missing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

# Keras and its imports, abreast's other requirements, and the packages that read packed images.
PACKAGES = (
    *("keras", "absl-py", "h5py", "markdown-it-py", "mdurl", "ml-dtypes", "namex", "optree", "packaging", "pygments"),
    *("rich", "typing-extensions"),
    *("cloudpickle", "nvidia-ml-py"),
    *("google-crc32c", "pillow", "simplejpeg"),
)
# Without these `make gpu` itself does not run.
_OF_ABREAST = ("numpy", "nvidia-ml-py")
# abreast needs a least version of these, so an older installed one is replaced.
_REPLACED_IF_OLDER = ("keras", "cloudpickle", "nvidia-ml-py")
_GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014", "manylinux1")


def absent_of_abreast() -> list[str]:
    return [name for name in _OF_ABREAST if version_here(name) is None]


def install(folder: Path, target: Path) -> list[str]:
    """Install the wheels of `folder` whose packages are missing here, or too old, into `target`; returns their names."""
    chosen = [wheel for wheel in sorted(folder.glob("*.whl")) if is_needed(wheel)]
    if chosen:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        subprocess.run([*command, "--target", str(target), *map(str, chosen)], check=True)
    return [wheel.name for wheel in chosen]


def is_needed(wheel: Path) -> bool:
    """Whether a wheel's package is missing here, or is older than abreast may need."""
    name, version = wheel.name.split("-")[:2]
    here = version_here(name)
    if here is None:
        return True
    return name.replace("_", "-").lower() in _REPLACED_IF_OLDER and release(here) < release(version)


def version_here(name: str) -> str | None:
    try:
        return metadata.version(name.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return None


def release(version: str) -> tuple[int, ...]:
    """The numbers at the begin of a version: `3.15.1rc2` is (3, 15, 1)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def collect_command(folder: Path, python: str, names: Iterable[str], machine: str = "x86_64") -> list[str]:
    """The pip command that collects wheels of exactly these packages, for another Python than the running one."""
    platforms = [word for name in _GLIBC for word in ("--platform", f"{name}_{machine}")]
    what = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    return [sys.executable, "-m", "pip", "download", "--quiet", *what, *platforms, "--dest", str(folder), *names]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="version of the GPU machine's Python (default: 3.12)")
    parser.add_argument("--packages", type=str.split, default=PACKAGES, help="other packages, separated by blanks")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    code = subprocess.call(collect_command(options.folder, options.python, options.packages))
    found = list(options.folder.glob("*.whl"))
    print(f"{options.folder}: {len(found)} wheels, {sum(wheel.stat().st_size for wheel in found) / 2**20:.0f} MiB")
    return code


if __name__ == "__main__":
    sys.exit(main())
