"""What is made for a package: its README and addresses, and for a wheel its bill of materials and its compiled part.

AMQP10_COMPILE=1 asks for the compiled part.

Where the compiled part cannot be made, the wheel has none. The modules below are compiled by Cython from the same
sources that run without it, with what their .pxd files know of them beside. The two _fast.pyx have what is done with
most values and messages once more. docs/operate/compiled.md says what that gains, and why these.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

COMPILED = (
    "engine/_deliveries",
    "client/_receiving/delivery",
    "client/_sending/delivery",
    "messaging/_fast",
    "messaging/_message",
    "types/_fast",
)
DIRECTIVES = {"annotation_typing": False, "binding": True, "language_level": "3"}


_LINK = re.compile(r"(!?)(\[[^]]*\])\((?![a-z]+:|#)([^)\s]+)\)")
"""An image or a link of the README to a file of the repository."""


class Addresses(MetadataHookInterface):
    """Adds the README, and where the project is, which only its workflow knows: GitHub tells it the repository.

    An index shows the README without the files beside it: there its links lead to the repository.
    """

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["urls"] = {}
        server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
        if server and repository:
            at = f"{server}/{repository}"
            tag = f"v{metadata['version']}"
            text = _LINK.sub(
                lambda found: f"{found[1]}{found[2]}({at}/{'raw' if found[1] else 'blob'}/{tag}/{found[3]})", text
            )
            metadata["urls"] = {
                "Source": at,
                "Documentation": f"{at}/blob/{tag}/docs/index.md",
                "Changelog": f"{at}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{at}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class WheelParts(BuildHookInterface[Any]):
    """Adds to the wheel the list of what it is made of, and the extension modules where they are asked for.

    The modules lie beside their sources: Python imports them in place of these.
    """

    PLUGIN_NAME = "custom"

    @property
    def asked_for(self) -> bool:
        """Of a wheel, by CPython: an editable installation and other Pythons run the sources as they are.

        So does a Python without its global lock, which would take that lock again for all of the program.
        """
        wanted = self.target_name == "wheel" and os.environ.get("AMQP10_COMPILE", "") not in ("", "0")
        return wanted and sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")

    def dependencies(self) -> list[str]:
        return ["cython>=3.1", "setuptools"] if self.asked_for else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        self._made = TemporaryDirectory()
        bill = Path(self._made.name) / "amqp10.cdx.json"
        bill.write_text(bill_of_materials(self.metadata.version, self.metadata.core.dependencies), encoding="utf-8")
        build_data["sbom_files"] = [str(bill)]
        if not self.asked_for:
            return
        try:
            made = compile_in(Path(self._made.name), Path(self.root) / "src" / "amqp10")
        except (Exception, SystemExit) as error:  # setuptools ends the process where there is no compiler
            self.app.display_warning(f"amqp10 is installed without its compiled part, which failed: {error!r}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(made)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_made"):
            self._made.cleanup()


def bill_of_materials(version: str, dependencies: list[str]) -> str:
    """Return what the wheel is made of, as CycloneDX 1.6 in JSON: its sources are ours, and nothing is bundled.

    The packages that it needs are listed without versions, for they are not in it. No time and no serial number: two
    builds have the same octets.
    """
    names = [re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0] for each in dependencies]
    own = f"pkg:pypi/amqp10@{version}"
    needed = [
        {"type": "library", "bom-ref": f"pkg:pypi/{each}", "name": each, "purl": f"pkg:pypi/{each}"} for each in names
    ]
    component = {
        "type": "library",
        "bom-ref": own,
        "name": "amqp10",
        "version": version,
        "purl": own,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component},
        "components": needed,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in needed]}],
    }
    return json.dumps(bill, indent=2) + "\n"


def compile_in(folder: Path, package: Path) -> dict[str, str]:
    """Compile a copy of the package's modules in `folder`: the extension modules, and their places in the wheel.

    Raises:
        ImportError: there is no Cython.
        Exception, SystemExit: whatever the compilers say.
    """
    from Cython.Build import cythonize
    from setuptools import Extension
    from setuptools.dist import Distribution

    shutil.copytree(package, folder / "amqp10")
    before = Path.cwd()
    os.chdir(folder)  # Cython finds a package by its folders
    try:
        names = [f"amqp10/{each}" for each in COMPILED]
        options = ["-g0"] if os.name == "posix" else []  # what debuggers want is the most of it
        sources = {each: f"{each}.pyx" if Path(f"{each}.pyx").exists() else f"{each}.py" for each in names}
        modules = [Extension(each.replace("/", "."), [sources[each]], extra_compile_args=options) for each in names]
        modules = cythonize(modules, compiler_directives=DIRECTIVES)
        distribution = Distribution({"name": "amqp10", "ext_modules": modules})
        command: Any = distribution.get_command_obj("build_ext")
        command.inplace = True
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    made = {}
    for name in names:  # setuptools may be told to name them otherwise than this Python would
        (found,) = (each for each in folder.glob(f"{name}.*") if each.suffix in (".so", ".pyd"))
        made[str(found)] = str(found.relative_to(folder))
    return made
