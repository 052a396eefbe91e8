"""Gates: for every group the few features, above or below thresholds, that mark its samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ksparse._errors import InputError, Term, warn
from ksparse._names import listed
from ksparse._tables import as_table
from ksparse.matrix.sources import check_data, check_values
from ksparse.panel._cuts import Condition
from ksparse.panel._inputs import check_rules, feature_names, read_groups
from ksparse.panel._training import (
    Conditions,
    Part,
    choose_lengths,
    f_influence,
    found,
    halve,
)
from ksparse.panel.scoring import held_out_mask
from ksparse.params import check_seed

__all__ = ["MAX_FEATURES", "Gate", "Gates", "find_gates"]

# The largest number of training samples; all others tell how good the gates are.
MAX_TRAINING = 20_000
# With more features than this, candidates have to be chosen first.
MAX_FEATURES = 200
# Groups of fewer samples cannot be halved with two in each half.
SMALLEST_GROUP = 4

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Gate:
    """The gate of a group, and how good it is.

    Attributes
    ----------
    group : str
        The group.
    genes : tuple of str
        The features, at most four; none if no gate was found.
    signs : str
        "+" (above the threshold) or "-" (not above it) for each.
    thresholds : tuple of float
        The threshold of each; 0 for "detected at all".
    precision, recall, F, F_se : float
        Of samples that had no part in finding the gate, with the standard error of F (by the
        delta method, so that it is 0 where F is 0 or 1). NaN if there is no gate; precision is
        NaN if the gate holds none of these samples.
    F_training : float
        F on the samples on which the gate was found, which is too good.
    n_cells, n_training : int
        Samples of the group that were held out, and on which the gate was found.
    beta : float
        Of F.

    Examples
    --------
    >>> from ksparse.panel.gates import Gate
    >>> Gate("T cells", ("CD3D", "MS4A1"), "+-", (0.0, 1.5)).text
    'CD3D+ MS4A1-'
    """

    group: str
    genes: tuple[str, ...] = ()
    signs: str = ""
    thresholds: tuple[float, ...] = ()
    precision: float = np.nan
    recall: float = np.nan
    F: float = np.nan
    F_se: float = np.nan
    F_training: float = np.nan
    n_cells: int = 0
    n_training: int = 0
    beta: float = 1.0

    @property
    def text(self) -> str:
        """The gate in one line, such as "CD3D+ CD8A+ MS4A1-"."""
        return " ".join(f"{gene}{sign}" for gene, sign in zip(self.genes, self.signs, strict=True))


@dataclass(frozen=True)
class Gates:
    """The gates of all groups; see `find_gates`.

    Attributes
    ----------
    gates : tuple of Gate
        One for each group.
    names : tuple of str
        The features, in the order of the columns that `inside` expects.
    """

    gates: tuple[Gate, ...]
    names: tuple[str, ...] = field(repr=False)

    COLUMNS = ("group", "gate", "n_genes", "precision", "recall", "F", "F_se", "F_training",
               "n_cells", "n_training", "beta", "genes", "signs", "thresholds")  # fmt: skip

    @property
    def groups(self) -> list[str]:
        """The groups, in the order of the gates."""
        return [gate.group for gate in self.gates]

    @property
    def table(self) -> Any:
        """A data frame with one row for each group."""
        columns: dict[str, Any] = {}
        for name in self.COLUMNS:
            if name == "gate":
                columns[name] = [gate.text for gate in self.gates]
            elif name == "n_genes":
                columns[name] = [len(gate.genes) for gate in self.gates]
            else:
                columns[name] = [getattr(gate, name) for gate in self.gates]
        return as_table(columns).set_axis(self.groups, axis=0)

    def __len__(self) -> int:
        return len(self.gates)

    def __str__(self) -> str:
        shown = self.table[list(self.COLUMNS[1:9])]
        return str(shown.to_string(na_rep="-", float_format="{:.3g}".format))

    def inside(self, X: Any) -> NDArray[np.bool_]:
        """Return which samples are in which gate.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The features are `names`, in this order.

        Returns
        -------
        ndarray of bool, samples x groups
            A sample may be in several gates, or in none. No sample is in the gate of a group
            that has none.
        """
        X = check_data(X, None, check_array).X
        if X.shape[1] != len(self.names):
            raise InputError(
                f"X has {X.shape[1]} features, but the gates were found with {len(self.names)}: "
                "give the same features in the same order."
            )
        place = {name: i for i, name in enumerate(self.names)}
        conditions = [
            tuple(
                Condition(place[gene], sign, threshold)
                for gene, sign, threshold in zip(
                    gate.genes, gate.signs, gate.thresholds, strict=True
                )
            )
            for gate in self.gates
        ]
        part = Part(X, np.zeros(X.shape[0], dtype=np.int64), 1)
        return np.array(part.inside(conditions)).reshape(len(self), X.shape[0]).T


def find_gates(
    X: Any,
    y: ArrayLike,
    *,
    names: Iterable[str] | None = None,
    max_genes: int = 3,
    beta: float = 1.0,
    n_candidates: int | None = None,
    held_out: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Gates:
    """Find for every group the few features, each high or low, that mark its samples.

    A gate is a conjunction of 1 to 4 conditions: a feature is above a threshold ("+") or not
    ("-"), as on a sheet for flow cytometry or immunohistochemistry.

    The samples are split into two halves with the same shares of all groups. Thresholds,
    features and the number of conditions come from the first half; precision, recall and F are
    those of the very same gate on the second half, which had no part in any choice. (If the
    first half would have more than 20,000 samples, it has 20,000 and the second all others.)

    For each group, feature and sign there are at most two thresholds: the cuts, halfway between
    neighbouring values, with the largest J of Youden and the largest F of the feature alone
    against all other samples. If the lower value is 0, and none is negative, the threshold is
    0: "detected". Over all combinations of at most `max_genes` features, signs and these
    thresholds, the search for the largest F is exhaustive: it leaves out only what a bound
    proves to be worse, and is exact for the given thresholds. Among equals the gate with fewer
    features is preferred, then the one with the larger precision, then "+" before "-", then
    features that are better alone, then the first features.

    More conditions always look better on the samples on which they were found. So the first
    half is halved again, gates of every length are found on either part and scored on the
    other, and the shortest length is taken whose F is within one standard error (of the
    difference) of the best.

    Parameters
    ----------
    X : array-like or sparse matrix, samples x features
        The data. At most 200 features, unless `n_candidates` is given. Of data in files or dask
        arrays the training half is read into memory, and what the gates use.
    y : array-like
        The group of each sample. Samples whose group is missing (None or NaN) are left out,
        with a warning.
    names : iterable of str, optional
        Names of the features; by default those of a data frame, or "0", "1", ...
    max_genes : int, default=3
        The largest number of features in a gate, 1 to 4.
    beta : float, default=1.0
        Recall counts `beta` times as much as precision: the search maximises F_beta.
    n_candidates : int, optional
        For each group search only so many features: half are those with the largest F alone,
        and the others those with the largest F together with the best one, on the training
        samples. By default all features are searched.
    held_out : array-like of bool, optional
        Find gates without these samples, and score them on these, instead of halves.
    random_state : int, RandomState or None
        Seed of the halves.

    Returns
    -------
    Gates
        With the attribute `table`, and `inside(X)`. Groups of fewer than 4 samples have no gate
        and NaN instead of scores, with a warning; groups whose gate is not better than calling
        all samples the group are named in a warning, too.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.panel.gates import find_gates
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["T", "NK", "B"], 100)
    >>> X = rng.poisson(0.1, size=(300, 4))
    >>> X[:200, 0] += 4
    >>> X[:100, 1] += 3
    >>> X[200:, 2] += 3
    >>> gates = find_gates(X, y, names=["CD7", "CD3D", "CD79A", "ACTB"], random_state=0)
    >>> gates.table["gate"].tolist()
    ['CD79A+', 'CD7+ CD3D-', 'CD3D+']
    >>> gates.inside(X).shape
    (300, 3)
    """
    rules = check_rules(max_genes, beta, n_candidates)
    rng = check_seed(random_state)
    given = getattr(X, "columns", None) if names is None else names
    data = check_data(X, None, check_array)
    labels = feature_names(data.names if given is None else given, data.X.shape[1])
    if rules.n_candidates is None and len(labels) > MAX_FEATURES:
        raise InputError(
            f"X has {len(labels)} features, more than the {MAX_FEATURES} whose combinations can "
            "all be searched: give fewer features, or ", Term("n_candidates", 20), ".",
        )  # fmt: skip
    groups, codes, rows = read_groups(y, data.X.shape[0])
    if held_out is None:
        first, second = halve(codes, len(groups), rng, MAX_TRAINING)
    else:
        inside = held_out_mask(held_out, data.X.shape[0])[rows]
        first, second = _training(codes, ~inside, len(groups), rng), np.flatnonzero(inside)
    large = _large(groups, codes, first, second)
    whole = Part(data.X, np.zeros(data.X.shape[0], dtype=np.int64), 1)
    training = Part(whole.rows(rows[first]).X, codes[first], len(groups))
    check_values(training.X)  # which were not checked before if they are in a file
    lengths = choose_lengths(training, large, rules, rng)
    best = [gates[-1] if gates else () for gates in found(training, large, lengths, rules)]
    out = {g: Gate(group, beta=rules.beta) for g, group in enumerate(groups)}
    unmarked = []
    for g, conditions, inside in zip(large, best, whole.inside(best), strict=True):
        parts = [(inside[rows[half]], codes[half] == g) for half in (first, second)]
        out[g] = _gate(groups[g], conditions, labels, *parts, beta=rules.beta)
        all_of_them, _ = f_influence(np.ones(second.size, dtype=bool), parts[1][1], rules.beta)
        value = out[g].F
        if np.isnan(value) or value <= all_of_them:
            unmarked.append(groups[g])
    if unmarked:
        warn(
            f"{len(unmarked)} of {len(groups)} groups have no gate that is better, on samples that "
            f"were held out, than calling all samples the group: {listed(unmarked)}.",
            stacklevel=2,
        )
    return Gates(tuple(out.values()), labels)


def _training(
    codes: NDArray[np.int64], given: Flags, n_groups: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Return the samples that are given to find gates with, or a sample of them if it is large."""
    places = np.flatnonzero(given)
    if places.size <= MAX_TRAINING:
        return places
    return places[halve(codes[places], n_groups, rng, MAX_TRAINING)[0]]


