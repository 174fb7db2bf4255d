"""How long `import assay` and `assay --help` take above `python -c pass`.

    python benchmarks/import_time.py [--small]

Each run is a fresh interpreter; the three commands take turns. The last lines are JSON: the claims.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

PEER = ("-c", "pass")
# Each command with what it has to print: a run that failed is no fast run.
COMMANDS = {
    "import assay": (("-c", "import assay; print(assay.__version__)"), "."),
    "assay --help": (("-m", "assay", "--help"), "Usage: assay"),
}
HELP_LIMIT_MS = 300.0


def run_ms(arguments: tuple[str, ...], expected: str = "") -> float:
    """Milliseconds from the start of an interpreter to its end."""
    start_ns = time.perf_counter_ns()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", check=True
    )
    elapsed_ms = (time.perf_counter_ns() - start_ns) / 1e6
    if expected not in done.stdout:
        sys.exit(f"{arguments} printed {done.stdout!r}, without {expected!r}")
    return elapsed_ms


def measure(pairs: int) -> dict[str, list[tuple[float, float]]]:
    """(ours, peer) in milliseconds, ``pairs`` times for each command, after one unmeasured turn."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for turn in range(pairs + 1):
        for name, (arguments, expected) in COMMANDS.items():
            # Who comes first alternates: neither always finds the machine as the other left it.
            if turn % 2:
                ours, peer = run_ms(arguments, expected), run_ms(PEER)
            else:
                peer, ours = run_ms(PEER), run_ms(arguments, expected)
            if turn:
                found[name].append((ours, peer))
    return found


def claim(name: str, pairs: list[tuple[float, float]]) -> dict[str, object]:
    ratios = [ours / peer for ours, peer in pairs]
    limit = f" (at most {HELP_LIMIT_MS:g} ms more)" if name == "assay --help" else ""
    return {
        "claim": f"`{name}` beside `python -c pass`{limit}",
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ours": statistics.median(ours for ours, _ in pairs),
        "peer": statistics.median(peer for _, peer in pairs),
        "unit": "ms",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a few runs: does it still work?")
    options = parser.parse_args()
    found = measure(pairs=3 if options.small else 20)
    for name, pairs in found.items():
        extra_ms = statistics.median(ours - peer for ours, peer in pairs)
        print(f"{name}: {extra_ms:.0f} ms more than `python -c pass`")
    for name, pairs in found.items():
        print(json.dumps(claim(name, pairs)))


if __name__ == "__main__":
    main()
