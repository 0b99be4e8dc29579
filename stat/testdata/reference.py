"""Second implementation of stat's intervals, on NumPy and SciPy.

    python3 reference.py > reference.json

It shares no code with the package: cosine transforms are scipy.fft's,
distributions scipy.stats', Wilson's interval is solved for by root finding,
and the spectrum's models are integrated over every frequency.
"""

import json
import math
import sys

import numpy as np
import scipy
from scipy import fft, optimize, stats

PHI = [0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.9, 0.93, 0.95, 0.97]
SHARE = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0]
EDGES = [2.0 ** (k / 4) for k in range(-8, 17)]


def simulate(rng, slots, rate, phi, shift):
    """Counts by slot and bucket, and sums by slot."""
    counts, sums, x = [], [], rng.normal(0, 0.15)
    for t in range(slots):
        if t:
            x = phi * x + rng.normal(0, 0.15 * math.sqrt(1 - phi * phi))
        values = np.exp(shift + x + 0.6 * rng.standard_normal(rng.poisson(rate))).clip(0.26, 15.9)
        counts.append(np.histogram(values, np.array(EDGES))[0].tolist())
        sums.append(round(float(values.sum()), 6))
    return counts, sums


def quantile(counts, p):
    total = counts.sum()
    cum = np.concatenate([[0], np.cumsum(counts)])
    i = int(np.searchsorted(cum[1:], p * total))
    return math.exp(np.interp(p * total, cum[i : i + 2], np.log(EDGES[i : i + 2])))


def at_most(counts, v):
    cum = np.concatenate([[0], np.cumsum(counts)])
    return float(np.interp(math.log(v), np.log(EDGES), cum))


