"""Print the lower bounds of pyproject.toml as exact versions, for pip: python tests/lowest.py"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("plot", "anndata", "baselines", "dask")


def main():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    for line in sorted(set(wanted)):
        name, version = re.fullmatch(r"([\w.-]+)(?:\[[\w,]*\])?>=([\w.]+)", line).groups()
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
