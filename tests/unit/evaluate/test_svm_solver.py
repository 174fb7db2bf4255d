"""Many linear SVMs at once, against the slow and obvious way and against scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from assay.errors import AssayWarning, ConfigError, DataError
from assay.evaluate import svm_sweep
from assay.evaluate.linear_svc import SVMProblem
from assay.evaluate.svm_solver import solve_svms

COSTS = (0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 50.0, 100.0, 1000.0)
SOME_COSTS = (0.01, 1.0, 100.0)

few_examples = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture(scope="module", params=["small ones each alone", "all together"], autouse=True)
def way(request):
    """Both ways of solving: what holds of one has to hold of the other."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "all together":
            patch.setattr(svm_sweep, "is_direct", lambda *_: False)
        yield request.param


def reference(features, labels, row_costs, intercept_scaling=1.0):
    """Weights with the bias's last, by Newton's method with the whole Hessian in float64."""
    rows = np.column_stack([features, np.full(len(features), intercept_scaling)]).astype(float)

    def objective(weights):
        slack = np.maximum(0, 1 - labels * (rows @ weights))
        return 0.5 * weights @ weights + (row_costs * slack**2).sum()

    weights = np.zeros(rows.shape[1])
    for _ in range(300):
        slack = np.maximum(0, 1 - labels * (rows @ weights))
        gradient = weights - 2 * rows.T @ (row_costs * labels * slack)
        if np.linalg.norm(gradient) <= 1e-11 * max(np.linalg.norm(weights), 1e-30):
            break
        curvature = 2 * row_costs * (slack > 0)
        hessian = np.eye(len(weights)) + rows.T @ (curvature[:, np.newaxis] * rows)
        step = np.linalg.solve(hessian, -gradient)
        length = 1.0
        while length > 1e-9 and objective(weights + length * step) > objective(weights):
            length /= 2
        weights = weights + length * step
    return weights, objective(weights)


def draw(seed, num_rows=150, dim=20, positives=30, separation=1.0):
    random = np.random.default_rng(seed)
    labels = -np.ones(num_rows, np.int8)
    labels[random.choice(num_rows, positives, replace=False)] = 1
    features = random.standard_normal((num_rows, dim)) * np.exp(random.standard_normal(dim))
    features = np.maximum(features + separation * (labels[:, np.newaxis] > 0), 0)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return features, labels


def every_row(labels, costs):
    rows = np.arange(len(labels))
    return [SVMProblem(labels, rows, cost) for cost in costs]


def with_bias(solution):
    return np.column_stack([solution.weights, solution.biases])


def relative_error(found, wanted):
    return np.linalg.norm(found - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)


def row_costs(labels, cost):
    return cost * np.where(labels > 0, 2.0, 1.0)


def hard_features(name):
    if name == "plain":
        return draw(0)
    if name == "three positives":
        return draw(1, num_rows=200, positives=3)
    if name == "more features than rows":
        return draw(2, num_rows=40, dim=130, positives=8)
    features, labels = draw(3)
    if name == "columns of very different length":
        return features * np.geomspace(1e-3, 1e2, features.shape[1]), labels
    if name == "constant columns":
        return np.column_stack([features, np.full(len(labels), 0.3), np.zeros(len(labels))]), labels
    if name == "repeated rows, some with another label":
        labels = np.concatenate([labels, labels[:40], -labels[:5]])
        return np.concatenate([features, features[:40], features[:5]]), labels
    assert name == "large values"
    return features * 3e4 + 1e4, labels


HARD = (
    "plain",
    "three positives",
    "more features than rows",
    "columns of very different length",
    "constant columns",
    "repeated rows, some with another label",
    "large values",
)


@pytest.mark.parametrize("name", HARD)
def test_weights_and_objectives_are_those_of_the_one_minimum_at_every_cost(name):
    features, labels = hard_features(name)
    solution = solve_svms(features, every_row(labels, COSTS))
    assert solution.converged.all()
    for place, cost in enumerate(COSTS):
        wanted, objective = reference(features, labels, row_costs(labels, cost))
        assert relative_error(with_bias(solution)[place], wanted) < 1e-4
        assert solution.objectives[place] <= objective * (1 + 1e-6)