class Spectrum:
    def __init__(self, slots):
        self.slots = slots
        e = [1]
        while e[-1] < slots:
            e.append(min(slots, e[-1] + max(1, e[-1] * 3 // 20)))
        self.edges = np.array(e)
        w = np.pi * np.arange(slots) / slots
        self.models = []
        for phi in [0.0] + PHI:
            for share in [1.0] if phi == 0 else SHARE:
                power = 1 - share + share * (1 - phi**2) / (1 - 2 * phi * np.cos(w) + phi**2)
                zero = 1 - share + share * (1 + phi) / (1 - phi)
                prior = 0.5 if phi == 0 else 0.5 / (len(PHI) * len(SHARE))
                low = np.cumsum(power[1:81]) / np.arange(1, len(power[1:81]) + 1)
                self.models.append((prior, self.mean(power), zero, low))

    def mean(self, v):
        return np.array([v[a:b].mean() for a, b in zip(self.edges[:-1], self.edges[1:])])

    def fit(self, *transforms):
        n = np.diff(self.edges)
        logs = np.array([math.log(prior) for prior, _, _, _ in self.models])
        for c in transforms:
            scaled = self.mean(c**2)
            logs -= [
                0.5 * ((self.slots - 1) * math.log((n * scaled / power).sum()) + (n * np.log(power)).sum())
                for _, power, _, _ in self.models
            ]
        weight = np.exp(logs - logs.max())
        weight /= weight.sum()
        low = sum(w * lo / zero for w, (_, _, zero, lo) in zip(weight, self.models))
        k = 8
        while k < len(low) and k < self.slots // 3 and low[k] >= 0.7:
            k += 1
        return k, 1 / max(0.1, min(1.0, low[k - 1]))


def wilson(p, n, crit):
    """The shares whose score test p would just pass."""
    f = lambda q: (p - q) ** 2 - crit**2 * q * (1 - q) / n
    return optimize.brentq(f, 0, p, xtol=1e-15), optimize.brentq(f, p, 1, xtol=1e-15)


def windows(a, b, p, level):
    """Two windows that differ in time: the log ratio of p-quantiles."""
    sides = []
    spectrum = Spectrum(len(a))
    for c in (np.array(a), np.array(b)):
        whole = c.sum(0)
        q = quantile(whole, p)
        z = np.array([(row.sum() - at_most(row, q)) - row.sum() * (1 - p) for row in c]) / c.sum()
        sides.append((whole, q, fft.dct(z, type=2, norm="ortho")))
    k, missing = spectrum.fit(sides[0][2], sides[1][2])
    limits = []
    for whole, q, c in sides:
        se = math.sqrt((c[1 : k + 1] ** 2).mean() * len(a) * missing)
        if whole.sum() * min(p, 1 - p) < len(a):  # fewer beyond than slots: at least that of independent requests
            se = max(se, math.sqrt(p * (1 - p) / whole.sum()))
        n = p * (1 - p) / se**2
        limits.append(
            lambda crit, whole=whole, n=n: [math.log(quantile(whole, 1 - s)) for s in wilson(1 - p, n, crit)[::-1]]
        )
    half = [(f(1)[1] - f(1)[0]) / 2 for f in limits]
    df = k * (half[0] ** 2 + half[1] ** 2) ** 2 / (half[0] ** 4 + half[1] ** 4)
    crit = stats.t.ppf(1 - (1 - level) / 2, df)
    (al, ah), (bl, bh) = limits[0](crit), limits[1](crit)
    la, lb = math.log(sides[0][1]), math.log(sides[1][1])
    effect = lb - la
    return dict(
        p=p, level=level, a=sides[0][1], b=sides[1][1], effect=effect, df=df, cosines=k,
        low=effect - math.hypot(lb - bl, ah - la), high=effect + math.hypot(bh - lb, la - al),
    )


def mean(a, sa, b, sb, level):
    spectrum = Spectrum(len(a))
    sides = []
    for c, s in ((np.array(a), np.array(sa)), (np.array(b), np.array(sb))):
        n = c.sum(1)
        m = s.sum() / n.sum()
        sides.append((m, fft.dct((s - m * n) / n.sum() / m, type=2, norm="ortho")))
    k, missing = spectrum.fit(sides[0][1], sides[1][1])
    va, vb = [(c[1 : k + 1] ** 2).mean() * len(a) * missing for _, c in sides]
    df = k * (va + vb) ** 2 / (va**2 + vb**2)
    effect = math.log(sides[1][0] / sides[0][0])
    half = stats.t.ppf(1 - (1 - level) / 2, df) * math.sqrt(va + vb)
    se = math.sqrt(va + vb)
    return dict(
        level=level, a=sides[0][0], b=sides[1][0], effect=effect, df=df, cosines=k, low=effect - half, high=effect + half,
        within=float(stats.t.sf((math.log(1.25) - abs(effect)) / se, df)),
    )


def main():
    rng = np.random.default_rng(20261120)
    cases = []
    for name, slots, rate, phi, shift in (
        ("independent", 120, 40, 0.0, 0.1),
        ("persistent", 150, 60, 0.9, 0.3),
        ("few requests", 200, 3, 0.5, 0.0),
    ):
        a, sa = simulate(rng, slots, rate, phi, 0)
        b, sb = simulate(rng, slots, rate, phi, shift)
        cases.append(
            dict(
                name=name, a=a, b=b, sums_a=sa, sums_b=sb,
                quantiles=[windows(a, b, p, level) for p, level in ((0.5, 0.95), (0.9, 0.95), (0.95, 0.9))],
                mean=mean(a, sa, b, sb, 0.95),
            )
        )
    p = [round(float(v), 12) for v in rng.uniform(0, 1, 12) ** 3]
    json.dump(
        dict(
            made_by=f"Python {sys.version.split()[0]}, NumPy {np.__version__}, SciPy {scipy.__version__}",
            edges=EDGES,
            cases=cases,
            student=[
                dict(p=q, df=df, t=float(stats.t.isf(q, df)))
                for df in (1, 2.5, 6, 8, 17.3, 60, 160, 1e4)
                for q in (0.4, 0.05, 0.025, 0.005, 1e-6)
            ],
            false_discovery=dict(p=p, adjusted=[float(v) for v in stats.false_discovery_control(p)]),
            wilson=[
                dict(k=k, n=n, level=0.95, low=ci.low, high=ci.high)
                for k, n in ((0, 10), (1, 40), (17, 50), (200, 201))
                for ci in [stats.binomtest(k, n).proportion_ci(0.95, method="wilson")]
            ],
        ),
        sys.stdout,
        separators=(",", ":"),
    )
    print()


main()
