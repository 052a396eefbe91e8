"""Rules to choose between candidate fits, compared by leaving one data set out.

python benchmarks/choice.py

Every start gives two candidates (after one loop, and converged). A rule picks one of the six
without true labels. For every data set, the rule that is best on all the other sets is applied
to it; the mean of that is what choosing a rule by labelled data is worth on new data.
"""

from __future__ import annotations

from itertools import count
from typing import ClassVar

import numpy as np

import ksparse.search.fit as fitting
import ksparse.search.search as searching
from common import FILES, SINGLE_CELL, WIDE, load
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score
from ksparse.search.judge import mean_and_error


class Recorder(fitting.Judge):
    """A judge that remembers what it was asked."""

    calls: ClassVar[list] = []
    kept: ClassVar[list] = []

    def __call__(self, labels, w_step, n_selected):
        scores = super().__call__(labels, w_step, n_selected)
        self.calls.append((labels, scores))
        return scores


def by_order(values, places):
    """The first that no later one beats by more than a standard error."""
    best = places[0]
    for place in places[1:]:
        difference, error = mean_and_error(values[place] - values[best])
        if difference > error:
            best = place
    return best


def by_both(table, one_of):
    """The first that none beats by more than a standard error of margins, and explained too."""
    best, *others = one_of(table)
    for place in others:
        explained = [table["explained"][i].mean() for i in (place, best)]
        difference, error = mean_and_error(table["margin"][place] - table["margin"][best])
        if difference > error and explained[0] >= explained[1]:
            best = place
    return best


def stages(explained):
    """Of each start, the candidate that is explained better on held-out samples."""
    return [i + 1 if explained[i + 1].mean() >= explained[i].mean() else i for i in (0, 2, 4)]


def converged_unless(table):
    """Of each start the converged candidate, unless one loop is better by both criteria."""
    explained, margin = (np.mean(table[what], axis=1) for what in ("explained", "margin"))
    return [i if explained[i] > explained[i + 1] and margin[i] >= margin[i + 1] else i + 1
            for i in (0, 2, 4)]  # fmt: skip


RULES = {
    "stage and start by both, margin by one standard error": lambda c: by_both(c, converged_unless),
    "stage by explained share, start by both, margin by one standard error": lambda c: by_both(
        c, lambda c: stages(c["explained"])
    ),
    "first start, stage by both": lambda c: converged_unless(c)[0],
    "stage by explained share, start by margin, one standard error": lambda c: by_order(
        c["margin"], stages(c["explained"])
    ),
    "stage and start by explained share, one standard error": lambda c: by_order(
        c["explained"], stages(c["explained"])
    ),
    "largest margin of all": lambda c: int(np.mean(c["margin"], axis=1).argmax()),
    "largest explained share of all": lambda c: int(np.mean(c["explained"], axis=1).argmax()),
    "largest held-out agreement of all": lambda c: int(np.mean(c["agreement"], axis=1).argmax()),
    "agrees most with the others": lambda c: int(c["similar"].argmax()),
    "margin of the converged, one standard error": lambda c: by_order(c["margin"], [1, 3, 5]),
    "first start, converged": lambda c: 1,
    "first start, one loop": lambda c: 0,
}


def recorded(*args, **options):
    """The search, of which alone the judge remembers what it was asked."""
    Recorder.calls = []
    found = searching.search(*args, **options)
    Recorder.kept = Recorder.calls
    return found


def candidates(name):
    X, classes, k, _ = load(name)
    numbers = count()
    # Equal candidates are judged once in a fit; here all of them are wanted.
    searching._in_order = lambda labels: np.array([next(numbers)])
    fitting.Judge, fitting.search = Recorder, recorded
    KSparse(k, n_features="auto" if name in WIDE else 100, random_state=0).fit(X)
    labels, scores = zip(*Recorder.kept, strict=True)
    alike = np.array([[adjusted_rand_score(a, b) for a in labels] for b in labels])
    table = {what: np.array([getattr(score, what) for score in scores])
             for what in ("margin", "explained", "agreement")}  # fmt: skip
    table["similar"] = alike.mean(axis=1)
    return table, np.array([adjusted_rand_score(classes, found) for found in labels])


def main():
    picked, best = {}, {}
    for name in FILES:
        table, ari = candidates(name)
        picked[name] = np.array([ari[rule(table)] for rule in RULES.values()])
        best[name] = ari.max()
    print("| rule | " + " | ".join(FILES) + " | single cells | all |")
    print("|---" * (len(FILES) + 3) + "|")

    def row(what, values):
        cells = " | ".join(f"{values[name]:.3f}" for name in FILES)
        means = [np.mean([values[name] for name in group]) for group in (SINGLE_CELL, FILES)]
        print(f"| {what} | {cells} | {means[0]:.3f} | {means[1]:.3f} |")

    for i, what in enumerate(RULES):
        row(what, {name: picked[name][i] for name in FILES})
    others = {name: np.mean([picked[o] for o in FILES if o != name], axis=0) for name in FILES}
    row("chosen with the set left out", {n: picked[n][others[n].argmax()] for n in FILES})
    row("the best candidate", best)


if __name__ == "__main__":
    main()
