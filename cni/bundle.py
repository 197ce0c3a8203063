"""The plugin's own part as a folder that needs nothing of its host: interpreter, libraries, modules.

Made on a machine that has roceway installed, from the interpreter that runs this: its program, the shared libraries
that it maps once everything is imported, the dynamic linker, and the byte-code of exactly the modules that the plugin
can reach. Nothing is downloaded and nothing of the host is used, so that it runs where there is no Python, an older C
library or none (docs/decisions/0011-self-contained.md has the measurements).
"""

from __future__ import annotations

import hashlib
import json
import modulefinder
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from host.errors import HostError

__all__ = ["Bundle", "gather", "write"]

_ROOT = Path(__file__).resolve().parent.parent
_ENTRY = "from cni.__main__ import main; main()"
_OPERATORS = ("cni.cli", "cni.agent")
"""Reached from ``cni.__main__`` by commands and the agent's client only: the compiled plugin has asked already."""
_BESIDES = ("encodings.ascii", "encodings.latin_1", "traceback", "tokenize", "ctypes", "ast", "io")
"""What is imported without a statement that could be found: by the interpreter itself, and to print a bug's trace."""
_LINKER = "ld.so"

_PROBE = """
import importlib, json, sys
sys.path.append(sys.argv[1])
for name in json.loads(sys.argv[2]):
    importlib.import_module(name)
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
maps = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line}
print(json.dumps({"files": {name: path for name, path in files.items() if path}, "maps": sorted(maps)}))
"""


class Bundle(NamedTuple):
    """What goes into the folder, and how the plugin in it is started."""

    modules: tuple[tuple[str, str], ...]
    """Name and source of every module in Python."""
    extensions: tuple[str, ...]
    libraries: tuple[str, ...]
    interpreter: str
    digest: str
    """Of all that: the folder's name, so that another content is another folder."""

    @property
    def words(self) -> tuple[str, ...]:
        """The argument vector; what begins with ``./`` is beside the bundle's folder."""
        here = f"./{self.digest}"
        python = (f"{here}/{_LINKER}", "--inhibit-cache", "--library-path", f"{here}/lib", f"{here}/bin/python3")
        return (*python, "-ISB", "-c", _ENTRY, "--in-process")


def gather() -> Bundle:
    """Look what belongs in. HostError when this interpreter cannot tell."""
    files, maps = _probe()
    modules = tuple(sorted((name, path) for name, path in files.items() if path.endswith(".py")))
    extensions = tuple(sorted(path for path in files.values() if not path.endswith(".py")))
    libraries = tuple(sorted(set(maps) - set(extensions)))
    interpreter = str(Path(sys.executable).resolve())
    total = hashlib.sha256(f"{sys.version} {_ENTRY}".encode())
    for path in (*(path for _, path in modules), *extensions, *libraries, interpreter, __file__):
        total.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return Bundle(modules, extensions, libraries, interpreter, total.hexdigest()[:16])


def write(bundle: Bundle, folder: Path) -> None:
    """Fill the new ``folder``. OSError when it cannot be."""
    library = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (library / "lib-dynload").mkdir(parents=True)
    (folder / "bin").mkdir()
    shutil.copy2(bundle.interpreter, folder / "bin" / "python3")
    for name, source in bundle.modules:
        _compile(name, Path(source), library)
    for path in bundle.extensions:
        shutil.copy2(path, library / "lib-dynload")
    for library_file in map(Path, bundle.libraries):
        if library_file.name.startswith(("ld-", "ld64")):
            shutil.copy2(library_file, folder / _LINKER)
        else:
            _copy_library(library_file, folder / "lib")


def _copy_library(path: Path, folder: Path) -> None:
    """A library with its links: programs ask for libz.so.1, the file that they map is libz.so.1.2.13."""
    shutil.copy2(path, folder)
    for each in path.parent.glob(f"{path.name.partition('.so')[0]}.so*"):
        if each.is_symlink() and each.resolve() == path.resolve():
            (folder / each.name).symlink_to(path.name)


def _probe() -> tuple[dict[str, str], list[str]]:
    """Module to file, and the libraries that an interpreter maps which has imported all that the plugin can reach."""
    finder = modulefinder.ModuleFinder(path=[str(_ROOT)], excludes=list(_OPERATORS))
    finder.import_hook("cni.__main__")
    reached = [name for name in (*finder.modules, *finder.badmodules) if not name.startswith(_OPERATORS)]
    wanted = json.dumps(sorted({*reached, *_BESIDES} - {"cni.__main__", "__main__"}))
    words = [sys.executable, "-IS", "-c", _PROBE, str(_ROOT), wanted]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise HostError("look into", sys.executable, 0, done.stderr.strip())
    found = json.loads(done.stdout)
    main = {"cni.__main__": str(_ROOT / "cni" / "__main__.py")}
    return {name: path for name, path in {**found["files"], **main}.items() if name != "__main__"}, found["maps"]


def _compile(name: str, source: Path, library: Path) -> None:
    parts = name.split(".")
    place = library.joinpath(*parts, "__init__.pyc") if source.name == "__init__.py" else library.joinpath(*parts)
    place = place if place.suffix == ".pyc" else place.with_name(f"{place.name}.pyc")
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(place), f"{name.replace('.', '/')}.py", doraise=True, invalidation_mode=mode)
