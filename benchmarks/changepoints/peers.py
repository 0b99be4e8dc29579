"""Finds change points in series of numbers by other people's code.

One JSON object a line comes in, {"columns": [[1.5, null, ...], ...]}, and one
goes out: for each method the moments found in each column.
"""
import json
import math
import sys

import numpy as np
from otava.analysis import compute_change_points, fill_missing
import ruptures


def otava(column, p):
    points, _ = compute_change_points(list(column), window_len=50, max_pvalue=p, min_magnitude=0.0)
    return [int(c.index) for c in points]


def pelt(column):
    # Squared error in units of the noise, which differences tell, with the
    # penalty of Schwarz's criterion: a moment and a level.
    x = np.asarray(column, dtype=float)
    noise = 1.4826 * np.median(np.abs(np.diff(x))) / math.sqrt(2)
    if noise <= 0:
        noise = np.std(np.diff(x)) / math.sqrt(2)
    if noise <= 0:
        return []
    fitted = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(x / noise)
    return [int(t) for t in fitted.predict(pen=2 * math.log(len(x)))[:-1]]


for line in sys.stdin:
    columns = json.loads(line)["columns"]
    for column in columns:
        fill_missing(column)
    print(json.dumps({
        "otava": [otava(c, 0.001) for c in columns],
        "otava_05": [otava(c, 0.05) for c in columns],
        "pelt": [pelt(c) for c in columns],
    }), flush=True)