def _large(
    groups: Sequence[str],
    codes: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> list[int]:
    """Return the groups with two samples in either part; warn about the others."""
    sizes, fitted, scored = (np.bincount(codes[places], minlength=len(groups))
                             for places in (slice(None), first, second))  # fmt: skip
    large = np.minimum(fitted, scored) >= SMALLEST_GROUP // 2
    if small := [f"{groups[int(g)]} ({sizes[g]})" for g in np.flatnonzero(~large)]:
        few = f"{SMALLEST_GROUP} samples"
        if sizes[~large].max() >= SMALLEST_GROUP:
            few = f"{SMALLEST_GROUP // 2} samples that are, or that are not, held out"
        warn(
            f"{len(small)} of {len(groups)} groups have fewer than {few}, and no gate: "
            f"{listed(small)}.",
            stacklevel=3,
        )
    return [int(g) for g in np.flatnonzero(large)]


def _gate(
    group: str,
    conditions: Conditions,
    names: Sequence[str],
    training: tuple[Flags, Flags],
    held_out: tuple[Flags, Flags],
    *,
    beta: float,
) -> Gate:
    """Return a gate with its scores; of each half, who is inside and who is in the group."""
    inside, member = held_out
    empty = Gate(group, n_cells=int(member.sum()), n_training=int(training[1].sum()), beta=beta)
    if not conditions:
        return empty
    hits, n_inside = int((inside & member).sum()), int(inside.sum())
    value, influence = f_influence(inside, member, beta)
    return replace(
        empty,
        genes=tuple(names[c.feature] for c in conditions),
        signs="".join(c.sign for c in conditions),
        thresholds=tuple(c.threshold for c in conditions),
        precision=hits / n_inside if n_inside else np.nan,
        recall=hits / int(member.sum()),
        F=value,
        F_se=float(np.std(influence) / np.sqrt(member.size)),
        F_training=f_influence(*training, beta)[0],
    )
