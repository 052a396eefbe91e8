"""What `choose_k` returns: a number of clusters, and what that is based on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._plotting import COLOURS, given_axes
from ksparse._tables import as_table, render
from ksparse.selection.recommend import LENIENT, LEVEL, worst_pair
from ksparse.selection.separation import Separation

__all__ = ["METHODS", "ClusterNumber", "words_of"]

METHODS = ("gap", "silhouette", "agreement", "stability")


def words_of(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return ", name=value" of the arguments that differ from their defaults; none of arrays."""
    plain = {name: value for name, value in given.items() if _is_plain(value)}
    return "".join(f", {k}={v!r}" for k, v in plain.items() if v != defaults.get(k))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float)


@dataclass(frozen=True)
class ClusterNumber:
    """How many clusters there are, and what that is based on.

    Attributes
    ----------
    recommended : int or None
        The number of clusters; 1 if not even two are separated. None if the smallest number
        that was tried is more than two and not supported.
    interval : tuple
        What would be recommended at a stricter level (0.001) and at a more lenient one (0.05)
        instead of 0.005.
    columns : dict of ndarray
        One entry per k: k, n_features, p_separation (of the two clusters that are least
        separated), least_separated (their names), n_separated (the number of groups of
        clusters that are separated from all others; clusters with too few samples to tell are
        not counted), and for each method that was asked for its value, with standard errors
        (``_se``) where there are any; NaN where there is none.
    choices : dict
        The k that each of these methods would choose by itself.
    labels : dict of ndarray
        The clusters for each k, numbered by decreasing size.
    separations : dict of Separation
        The test of all pairs of clusters for each k >= 2.
    calls : tuple of str
        What clusters in a number of clusters, which "{k}" stands for, and what tries other numbers.
    """

    recommended: int | None
    interval: tuple[int | None, int | None]
    columns: dict[str, NDArray[Any]]
    choices: dict[str, int]
    labels: dict[int, NDArray[np.int32]]
    separations: dict[int, Separation] = field(repr=False)
    calls: tuple[str, str] = field(default=("KSparse({k}).fit(X)", "choose_k(X)"), repr=False)

    @property
    def table(self) -> Any:
        """The columns as a data frame."""
        return as_table(self.columns)

    @property
    def sentence(self) -> str:
        """The recommendation and its reason, in plain words."""
        ks, k = [int(one) for one in self.columns["k"]], self.recommended
        if ks == [1]:
            return "One cluster (k = 1): all samples are equal."
        if k is None:
            return f"k = {ks[0]} is too many: {self._miss(ks[0])}. Try smaller numbers."
        larger = next((one for one in ks if one > max(k, 1)), None)
        beyond = "" if larger is None else f"; with {larger}, {self._miss(larger)}"
        if k == 1:
            text = f"One cluster (k = 1){beyond}."
        else:
            n_pairs, worst = k * (k - 1) // 2, worst_pair(self.separations[k])[0]
            pairs = "both" if n_pairs == 1 else f"all {n_pairs} pairs of"
            bound = f"p = {worst:.2g}" if n_pairs == 1 else f"p <= {worst:.2g}"
            text = f"k = {k}: {pairs} clusters are separated ({bound}){beyond}."
        low, high = self.interval
        if low != high and low is not None and high is not None:
            text += f" With a level of 0.001 it would be {low}, with 0.05 {high}."
        if larger is None:
            text += f" That is the largest number tried: try larger ones, from {k + 1} on, too."
        return text

    def _miss(self, k: int) -> str:
        """Return why a number is not supported."""
        p, one, other = worst_pair(self.separations[k])
        few = [name for name in (one, other) if name in self.separations[k].too_few]
        if few and p > LENIENT:
            return f"cluster {few[0]} has too few samples to tell"
        return f"clusters {one} and {other} are not (p = {p:.2g})"

    @property
    def next_step(self) -> str:
        """The call that finds this number of clusters, with the arguments that were given here."""
        fit, choose = self.calls
        if self.recommended is None or self.recommended == 1:
            return "nothing to cluster" if self.recommended else choose
        return fit.replace("{k}", str(self.recommended), 1)

    def __str__(self) -> str:
        return f"{render(self.columns)}\n{self.sentence}\nNext: {self.next_step}"

    def __repr__(self) -> str:
        return f"ClusterNumber({self.sentence})"

    def _repr_html_(self) -> str:
        from html import escape

        table = self.table.to_html(index=False, na_rep="-", float_format="{:.3g}".format)
        return f"<p>{escape(self.sentence)}</p>{table}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the p-values of the least separated pairs and all other columns against k.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, optional
            Where to draw, one for separation and one for each method; a new figure by default.

        Returns
        -------
        sequence of Axes
        """
        methods = [method for method in METHODS if method in self.columns]
        axes = given_axes(axes, len(methods) + 1, width=3.4, height=3.2)
        self._draw_separation(axes[0])
        ks = self.columns["k"]
        for ax, method, colour in zip(axes[1:], methods, COLOURS[1:], strict=False):
            values = self.columns[method]
            error = self.columns.get(f"{method}_se")
            ax.errorbar(ks, values, yerr=error, fmt="o-", color=colour, markersize=4, capsize=2)
            ax.set_title(method)
        for ax in axes:
            if self.recommended is not None:
                ax.axvline(self.recommended, color="#B8BFC6", linewidth=6, alpha=0.5, zorder=0)
            ax.set(xlabel="clusters k", xticks=ks)
        return axes

    def _draw_separation(self, ax: Any) -> None:
        several = self.columns["k"] > 1
        ks, p = self.columns["k"][several], self.columns["p_separation"][several]
        shown = np.maximum(p.astype(float), 1e-12)
        ax.plot(ks, shown, "o-", color=COLOURS[0], markersize=4)
        ax.set(yscale="log", ylim=(5e-13, 2.0))
        ax.axhline(LEVEL, color="black", linestyle=":", linewidth=1)
        ax.annotate("not separated", (1.0, LEVEL), (0, 4), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="right", fontsize=7)  # fmt: skip
        chosen = "none" if self.recommended is None else f"k = {self.recommended}"
        ax.set_title(f"least separated pair: {chosen}")
        ax.set_ylabel("p-value")