@pytest.mark.parametrize("name", ["plain", "three positives", "more features than rows"])
def test_weights_are_those_of_a_patient_linear_svc(name):
    features, labels = hard_features(name)
    solution = solve_svms(features, every_row(labels, COSTS))
    for place, cost in enumerate(COSTS):
        svc = LinearSVC(C=cost, class_weight={1: 2, -1: 1}, dual=False, tol=1e-10, max_iter=10**5)
        svc.fit(features, labels)
        wanted = np.append(svc.coef_[0], svc.intercept_[0])
        assert relative_error(with_bias(solution)[place], wanted) < 1e-4


def test_digits_are_told_apart_as_by_linear_svc(digits):
    train, _ = digits
    features, unseen = (
        rows.features / np.linalg.norm(rows.features, axis=1, keepdims=True) for rows in digits
    )
    problems = [
        SVMProblem(np.where(train.targets == digit, 1, -1).astype(np.int8), np.arange(600), cost)
        for digit in (0, 3, 8)
        for cost in SOME_COSTS
    ]
    solution = solve_svms(features, problems)
    for place, problem in enumerate(problems):
        svc = LinearSVC(
            C=problem.cost, class_weight={1: 2, -1: 1}, dual=False, tol=1e-10, max_iter=10**5
        )
        svc.fit(features, problem.labels)
        wanted = np.append(svc.coef_[0], svc.intercept_[0])
        assert relative_error(with_bias(solution)[place], wanted) < 1e-4
        scores = unseen @ solution.weights[place] + solution.biases[place]
        assert np.allclose(scores, svc.decision_function(unseen), atol=1e-4 * np.abs(scores).max())


