"""Write docs/reference/profiles.md: what is known of each broker, from `amqp10.profiles`.

`--check` writes nothing and fails if the page is not what the profiles say.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from amqp10.profiles import PROFILES, Profile

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "profiles.md"

INTRODUCTION = """\
# Broker profiles

This page lists what each broker does or requires beyond the specification, with a source for each fact.
[Brokers](../brokers/index.md) shows how to use a profile. The page is generated from `amqp10.profiles` by
`python tools/profiles.py`.
"""


def render(profile: Profile) -> list[str]:
    """One profile's part of the page."""
    lines = [f"## {profile.title}", "", f"`{profile.name}`"]
    if profile.products:
        lines[-1] += f", recognized by {' or '.join(f'`{product}`' for product in profile.products)} in its open"
    if profile.hosts:
        lines[-1] += f", recognized by a host that ends in {' or '.join(f'`{host}`' for host in profile.hosts)}"
    receives = profile.topic if profile.topic_source is None else profile.topic_source
    shown = {"queue": profile.queue, "topic": profile.topic, "topic to receive from": receives}
    lines += ["", "| node | address |", "|---|---|"]
    for kind, template in shown.items():
        lines.append(f"| {kind} | {_shown(template)} |")
    if profile.capabilities:
        lines += ["", "The terminus says which it is by its capability, `queue` or `topic`."]
    if profile.facts:
        lines += ["", *(f"- {fact.text} ({_source(fact.source)})" for fact in profile.facts)]
    return [*lines, ""]


def _shown(template: str | None) -> str:
    return "none" if not template else f"`{template.format('NAME', quoted='NAME')}`"


def _source(source: str) -> str:
    return f"[source]({source})" if source.startswith("https://") else f"`{source}`"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    arguments = parser.parse_args()
    page = "\n".join([INTRODUCTION, *(line for profile in PROFILES for line in render(profile))]).rstrip() + "\n"
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/profiles.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
