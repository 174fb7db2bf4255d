"""Run every benchmark and write RESULTS.md: a row a claim, and the machine it was measured on.

    python benchmarks/run_all.py [--small] [NAME ...]

With --small each finishes in seconds and nothing is written: CI sees that the files still work.
Benchmarks that are named alone replace their own rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from assay.runtime.collect_env import environment_rows

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
ROWS = FOLDER / "results.jsonl"
SHOWN = ("assay", "python", "cpu", "cores", "memory", "torch", "numpy", "scikit-learn")


def names() -> list[str]:
    """The benchmarks, by file name."""
    return sorted(
        path.stem
        for path in FOLDER.glob("*.py")
        if not path.stem.startswith("_") and path.stem != "run_all"
    )


def run(name: str, *, small: bool) -> list[dict[str, object]]:
    """The claims that one benchmark printed, one JSON line each at its end."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--small"] if small else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        sys.exit(f"{name} failed with exit code {done.returncode}")
    claims = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"claim"')]
    if not claims:
        sys.exit(f"{name} printed no claim")
    return [{**claim, "file": name} for claim in claims]


def table(claims: list[dict[str, object]]) -> str:
    """RESULTS.md."""
    environment = environment_rows()
    lines = [
        "# Results",
        "",
        "Written by `make bench`. A ratio is ours against the peer, interleaved on the same data",
        "and threads: the median of the pairs, with their minimum and maximum.",
        "",
        *(f"- {name}: {environment[name]}" for name in SHOWN if name in environment),
        "",
        "| file | claim | ratio | min to max | ours | peer | limit | unit | date |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for claim in claims:
        cells = [
            f"[{claim['file']}]({claim['file']}.py)",
            claim["claim"],
            _short(claim["ratio_median"]),
            f"{_short(claim['ratio_min'])} to {_short(claim['ratio_max'])}",
            *(_short(claim.get(key)) for key in ("ours", "peer", "limit")),
            claim.get("unit", ""),
            claim["date"],
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *names()])
    options = parser.parse_args()
    wanted = options.names or names()
    today = datetime.now(timezone.utc).date().isoformat()
    kept = ROWS.read_text().splitlines() if ROWS.exists() and not options.small else []
    claims = [claim for line in kept if (claim := json.loads(line))["file"] not in wanted]
    for name in wanted:
        claims += [{**claim, "date": today} for claim in run(name, small=options.small)]
        if not options.small:
            claims.sort(key=lambda claim: str(claim["file"]))
            ROWS.write_text("".join(json.dumps(claim) + "\n" for claim in claims))
            RESULTS.write_text(table(claims))


if __name__ == "__main__":
    main()