@pytest.mark.parametrize(
    ("num_rows", "dim"), [(700, 540), (500, 40), (60, 540)], ids=["iterative", "primal", "dual"]
)
def test_every_way_of_solving_leads_to_the_same_minimum(num_rows, dim):
    features, labels = draw(4, num_rows, dim, positives=num_rows // 8, separation=0.2)
    solution = solve_svms(features, every_row(labels, SOME_COSTS), tolerance=1e-8)
    for place, cost in enumerate(SOME_COSTS):
        wanted, _ = reference(features, labels, row_costs(labels, cost))
        assert relative_error(with_bias(solution)[place], wanted) < 1e-7


def test_objective_and_gradient_norm_are_those_of_the_weights_returned():
    features, labels = draw(5)
    solution = solve_svms(features, every_row(labels, COSTS), intercept_scaling=2.0)
    rows = np.column_stack([features, np.full(len(labels), 2.0)])
    for place, cost in enumerate(COSTS):
        weights = np.append(solution.weights[place], solution.biases[place] / 2.0)
        slack = np.maximum(0, 1 - labels * (rows @ weights))
        costs = row_costs(labels, cost)
        gradient = weights - 2 * rows.T @ (costs * labels * slack)
        objective = 0.5 * weights @ weights + (costs * slack**2).sum()
        assert solution.objectives[place] == pytest.approx(objective, rel=1e-9)
        assert solution.gradient_norms[place] == pytest.approx(
            np.linalg.norm(gradient), rel=1e-3, abs=1e-9 * np.linalg.norm(weights)
        )


def test_rows_left_out_have_no_influence():
    features, labels = draw(6)
    rows = np.arange(0, 150, 2)
    spoilt = features.copy()
    spoilt[1::2] = 100.0
    found = solve_svms(spoilt, [SVMProblem(labels, rows, cost) for cost in COSTS])
    wanted = solve_svms(features[rows], every_row(labels[rows], COSTS))
    assert relative_error(with_bias(found), with_bias(wanted)).max() < 1e-4


def test_problems_on_few_of_many_rows_are_solved_as_if_these_were_all():
    features, labels = draw(7, num_rows=400)
    rows = np.random.default_rng(0).permutation(400)[:60]
    found = solve_svms(features, [SVMProblem(labels, rows, cost) for cost in COSTS])
    wanted = solve_svms(features[rows], every_row(labels[rows], COSTS))
    assert relative_error(with_bias(found), with_bias(wanted)).max() < 1e-4


def test_solutions_come_in_the_order_of_the_problems_whatever_they_share():
    features, labels = draw(8)
    other = draw(9)[1]
    rows = np.arange(150)
    problems = [
        SVMProblem(labels, rows, 10.0),
        SVMProblem(other, rows, 0.1),
        SVMProblem(labels.copy(), rows.copy(), 0.1),
        SVMProblem(labels, rows[:100], 1.0),
        SVMProblem(labels, rows, 10.0),
    ]
    together = with_bias(solve_svms(features, problems))
    alone = np.concatenate([with_bias(solve_svms(features, [each])) for each in problems])
    assert relative_error(together, alone).max() < 1e-4


def test_the_answer_is_the_same_to_the_bit_when_asked_again():
    features, labels = draw(10)
    first, second = (solve_svms(features, every_row(labels, COSTS), threads=2) for _ in range(2))
    assert np.array_equal(first.weights, second.weights)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_matters_no_more_than_rounding(threads):
    features, labels = draw(11)
    problems = [each for shift in range(5) for each in every_row(np.roll(labels, shift), COSTS)]
    found = solve_svms(features, problems, threads=threads)
    wanted = solve_svms(features, problems, threads=2)
    assert relative_error(found.weights, wanted.weights).max() < 1e-4


@few_examples
@given(seed=st.integers(0, 1000), power=st.integers(-12, 12), factor=st.floats(0.5, 2.0))
def test_longer_rows_at_a_cost_lower_by_the_square_give_shorter_weights(seed, power, factor):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    factor *= 2.0**power
    plain = solve_svms(features, every_row(labels, SOME_COSTS))
    scaled = solve_svms(
        features * factor,
        every_row(labels, [cost / factor**2 for cost in SOME_COSTS]),
        intercept_scaling=factor,
    )
    assert relative_error(scaled.weights * factor, plain.weights).max() < 1e-4
    assert np.allclose(scaled.biases, plain.biases, atol=1e-4 * np.abs(plain.weights).max())


@few_examples
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(seed):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    order = np.random.default_rng(seed).permutation(60)
    plain = solve_svms(features, every_row(labels, SOME_COSTS))
    shuffled = solve_svms(features[order], every_row(labels[order], SOME_COSTS))
    assert relative_error(with_bias(shuffled), with_bias(plain)).max() < 1e-4


@few_examples
@given(seed=st.integers(0, 1000), chosen=st.sets(st.integers(0, 59), min_size=1))
def test_a_row_given_twice_weighs_as_much_as_one_of_double_weight(seed, chosen):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    twice = np.concatenate([np.arange(60), sorted(chosen)])
    weights = np.bincount(twice, minlength=60).astype(float)
    repeated = solve_svms(features[twice], every_row(labels[twice], SOME_COSTS))
    weighted = solve_svms(features, every_row(labels, SOME_COSTS), sample_weight=weights)
    assert relative_error(with_bias(repeated), with_bias(weighted)).max() < 1e-4


@few_examples
@given(seed=st.integers(0, 1000), place=st.integers(0, 8))
def test_a_column_of_zeros_gets_no_weight_and_changes_no_other(seed, place):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    plain = solve_svms(features, every_row(labels, SOME_COSTS))
    wider = solve_svms(np.insert(features, place, 0, axis=1), every_row(labels, SOME_COSTS))
    assert not wider.weights[:, place].any()
    others = np.delete(wider.weights, place, axis=1)
    assert relative_error(others, plain.weights).max() < 1e-4


@few_examples
@given(seed=st.integers(0, 1000), count=st.integers(2, 7))
def test_a_problem_is_solved_alone_as_among_others(seed, count):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    others = [np.roll(labels, shift) for shift in range(count)]
    together = solve_svms(features, [p for each in others for p in every_row(each, SOME_COSTS)])
    alone = solve_svms(features, every_row(others[-1], SOME_COSTS))
    last = with_bias(together)[-len(SOME_COSTS) :]
    assert relative_error(last, with_bias(alone)).max() < 1e-4


@few_examples
@given(seed=st.integers(0, 1000))
def test_single_precision_comes_near_to_double(seed):
    features, labels = draw(seed, num_rows=60, dim=8, positives=9)
    costs = (0.01, 0.1, 1.0, 10.0)
    double = solve_svms(features, every_row(labels, costs))
    single = solve_svms(features, every_row(labels, costs), dtype="float32")
    assert single.converged.all()
    assert relative_error(with_bias(single), with_bias(double)).max() < 3e-3
    assert (single.objectives <= double.objectives * (1 + 1e-5)).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_tensor_is_taken_as_the_array_of_its_values(dtype):
    features, labels = draw(12)
    tensor = torch.from_numpy(features).to(dtype).requires_grad_()
    found = solve_svms(tensor, every_row(labels, COSTS))
    wanted = solve_svms(tensor.detach().double().numpy(), every_row(labels, COSTS))
    assert relative_error(found.weights, wanted.weights).max() < 1e-4


def test_whole_numbers_and_strides_of_any_sign_are_taken():
    random = np.random.default_rng(0)
    pixels = random.integers(0, 16, (80, 12))
    labels = np.where(pixels[:, 0] > 12, 1, -1).astype(np.int8)
    wanted = solve_svms(pixels.astype(float), every_row(labels, SOME_COSTS))
    for features in (pixels, np.asfortranarray(pixels), pixels.astype(np.uint8)[::-1][::-1]):
        found = solve_svms(features, every_row(labels, SOME_COSTS))
        assert np.array_equal(found.weights, wanted.weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_too_large_for_memory_are_read_in_chunks_from_their_file(tmp_path, dtype):
    features, labels = draw(13, num_rows=300, dim=30, positives=40)
    np.save(tmp_path / "features.npy", features.astype(dtype))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    found = solve_svms(mapped, every_row(labels, COSTS), memory_bytes=1000)
    wanted = solve_svms(features.astype(dtype), every_row(labels, COSTS))
    assert relative_error(with_bias(found), with_bias(wanted)).max() < 1e-4


def test_inputs_are_left_as_they_were():
    features, labels = draw(14)
    rows = np.arange(0, 150, 3)
    kept = [each.copy() for each in (features, labels, rows)]
    for each in (features, labels, rows):
        each.flags.writeable = False
    weights = np.full(150, 0.5)
    weights.flags.writeable = False
    solve_svms(features, [SVMProblem(labels, rows, 1.0)], sample_weight=weights)
    assert all(map(np.array_equal, kept, (features, labels, rows)))


def test_the_threads_of_torch_are_what_they_were():
    features, labels = draw(15)
    before = torch.get_num_threads()
    solve_svms(features, every_row(labels, SOME_COSTS), threads=before + 1)
    assert torch.get_num_threads() == before


def test_progress_counts_every_problem_once():
    features, labels = draw(16)
    counts = []
    problems = every_row(labels, COSTS) + every_row(-labels, COSTS)
    solve_svms(features, problems, progress=counts.append, threads=2)
    assert sum(counts) == len(problems)


def test_an_error_in_progress_reaches_the_caller():
    features, labels = draw(17)

    def fail(count):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        solve_svms(features, every_row(labels, COSTS), progress=fail)


def test_no_problem_gives_no_solution():
    solution = solve_svms(np.ones((3, 2)), [])
    assert solution.weights.shape == (0, 2)


def test_without_a_constant_feature_there_is_no_bias():
    features, labels = draw(18)
    solution = solve_svms(features, every_row(labels, [1.0]), intercept_scaling=0.0)
    wanted, _ = reference(features, labels, row_costs(labels, 1.0), intercept_scaling=0.0)
    assert solution.biases[0] == 0
    assert relative_error(solution.weights[0], wanted[:-1]) < 1e-4


def test_features_of_zeros_leave_the_bias_alone():
    labels = np.array([1, -1, -1, -1], np.int8)
    solution = solve_svms(np.zeros((4, 2)), every_row(labels, [1.0]))
    wanted, _ = reference(np.zeros((4, 2)), labels, row_costs(labels, 1.0))
    assert not solution.weights.any()
    assert solution.biases[0] == pytest.approx(wanted[-1])


def test_rows_of_one_label_are_a_problem_like_any_other():
    features, _ = draw(19)
    labels = np.ones(150, np.int8)
    solution = solve_svms(features, every_row(labels, SOME_COSTS))
    for place, cost in enumerate(SOME_COSTS):
        wanted, _ = reference(features, labels, row_costs(labels, cost))
        assert relative_error(with_bias(solution)[place], wanted) < 1e-4


def test_costs_far_beyond_the_usual_are_solved_too():
    features, labels = draw(20)
    costs = (1e-8, 1e6)
    solution = solve_svms(features, every_row(labels, costs))
    assert solution.converged.all()
    for place, cost in enumerate(costs):
        wanted, objective = reference(features, labels, row_costs(labels, cost))
        assert relative_error(with_bias(solution)[place], wanted) < 1e-4
        assert solution.objectives[place] <= objective * (1 + 1e-6)


def test_problems_that_do_not_converge_are_counted_in_a_warning():
    features, labels = draw(21)
    with pytest.warns(AssayWarning, match=r"of 11 SVMs did not converge") as caught:
        solution = solve_svms(features, every_row(labels, COSTS), max_iter=1, tolerance=1e-12)
    assert str(caught[0].message).startswith(f"{(~solution.converged).sum()} of 11")
    assert solution.converged.sum() < 11


def test_problems_that_converge_bring_no_warning():
    features, labels = draw(22)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_svms(features, every_row(labels, COSTS))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones(3), "shape"),
        (np.ones((0, 3)), "shape"),
        (np.ones((3, 2), complex), "complex128"),
        ([[1.0]], "list"),
        (np.array([[1.0, 2], [np.nan, 1], [np.inf, 1]]), r"2 of 3 rows \(1, 2\)"),
    ],
)
def test_features_that_are_no_matrix_of_numbers_are_refused(features, message):
    labels = np.array([1, -1, 1], np.int8)
    with pytest.raises(DataError, match=message):
        solve_svms(features, every_row(labels, [1.0]))


