"""Keep a fitted model in a file."""

from __future__ import annotations

import platform
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ksparse import __version__
from ksparse.model_file import write_model_file

__all__ = ["FITTED", "SavingMixin"]

# All that a fitted model has besides its parameters.
FITTED = (
    "labels_", "weights_", "l1_weights_", "centroids_", "memberships_", "membership_log_odds_",
    "membership_centroids_", "n_features_selected_", "feature_importances_", "eta_", "gap_",
    "converged_", "n_iter_", "cost_history_", "history_", "starts_", "mean_", "scale_", "n_passes_",
    "n_features_in_", "feature_names_in_", "_spread", "_sklearn_output_config",
)  # fmt: skip


class SavingMixin:
    """The method `save` of `KSparse`."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file, for `ksparse.load`.

        One zip file of arrays and text, which later versions read and which cannot execute
        anything, unlike a pickle. It appears whole or not at all; a file that was there is
        replaced.

        Parameters
        ----------
        path : path
            The file, for example "cells.ksparse".

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import ksparse
        >>> X = np.random.default_rng(0).normal(size=(60, 20))
        >>> X[:20, :3] += 5
        >>> model = ksparse.KSparse(2, n_features=3, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "cells.ksparse"))
        ...     ksparse.load(pathlib.Path(folder, "cells.ksparse")).n_features_selected_
        3
        """
        check_is_fitted(self)
        have = vars(self)
        parts = {
            "params": self.get_params(deep=False),  # type: ignore[attr-defined]
            "fitted": {name: have[name] for name in FITTED if name in have},
        }
        about = {
            "ksparse": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        write_model_file(Path(path), parts, about)
