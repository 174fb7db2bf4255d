"""The VOC07 protocol's SVMs, all together, against `LinearSVC` in parallel over all cores.

    python benchmarks/svm_sweep.py [--small] [--peer-classes 2] [--full]

20 classes x 11 costs x (3 folds + 1 fit) = 880 SVMs on 5011 x 2048 features. Ours solves all of
them in every pair. The peer solves those of a few classes, spread from the rarest to the most
frequent, one `LinearSVC` after another on each core: what one SVM costs it does not depend on the
others. So the figures are seconds an SVM; `--full` has the peer solve all 880 as well. Ours on the
peer's classes alone, which gives it less to share, is printed beside.

Memory is that of one process: the peer's does not count its workers.

Objectives and APs on the held-out folds are compared, cost by cost. The peer stops at
its own tolerance, or after 2000 iterations as the protocol says; ours at the minimum.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
from _measure import peak_memory, print_claim, take_turns
from _svm_data import SVMData, draw_svm_data
from _svm_peer import solve_peer
from joblib.externals.loky import get_reusable_executor
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from assay.evaluate.linear_svc import SVMProblem
from assay.evaluate.svm_solver import solve_svms

COSTS = (0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 50.0, 100.0, 1000.0)
PAIRS = 3


@dataclass(frozen=True)
class Work:
    """What is solved; small enough to be handed to another process."""

    num_rows: int
    dim: int
    num_classes: int
    costs: tuple[float, ...]


FULL = Work(5011, 2048, 20, COSTS)
SMALL = Work(600, 128, 4, (0.01, 1.0, 100.0))


def problems_of(data: SVMData, classes: list[int], costs: tuple[float, ...]) -> list[SVMProblem]:
    """Class by class: three folds, then all rows; within each, every cost."""
    everything = np.arange(len(data.features))
    problems = []
    for column in classes:
        labels = data.labels[:, column].copy()
        folds = [fitted for fitted, _ in StratifiedKFold(3).split(everything, labels)]
        problems += [
            SVMProblem(labels, rows, cost) for rows in [*folds, everything] for cost in costs
        ]
    return problems


def solve_ours(data: SVMData, problems: list[SVMProblem]) -> np.ndarray:
    """(P, D + 1) weights with the bias last."""
    solution = solve_svms(data.features, problems)
    return np.column_stack([solution.weights, solution.biases])


def objective(data: SVMData, problem: SVMProblem, weights: np.ndarray) -> float:
    labels = problem.labels[problem.rows]
    scores = data.features[problem.rows] @ weights[:-1] + weights[-1]
    slack = np.maximum(0, 1 - labels * scores)
    costs = problem.cost * np.where(labels > 0, 2.0, 1.0)
    return float(0.5 * weights @ weights + (costs * slack**2).sum())


def held_out_ap(data: SVMData, problem: SVMProblem, weights: np.ndarray) -> float:
    rows = np.setdiff1d(np.arange(len(data.features)), problem.rows)
    scores = data.features[rows] @ weights[:-1] + weights[-1]
    return float(average_precision_score(problem.labels[rows], scores))


def compare(
    data: SVMData, problems: list[SVMProblem], ours: np.ndarray, peer: np.ndarray, work: Work
) -> None:
    """Print how the two sides differ at each cost."""
    print(f"{'cost':>8} {'objective, ours / peer - 1':>28} {'largest difference in AP':>26}")
    for cost in work.costs:
        excess, apart = [], []
        for problem, one, other in zip(problems, ours, peer, strict=True):
            if problem.cost != cost:
                continue
            excess.append(objective(data, problem, one) / objective(data, problem, other) - 1)
            if len(problem.rows) < len(data.features):
                aps = [held_out_ap(data, problem, weights) for weights in (one, other)]
                apart.append(abs(aps[0] - aps[1]))
        print(f"{cost:8g} {min(excess):+13.1e} to {max(excess):+.1e} {max(apart):26.1e}")


def work_ours(work: Work, classes: list[int]) -> None:
    data = draw_svm_data(work.num_rows, work.dim, work.num_classes)
    solve_ours(data, problems_of(data, classes, work.costs))


def work_peer(work: Work, classes: list[int]) -> None:
    data = draw_svm_data(work.num_rows, work.dim, work.num_classes)
    solve_peer(data.features, problems_of(data, classes, work.costs))
    # Idle workers would keep this process from ending for minutes.
    get_reusable_executor().shutdown()


def limit_s(work: Work, num_problems: int) -> float:
    """Seconds an SVM that products with X alone would take, at the rate measured here.

    A Newton step has to look at all margins and at the gradient, two products of 2 N D operations;
    the fewest steps that an SVM can do with are one to reach its minimum and one to see that.
    """
    width = 48
    matrix = torch.randn(work.num_rows, work.dim, dtype=torch.float64)
    columns = torch.randn(work.dim, width, dtype=torch.float64)
    torch.set_num_threads(os.cpu_count() or 1)
    start_s = time.perf_counter()
    for _ in range(20):
        matrix @ columns
    rate = 20 * 2 * matrix.numel() * width / (time.perf_counter() - start_s)
    return 2 * 2 * 2 * matrix.numel() / rate


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="under 20 s: does it still work?")
    parser.add_argument("--full", action="store_true", help="the peer solves every class as well")
    parser.add_argument("--peer-classes", type=int, default=2, help="classes the peer solves")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    arguments = parser.parse_args()
    work = SMALL if arguments.small else FULL
    pairs = 1 if arguments.small else arguments.pairs
    count = work.num_classes if arguments.full else arguments.peer_classes
    chosen = np.linspace(0, work.num_classes - 1, count).round().astype(int).tolist()
    data = draw_svm_data(work.num_rows, work.dim, work.num_classes)
    everything = problems_of(data, list(range(work.num_classes)), work.costs)
    part = problems_of(data, chosen, work.costs)
    print(f"{len(everything)} SVMs, of which the peer solves {len(part)}", flush=True)

    kept: dict[str, np.ndarray] = {}

    def run_peer() -> None:
        kept["peer"] = solve_peer(data.features, part)

    # The first run of each side warms up on a little of the work; what it finds is thrown away.
    solve_ours(data, part[: len(work.costs)])
    solve_peer(data.features, part[:2])
    timings = take_turns(lambda: solve_ours(data, everything), run_peer, pairs=pairs, warm_ups=0)
    start_s = time.perf_counter()
    ours_on_part = solve_ours(data, part)
    part_s = time.perf_counter() - start_s
    compare(data, part, ours_on_part, kept["peer"], work)
    print(f"ours: {statistics.median(timings.ours_s):.1f} s for all {len(everything)} SVMs")
    print(
        f"ours on the peer's {len(part)} alone: {part_s:.1f} s, the peer's in "
        f"{statistics.median(timings.peer_s) / part_s:.1f} times that"
    )
    each = type(timings)(
        tuple(seconds / len(everything) for seconds in timings.ours_s),
        tuple(seconds / len(part) for seconds in timings.peer_s),
    )
    memory = None
    if not arguments.small:
        memory = (
            peak_memory(work_ours, work, list(range(work.num_classes))),
            peak_memory(work_peer, work, chosen),
        )
    print_claim(
        f"{len(everything)} SVMs of the VOC07 protocol in 0.1 of LinearSVC's time on all cores",
        each,
        unit="s an SVM",
        limit=limit_s(work, len(everything)),
        memory=memory,
    )


if __name__ == "__main__":
    main()