@pytest.mark.parametrize(
    ("labels", "rows", "message"),
    [
        ([1, -1], [0, 1], "shape"),
        ([1, 0, -1], [0, 1], r"label 0 at 1"),
        ([1, -1, 1], [], "no rows"),
        ([1, -1, 1], [0, 3], "0 to 3"),
        ([1, -1, 1], [0, 1, 1], "twice"),
    ],
)
def test_labels_and_rows_that_make_no_problem_are_refused(labels, rows, message):
    problem = SVMProblem(np.array(labels, np.int8), np.array(rows, np.int64), 1.0)
    with pytest.raises(DataError, match=message):
        solve_svms(np.eye(3), [problem])


@pytest.mark.parametrize("cost", [0.0, -1.0, np.nan, np.inf])
def test_costs_that_are_not_above_zero_are_refused(cost):
    labels = np.array([1, -1, 1], np.int8)
    with pytest.raises(ConfigError, match="cost"):
        solve_svms(np.eye(3), every_row(labels, [cost]))


def test_settings_that_make_no_sense_are_refused_in_one_error():
    labels = np.array([1, -1, 1], np.int8)
    with pytest.raises(ConfigError, match=r"class_weight.*tolerance.*dtype.*max_iter"):
        solve_svms(
            np.eye(3),
            every_row(labels, [1.0]),
            class_weight=(0.0, 1.0),
            tolerance=2.0,
            dtype="float16",
            max_iter=0,
        )


@pytest.mark.parametrize("weights", [np.ones(2), np.array([1.0, -1, 1]), np.array([1, np.nan, 1])])
def test_sample_weights_that_do_not_fit_are_refused(weights):
    labels = np.array([1, -1, 1], np.int8)
    with pytest.raises(DataError, match="sample_weight"):
        solve_svms(np.eye(3), every_row(labels, [1.0]), sample_weight=weights)


@pytest.mark.gpu
def test_the_whole_sweep_runs_on_an_accelerator():
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        pytest.skip("no accelerator")
    device = accelerator.current_accelerator()
    dtype = "float32" if device.type == "mps" else "float64"
    features, labels = draw(23, num_rows=700, dim=540, positives=90, separation=0.2)
    problems = []
    for shift in range(20):
        shifted = np.roll(labels, 7 * shift)
        for fold in range(4):
            rows = np.flatnonzero(np.arange(700) % 3 != fold)
            problems += [SVMProblem(shifted, rows, cost) for cost in COSTS]
    found = solve_svms(features, problems, device=device, dtype=dtype)
    wanted = solve_svms(features, problems)
    limit = 1e-4 if dtype == "float64" else 1e-2
    assert relative_error(with_bias(found), with_bias(wanted)).max() < limit
