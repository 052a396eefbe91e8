"""The projection on the l1 ball: nearest point, at any scale, for any array."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples
from ksparse.core.balls import project_l1

PROPERTY = settings(max_examples=examples(100, 1000), deadline=None, derandomize=True)
SEEDS = range(5)


def exact_norm(W, costs=None):
    """Weighted l1 norm without rounding; entries of zero cost nothing, whatever the cost."""
    values = [Fraction(float(w)) for w in np.abs(np.asarray(W, dtype=np.float64)).ravel()]
    if costs is None:
        return sum(values, Fraction(0))
    pairs = zip(np.asarray(costs, dtype=np.float64).ravel(), values, strict=True)
    return sum((Fraction(float(c)) * v for c, v in pairs if v), Fraction(0))


def exact_projection(V, radius, costs=None):
    """The projection by sorting |v| / c, in rational numbers."""
    V = np.asarray(V, dtype=np.float64)
    c = np.ones(V.size) if costs is None else np.asarray(costs, dtype=np.float64)
    out = np.where(np.isinf(c), 0.0, V)
    counted = np.flatnonzero((c > 0) & np.isfinite(c) & (V != 0))
    values = [Fraction(abs(float(V[i]))) for i in counted]
    prices = [Fraction(float(c[i])) for i in counted]
    bound = Fraction(float(radius))
    if sum((p * v for p, v in zip(prices, values, strict=True)), Fraction(0)) <= bound:
        return out
    tau, total, square = Fraction(0), -bound, Fraction(0)
    for j in sorted(range(len(values)), key=lambda j: values[j] / prices[j], reverse=True):
        if values[j] <= tau * prices[j]:
            break
        total += prices[j] * values[j]
        square += prices[j] ** 2
        tau = total / square
    for i, v, p in zip(counted, values, prices, strict=True):
        out[i] = math.copysign(float(max(v - tau * p, Fraction(0))), V[i])
    return out


def sorted_projection(V, radius, costs):
    """The projection by sorting |v| / c, in floating point, for long vectors."""
    v = np.abs(V)
    order = np.argsort(-v / costs)
    total, square = np.cumsum((costs * v)[order]) - radius, np.cumsum((costs**2)[order])
    active = (v / costs)[order] > total / square
    last = np.flatnonzero(active)[-1]
    return np.sign(V) * np.maximum(v - max(total[last] / square[last], 0.0) * costs, 0.0)


def tolerance(V):
    return 1e-12 * float(np.abs(V).max(initial=0.0)) + 1e-320


entries = st.one_of(
    st.floats(-10, 10, allow_subnormal=False),
    st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]),
)
prices = st.one_of(st.floats(1e-3, 1e3), st.sampled_from([0.5, 1.0, 2.0]))
special_prices = st.one_of(prices, st.sampled_from([0.0, np.inf]))
shares = st.one_of(st.floats(1e-3, 2.0), st.sampled_from([0.25, 0.5, 1.0]))


@st.composite
def balls(draw, weighted=None, special=False, max_size=12, dtype=np.float64):
    """A point, costs or None, and a radius that is a share of the norm of the point."""
    V = np.array(draw(st.lists(entries, max_size=max_size)), dtype=dtype)
    costs = None
    if draw(st.booleans()) if weighted is None else weighted:
        kind = special_prices if special else prices
        costs = np.array(draw(st.lists(kind, min_size=V.size, max_size=V.size)))
    counted = np.ones(V.size) if costs is None else np.where(np.isinf(costs), 0.0, costs)
    norm = float(counted @ np.abs(V.astype(np.float64)))
    return V, draw(shares) * norm if norm > 0 else 1.0, costs


# Which point it is ---------------------------------------------------------------------


@PROPERTY
@given(balls(special=True))
def test_it_equals_the_projection_by_sorting(ball):
    V, radius, costs = ball
    found = project_l1(V, radius, costs)
    np.testing.assert_allclose(found, exact_projection(V, radius, costs), rtol=0, atol=tolerance(V))


@PROPERTY
@given(balls())
def test_it_is_in_the_ball(ball):
    V, radius, costs = ball
    norm = exact_norm(project_l1(V, radius, costs), costs)
    assert norm <= Fraction(radius) * Fraction(1 + 1e-11)


@PROPERTY
@given(balls())
def test_it_is_on_the_sphere_if_the_point_was_outside(ball):
    V, radius, costs = ball
    if exact_norm(V, costs) > Fraction(radius):
        norm = exact_norm(project_l1(V, radius, costs), costs)
        assert norm >= Fraction(radius) * Fraction(1 - 1e-11)


@PROPERTY
@given(balls())
def test_no_corner_of_the_ball_lies_beyond_the_tangent_plane(ball):
    V, radius, costs = ball
    W = project_l1(V, radius, costs)
    size = max(1.0, float(np.abs(V).max(initial=0.0)))
    corners = radius / (np.ones(V.size) if costs is None else costs)
    reach = np.abs(V - W) * corners
    slack = 1e-10 * size * max(size, float(corners.max(initial=0.0)))
    assert reach.max(initial=0.0) <= (V - W) @ W + slack


@PROPERTY
@given(balls(special=True))
def test_projecting_again_changes_nothing(ball):
    V, radius, costs = ball
    once = project_l1(V, radius, costs)
    np.testing.assert_allclose(project_l1(once, radius, costs), once, rtol=0, atol=tolerance(V))


@PROPERTY
@given(balls(special=True), st.data())
def test_two_points_never_move_apart(ball, data):
    A, radius, costs = ball
    B = np.array(data.draw(st.lists(entries, min_size=A.size, max_size=A.size)))
    after = np.linalg.norm(project_l1(A, radius, costs) - project_l1(B, radius, costs))
    assert after <= np.linalg.norm(A - B) + tolerance(np.append(A, B))


@PROPERTY
@given(balls(special=True), st.data())
def test_signs_go_through_it(ball, data):
    V, radius, costs = ball
    kind = st.sampled_from([-1.0, 1.0])
    signs = np.array(data.draw(st.lists(kind, min_size=V.size, max_size=V.size)))
    np.testing.assert_array_equal(
        project_l1(signs * V, radius, costs), signs * project_l1(V, radius, costs)
    )


@PROPERTY
@given(balls(special=True), st.randoms(use_true_random=False))
def test_the_order_of_the_entries_does_not_matter(ball, random):
    V, radius, costs = ball
    order = list(range(V.size))
    random.shuffle(order)
    shuffled = project_l1(V[order], radius, None if costs is None else costs[order])
    np.testing.assert_allclose(
        shuffled, project_l1(V, radius, costs)[order], rtol=0, atol=tolerance(V)
    )


@PROPERTY
@given(balls(weighted=False))
def test_weights_of_one_are_no_weights(ball):
    V, radius, _ = ball
    np.testing.assert_array_equal(project_l1(V, radius, np.ones(V.size)), project_l1(V, radius))


@PROPERTY
@given(balls(dtype=np.float32, special=True))
def test_float32_is_projected_as_exactly_as_float32_can_be(ball):
    V, radius, costs = ball
    found = project_l1(V, radius, costs)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, exact_projection(V, radius, costs), rtol=1.2e-7, atol=tolerance(V) + 1e-45
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", ["random", "rising", "falling"])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9])
def test_long_vectors_equal_the_projection_by_sorting(seed, order, share):
    rng = np.random.default_rng(seed)
    V, costs = rng.standard_t(2, size=5000), rng.lognormal(size=5000)
    rank = np.argsort(np.abs(V) / costs)
    pick = {"random": slice(None), "rising": rank, "falling": rank[::-1]}[order]
    V, costs = V[pick], costs[pick]
    radius = share * float(costs @ np.abs(V))
    np.testing.assert_allclose(
        project_l1(V, radius, costs), sorted_projection(V, radius, costs), atol=1e-10
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_many_equal_values_share_the_radius_equally(seed):
    rng = np.random.default_rng(seed)
    n = 1000
    signs = rng.choice([-1.0, 1.0], size=n)
    np.testing.assert_allclose(project_l1(7.0 * signs, 10.0), signs * 10.0 / n, atol=1e-13)
    few = rng.choice([1.0, 2.0, 3.0], size=n)
    found = project_l1(few, 0.5 * few.sum())
    np.testing.assert_allclose(found, exact_projection(few, 0.5 * few.sum()), atol=1e-12)
    assert len(np.unique(found)) <= 3


@pytest.mark.parametrize("radius", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_radius_far_below_the_values_is_kept_to_relative_rounding(radius, seed):
    V = 1.0 + radius * np.random.default_rng(seed).random(100)
    assert exact_norm(project_l1(V, radius)) <= Fraction(radius) * Fraction(1 + 1e-9)


# Radius --------------------------------------------------------------------------------


@PROPERTY
@given(balls(), st.floats(1.001, 1e6))
def test_a_point_in_the_ball_comes_back_as_it_is(ball, more):
    V, _, costs = ball
    found = project_l1(V, more * float(exact_norm(V, costs)) + 1e-300, costs)
    np.testing.assert_array_equal(found, V)


@PROPERTY
@given(balls())
def test_an_infinite_radius_changes_nothing(ball):
    V, _, costs = ball
    np.testing.assert_array_equal(project_l1(V, math.inf, costs), V)


@PROPERTY
@given(balls())
def test_radius_zero_gives_zero(ball):
    V, _, costs = ball
    assert not project_l1(V, 0.0, costs).any()


def test_radius_zero_leaves_free_entries():
    found = project_l1([3.0, -2.0, 1.0], 0.0, [1.0, 0.0, np.inf])
    np.testing.assert_array_equal(found, [0.0, -2.0, 0.0])


# Weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_free_and_excluded_entries_do_not_affect_the_others(seed):
    rng = np.random.default_rng(seed)
    V, costs = rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    costs[:5], costs[5:10] = 0.0, np.inf
    found = project_l1(V, 3.0, costs)
    np.testing.assert_array_equal(found[:5], V[:5])
    np.testing.assert_array_equal(found[5:10], 0.0)
    np.testing.assert_array_equal(found[10:], project_l1(V[10:], 3.0, costs[10:]))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(), (4,), (6, 1), (1, 4), (6, 4)])
def test_weights_are_broadcast_against_the_array(seed, shape):
    rng = np.random.default_rng(seed)
    V, costs = rng.normal(size=(6, 4)), rng.uniform(0.5, 2.0, size=shape)
    full = np.array(np.broadcast_to(costs, V.shape))
    np.testing.assert_array_equal(project_l1(V, 4.0, costs), project_l1(V, 4.0, full))


# Scale ---------------------------------------------------------------------------------


@PROPERTY
@given(balls(), st.integers(-300, 300))
def test_the_unit_of_float64_does_not_matter(ball, exponent):
    V, radius, costs = ball
    V, radius = V * 10.0**exponent, radius * 10.0**exponent
    np.testing.assert_allclose(
        project_l1(V, radius, costs),
        exact_projection(V, radius, costs),
        rtol=0,
        atol=tolerance(V),
    )


@PROPERTY
@given(balls(dtype=np.float32), st.integers(-30, 30))
def test_the_unit_of_float32_does_not_matter(ball, exponent):
    V, radius, costs = ball
    V, radius = V * np.float32(10.0**exponent), radius * 10.0**exponent
    found = project_l1(V, radius, costs)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, exact_projection(V, radius, costs), rtol=1.2e-7, atol=tolerance(V) + 2e-45
    )


@PROPERTY
@given(balls(weighted=True), st.integers(-300, 300))
def test_the_unit_of_the_weights_does_not_matter(ball, exponent):
    V, radius, costs = ball
    costs, radius = costs * 10.0**exponent, radius * 10.0**exponent
    np.testing.assert_allclose(
        project_l1(V, radius, costs),
        exact_projection(V, radius, costs),
        rtol=0,
        atol=tolerance(V),
    )


@PROPERTY
@given(st.lists(st.integers(-300, 300), min_size=2, max_size=8), st.integers(-300, 300))
def test_entries_of_all_sizes_can_be_in_one_array(exponents, radius):
    V = 10.0 ** np.array(exponents, dtype=float) * np.resize([1.0, -3.0], len(exponents))
    np.testing.assert_allclose(
        project_l1(V, 10.0**radius),
        exact_projection(V, 10.0**radius),
        rtol=1e-12,
        atol=tolerance(V),
    )


@pytest.mark.parametrize("exponent", [4, 10, 30, 50, 100, 120])
@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0, 1.5, 2.0, 5.0])
def test_weights_of_all_sizes_can_be_in_one_array(exponent, radius):
    V, costs = np.array([3.0, 10.0**exponent]), np.array([1.0, 10.0**-exponent])
    found = project_l1(V, radius, costs)
    assert exact_norm(found, costs) <= Fraction(radius) * Fraction(1 + 1e-9)
    np.testing.assert_allclose(found, exact_projection(V, radius, costs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("exponent", [130, 150])
@pytest.mark.parametrize("radius", [1.5, 5.0])
def test_weights_too_far_apart_are_refused_by_name_unless_the_result_is_right(exponent, radius):
    V, costs = np.array([3.0, 10.0**exponent]), np.array([1.0, 10.0**-exponent])
    try:
        found = project_l1(V, radius, costs)
    except ValueError as error:
        assert "weights" in str(error)
    else:
        np.testing.assert_allclose(found, exact_projection(V, radius, costs), rtol=1e-12)


@pytest.mark.parametrize("ratio", [1e-2, 1e-6, 1e-7, 1e-8, 1e-9, 1e-12])
def test_a_radius_that_one_cheap_entry_fills_leaves_nothing_for_the_others(ratio):
    V, costs = np.array([3.0, 1.0 / ratio]), np.array([1.0, ratio])
    radius = costs[1] * V[1]
    for order in ([0, 1], [1, 0]):
        found = project_l1(V[order], radius, costs[order])
        assert exact_norm(found, costs[order]) <= Fraction(radius) * Fraction(1 + 1e-9)


def test_the_largest_numbers_do_not_overflow():
    V = np.full(10, np.finfo(np.float64).max)
    np.testing.assert_array_equal(project_l1(V, math.inf), V)
    np.testing.assert_allclose(project_l1(V, 1e308), 1e307, rtol=1e-12)
    V = np.full(10, np.finfo(np.float32).max)
    np.testing.assert_array_equal(project_l1(V, math.inf), V)
    np.testing.assert_allclose(project_l1(V, 1e38), 1e37, rtol=1e-6)


def test_the_smallest_numbers_do_not_vanish():
    V = np.full(4, 8e-324 * 100)
    np.testing.assert_array_equal(project_l1(V, 1.0), V)
    assert exact_norm(project_l1(V, V[0])) <= Fraction(float(V[0]))
    assert project_l1(V[:1], V[0] / 2)[0] == V[0] / 2


# Arrays --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (1, 5), (2, 3, 4)])
def test_an_array_is_one_long_vector_whatever_its_shape(shape, seed):
    rng = np.random.default_rng(seed)
    V, costs = rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape)
    for weights in (None, costs):
        flat = project_l1(V.ravel(), 0.4, None if weights is None else weights.ravel())
        found = project_l1(V, 0.4, weights)
        assert found.shape == shape
        np.testing.assert_array_equal(found.ravel(), flat)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_empty_array_stays_empty(shape, dtype):
    for radius in (0.0, 1.0, math.inf):
        found = project_l1(np.empty(shape, dtype=dtype), radius)
        assert found.shape == shape
        assert found.dtype == dtype


def test_a_single_number_is_clipped():
    assert float(project_l1(3.0, 2.0)) == pytest.approx(2.0)
    assert float(project_l1(-3.0, 2.0, 2.0)) == pytest.approx(-1.0)
    assert float(project_l1(-3.0, 7.0, 2.0)) == -3.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_layout_in_memory_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(12, 10))
    V = base[::2, ::-1]
    expected = project_l1(np.ascontiguousarray(V), 3.0)
    np.testing.assert_array_equal(project_l1(V, 3.0), expected)
    np.testing.assert_array_equal(project_l1(np.asfortranarray(V), 3.0), expected)
    np.testing.assert_array_equal(project_l1(V.tolist(), 3.0), expected)
    costs = rng.uniform(0.5, 2.0, size=V.shape)
    np.testing.assert_array_equal(
        project_l1(np.asfortranarray(V), 3.0, costs),
        project_l1(V, 3.0, np.asfortranarray(costs)),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [0.0, 0.5, 100.0, math.inf])
def test_floats_keep_their_type(dtype, radius):
    V = np.array([1.0, -2.0, 0.25], dtype=dtype)
    assert project_l1(V, radius).dtype == dtype
    assert project_l1(V, radius, np.array([1.0, 2.0, 0.0])).dtype == dtype


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_whole_numbers_become_float64(dtype):
    V = np.array([1, 0, 1], dtype=dtype)
    found = project_l1(V, 1.0)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [0.5, 0.0, 0.5])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_the_most_negative_integer_is_projected(dtype):
    least = np.iinfo(dtype).min
    V = np.array([least, 0], dtype)
    np.testing.assert_array_equal(project_l1(V, -(float(least) / 2)), [float(least) / 2, 0.0])
    np.testing.assert_array_equal(project_l1(V, 1e30), [float(least), 0.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("radius", [0.0, 0.5, 100.0, math.inf])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.0, np.inf, 2.0])])
def test_the_input_is_never_modified_and_never_handed_out(dtype, radius, weights):
    V = np.array([3, -1, 2, 0], dtype=dtype)
    V.flags.writeable = False
    before = V.copy()
    kept = None if weights is None else weights.copy()
    found = project_l1(V, radius, weights)
    assert not np.shares_memory(found, V)
    assert found.flags.writeable
    np.testing.assert_array_equal(V, before)
    if weights is not None:
        assert not np.shares_memory(found, weights)
        np.testing.assert_array_equal(weights, kept)


# What is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("radius", [-1, -1e-300, -math.inf, math.nan])
def test_a_negative_radius_is_refused(radius):
    with pytest.raises(ValueError, match=rf"^radius={float(radius)} must be >= 0\.$"):
        project_l1([1.0], radius)


@pytest.mark.parametrize("radius", ["two", None, [1.0, 2.0], 1j])
def test_a_radius_that_is_no_number_is_refused_by_name(radius):
    with pytest.raises((TypeError, ValueError), match="radius"):
        project_l1([1.0], radius)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_not_finite_are_refused(bad, dtype):
    for radius in (0.0, 1.0, math.inf):
        with pytest.raises(ValueError, match=r"^V must be finite, .* NaN or infinity\.$"):
            project_l1(np.array([1.0, bad, 2.0], dtype=dtype), radius)


@pytest.mark.parametrize(
    "V",
    [
        np.array([1j]),
        np.array(["a"]),
        np.array(["1.0"]),
        np.array([b"a"]),
        np.array([None]),
        np.array([1.0], dtype=object),
        np.zeros(1, dtype="M8[s]"),
        "text",
        None,
    ],
)
def test_arrays_that_are_not_real_are_refused(V):
    with pytest.raises(TypeError, match=r"^V must be a real array, got dtype .*\.$"):
        project_l1(V, 1.0)


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [math.nan, 1.0], [-math.inf, 1.0], -1e-300])
def test_negative_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"^weights must be >= 0 "):
        project_l1([1.0, 2.0], 1.0, weights)


@pytest.mark.parametrize("weights", [["a", "b"], np.array([1j, 1j]), "text", [None, {}]])
def test_weights_that_are_not_real_are_refused_by_name(weights):
    with pytest.raises(TypeError, match="weights"):
        project_l1([1.0, 2.0], 1.0, weights)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (0,)])
def test_weights_of_another_shape_are_refused_by_name(shape):
    with pytest.raises(ValueError, match=r"weights"):
        project_l1([1.0, 2.0], 1.0, np.ones(shape))
