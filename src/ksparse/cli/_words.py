"""The terms of errors and warnings in the words of the shell."""

from __future__ import annotations

import click

from ksparse._errors import InputError, InputWarning, Term, visible

__all__ = ["say", "shell_text", "shell_word"]

# {term: option or word}. A value follows its option, or takes the place of "{}" or "{!r}".
WORDS = {
    "n_clusters": "-k",
    "ks": "-k",
    "n_features": "--genes",
    "n_genes": "--genes",
    "n_cells": "--cells",
    "n_samples": "{} cells",
    "normalize": "--normalize",
    "layer": "--layer",
    "mask_var": "--min-cells",
    "restrict_to": "--restrict-to",
    "known_labels": "--known-column",
    "groups": "--batch-column",
    "batch_key": "--batch-column",
    "calibrate": "--calibrate",
    "labels": "--label-column",
    "label_column": "--label-column",
    "level": "--level",
    "min_share": "--min-share",
    "unassigned": "--unassigned",
    "groupby": "--group-column",
    "keep": "--keep",
    "exclude": "--exclude",
    "exclude_pattern": "--exclude-pattern",
    "allowed": "--allowed",
    "costs": "--costs",
    "min_per_group": "--min-per-group",
    "extend": "--extend",
    "balance": "--balance",
    "max_genes": "--gate-genes",
    "genes": "--panel",
    "held_out": "--held-out",
    "n_splits": "{} folds",
    "max_labels": "--max-labels",
    "min_cluster_size": "--min-cluster-size",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "method": "--layout",
    "checkpoint": "--checkpoint",
    "unique_names": "--unique-names",
    "transpose": "--transpose",
    "check": "--check",
    "methods": "--methods",
    "preparations": "--preparations",
    "replicates": "--replicates",
    "time_limit": "--time-limit",
    "data": "DATA",
    "model": "MODEL",
    "adata": "INPUT",
    "new_adata": "INPUT",
    "adata.X": "X",
    "adata.layers": "the file",
    "adata.obs": "obs",
    "adata.var": "var",
    "adata.obs[]": "obs[{!r}]",
    "adata.var[]": "var[{!r}]",
    "adata.obsm[]": "obsm[{!r}]",
    "adata.uns[]": "uns[{!r}]",
    "tool": "`ksparse run`",
    "panel tool": "`ksparse panel`",
    "no result": "There is no result in the file",
    "run first": "it is no result of `ksparse run`",
    "run again": "run `ksparse run` again",
    "calibrate first": "run `ksparse run --calibrate` again",
    "path first": "run `ksparse run --path` first",
    "another key": "rename it",
    "number names": "give --unique-names",
}
# Names that users chose are quoted: they may hold anything.
QUOTED = (
    "layer", "labels", "label_column", "known_labels", "batch_key", "restrict_to", "groupby",
    "exclude_pattern", "allowed", "costs", "genes", "held_out",
)  # fmt: skip


def shell_word(term: Term) -> str:
    """Return a term in the words of the shell: "--genes 20" for "n_features=20"."""
    word = WORDS.get(term.name)
    if word is None:
        return str(term)
    if "{" in word:
        return word.format(term.value) if term.has_value else word.replace("{} ", "")
    if not word.startswith("-") or not term.has_value or term.value is True:
        return word
    if term.value is False:
        return word.replace("--", "--no-", 1)
    if term.value is None:
        return f"{word} none"
    return f"{word} {term.value!r}" if term.name in QUOTED else f"{word} {term.value}"


def shell_text(message: BaseException) -> str:
    """Return the text of an error or a warning, in one line and in the words of the shell."""
    if isinstance(message, InputError | InputWarning):
        text = message.render(shell_word)
    else:
        text = str(message)
    return " ".join(text.split())


def say(text: str, *, err: bool = False) -> None:
    """Print text that may hold names from files and folders, which must not control a terminal."""
    click.echo(visible(text), err=err)
