"""See that type checkers know the type of every public name: what pyright's `--verifytypes` says, in a few lines.

Users who check their programs get what is declared here; what a checker has to guess, another one may guess otherwise.
mypy does not ask for that, so pyright does, on the same source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGE = "amqp10"


def asked() -> dict[str, Any]:
    """Return what pyright says of the package that this Python imports."""
    # It looks for packages where the first `python` of the path finds them.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    command = (sys.executable, "-m", "pyright", "--verifytypes", PACKAGE, "--ignoreexternal", "--outputjson")
    environment = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not run.stdout.lstrip().startswith("{"):
        raise SystemExit(f"pyright did not run: {run.stdout}{run.stderr}")
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def findings(answer: dict[str, Any]) -> list[str]:
    """Return a line for each symbol whose type is not declared, or is that of another such symbol."""
    lines = [each["message"] for each in answer["generalDiagnostics"]]
    for symbol in answer["typeCompleteness"]["symbols"]:
        if symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]:
            continue
        for each in symbol["diagnostics"]:
            if each["severity"] == "error":
                line = each.get("range", {}).get("start", {}).get("line", 0) + 1
                message = " ".join(each["message"].split())
                lines.append(f"{each.get('file') or symbol['name']}:{line}: {symbol['name']}: {message}")
    return lines


def main() -> None:
    answer = asked()
    lines = findings(answer)
    if lines:
        raise SystemExit("\n".join(lines))
    counts = answer["typeCompleteness"]["exportedSymbolCounts"]
    if not counts["withKnownType"]:
        raise SystemExit(f"pyright found no symbol in {PACKAGE}")
    print(f"types: {counts['withKnownType']} public symbols, all declared")


if __name__ == "__main__":
    main()
