"""Lists of genes that users give: names with commas between, or a file."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from ksparse._errors import InputError
from ksparse.io.archives import check_regular
from ksparse.io.files import plain_text

__all__ = ["allowed_list", "gene_list"]

# A text that ends so is the name of a file, even if there is none.
SUFFIXES = (".txt", ".csv", ".tsv", ".list")
# All names of all genes of an organism have a few megabytes.
MAX_BYTES = 2**25


def gene_list(option: str, text: str | None) -> list[str] | None:
    """Return names of genes from an option, such as "Gad1,Gad2" or "genes.txt"."""
    if text is None:
        return None
    if (path := _file(option, text)) is not None:
        return _names_in(path)
    return [name.strip() for name in text.split(",") if name.strip()]


def allowed_list(option: str, text: str | None) -> str | list[str] | None:
    """Return names of genes from a file, or else the text, which is the name of a column."""
    if text is None or (path := _file(option, text)) is None:
        return text
    return _names_in(path)


def _file(option: str, text: str) -> Path | None:
    """Return the file that is meant, or None if it is none; raise if it is not there."""
    path = Path(text)
    try:
        if path.is_file() or path.is_fifo():
            check_regular(path)
            return path
    except (OSError, ValueError):  # too long, or not possible as a name
        return None
    if text.lower().endswith(SUFFIXES) or (os.sep in text and "," not in text):
        raise FileNotFoundError(f"{option}: {path} does not exist, or is no file.")
    return None


def _names_in(path: Path) -> list[str]:
    """Return one name per line, or of a table the column "gene"."""
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES // 2**20} MB: it is no list of genes.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is no text in UTF-8: give a file with one gene per line."
        ) from None
    if path.suffix.lower() in (".csv", ".tsv"):
        return _column_of(path, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _column_of(path: Path, text: str) -> list[str]:
    """Return the column "gene" of a table, such as panel.csv."""
    table = csv.reader(io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        header = next(table, [])
        place = header.index("gene") if "gene" in header else -1
        if place < 0 and len(header) > 1:
            raise InputError(
                f"{path} has no column 'gene': name one so, or give one name per line."
            )
        rows = [*([] if place >= 0 else [header]), *table]
        names = [row[max(place, 0)] for row in rows if len(row) > max(place, 0)]
    except csv.Error as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    return [_plain(name) for name in names if name.strip()]


def _plain(name: str) -> str:
    """Return a name without the quote that keeps spreadsheets from taking it for a formula."""
    return name[1:] if name[:1] == "'" and plain_text(name[1:]) == name else name
