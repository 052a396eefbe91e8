"""Write the model file that every later version must read: python tests/files/make_model.py

Only for a new version of the encoding: files of the versions before stay as they are.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from ksparse import KSparse
from ksparse.io.model_file import VERSION


def data():
    """40 samples x 12 features that no random generator has to give again."""
    rows, columns = np.arange(40)[:, None], np.arange(12)[None, :]
    noise = np.sin(rows * 12.9898 + columns * 78.233)
    return noise + 3.0 * (columns // 2 == rows % 3)


if __name__ == "__main__":
    names = [f"gene {j}" for j in range(12)]
    frame = pd.DataFrame(data(), columns=names)
    model = KSparse(3, n_features=6, max_labels=2, random_state=0).fit(frame)
    model.save(Path(__file__).parent / f"model_v{VERSION}.ksparse")
