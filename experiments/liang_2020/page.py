"""What stands at the head of this paper's page."""

from __future__ import annotations

from typing import Any

PREFIX = "mp-mtl"
TABLES: dict[str, Any] = {}

FEW = "add or remove a task; printed settings from a dozen: they are shown somewhat worse, ours somewhat better, than they are"
LONG = f"{FEW}; rows not of length one"
OLDER = {
    "fig4": "nothing: the same setting, fitted one by one instead of together",
    "fig8": f"{FEW}; no reference line",
    "fig9": LONG,
    "fig9b": LONG,
    "fig11": f"{LONG}; no MP-MTL-GS, three epsilons",
    "fig12": f"{LONG}; no MP-MTL-GS, three epsilons",
} | dict.fromkeys(("fig6", "fig6b", "fig7"), FEW)

HEAD = """
# Model-protected multi-task learning (Liang et al. 2020)

Written by `python -m experiments.paper_page liang_2020` from `results/`; do not edit.

"As printed" is `variant="paper"`: the noise of the journal version, whose guarantee does not hold (`docs/theory/model-protected.md`). Its rounds, penalties,
momentum and allocation are chosen by cross-validation on all tasks' rows, as in section 5.2. So are the clip and the step, which the theorems set to 1/L.
The search starts with settings that did well before and 200 random ones that reach beyond them on every side. It goes on around the best of these, generation
by generation with new noise, until a cycle of generations gains less than a hundredth, for at most four cycles (squared loss only; without generations if
fits are made one by one). It uses a draw of the data that no replication uses. In the headline only low-rank went through these generations, and only its
scores are new. All others there are from an earlier state of this version, on the same draws. (`subspace` is now a little better on them, and learning alone
a little worse, so the shares would rise.) Penalties without privacy are chosen in the same way (`tuned.json`). Neighbours are those of Definition 6: one
task's data are replaced. The printed noise does not depend on them. Ours is twice that for adding or removing a task, which is shown beside it at epsilon 1.
Items marked as older were not run again; the last table of the page says what is different there.

The paper shows the covariance Sigma of its low-rank data only as a picture. Ours has four blocks of tasks with correlation 0.99 and variance 70. The noise in
the targets alone then leaves an nMSE of 1/71 = 0.0141, so no method can reach the printed 0.0140. A picture does not fix the variance, and several pairs of
variance and correlation give that number; `sigma` tries others. With our Sigma each task has something of its own, which is the purpose of personal models.
With a larger variance the errors of all methods shrink alike.

LSOA II is not available. HAR (sitting or not, 40 of 561 features) stands in for it. It has 30 tasks instead of 41, 40 features instead of 295, and more rows
for each task, so accuracy at a given epsilon is better there than on LSOA II. Rows of both real sets have length one, as in section 5.5.1.

DP-MTRL and DP-AGGR are the methods of Gupta et al. and Pathak et al. as section 5.1 changes them. The constants that turn a record's epsilon into a task's
(Prop. 3) are Liang et al.'s, so what is said here about their noise is not about the original papers. A printed limit ("above 0.16") counts as met only if the
model is also better than predicting the mean. No reading of section 5.1 that we found gives DP-MTRL the printed ratio of noise to signal (`fig5` says why).
With the noise that we find it predicts no better than the mean, so it means little to be better than DP-MTRL.

The paper has the following, but this page or the library does not:

* Two budgets at once as an option of the library: epsilon_mp against the other tasks and epsilon_dp against the curator (Appendix B, Algorithm 5). The paper
  has no experiment with it; `two-budgets` is one. Its second noise has length 2 d K / epsilon_dp on every message (this is the density of the proof; the
  printed one is inverted). 2K bounds any change of a model, so this noise protects a whole task, not only a row. Therefore no epsilon_dp up to ten thousand
  gives models clearly better than learning alone. (A first, smaller search of settings ended one per cent better; the larger one shown is worse.) The library
  has that noise at one epsilon (`aggregation="local-model"`). It also has a secure sum (`aggregation="secure"`), which protects against the curator at
  epsilon_mp itself, with about the noise of one release, under the assumptions that its certificate lists.
* A figure with Frank-Wolfe steps: section 1 names them but gives no algorithm. The library has one (`frank-wolfe`, docs/theory/model-protected.md).
* Tasks with different losses in one fit. (Eq. 1 allows a loss per task; all experiments of the paper use one.) The proofs would allow it: a message is a model
  or a direction, clipped to one length whatever its loss, so every guarantee would hold. But a fit here has one kind of outcome throughout (units of the target,
  base rates, metrics, saved models). And models of different losses differ in length, so one clip cannot suit all. A task with two classes can join a regression
  with targets 0 and 1. Tasks with different features share one list, with a constant if a task lacks one: its message is zero there (docs/choosing-a-method.md).
"""


def tuned_rows(item: str, document: dict[str, Any]) -> list[Any]:
    """Every tuned row of a printed method in an item: the check of the settings it was drawn with, "whole grid", or None."""
    from experiments.liang_2020.tradeoff import AGGR, GROUP, LOW_RANK, MTRL

    found: list[Any] = []
    for chosen in _named("chosen by cross-validation", document["settings"]):
        found += ["whole grid" for name in (MTRL, AGGR) for _ in chosen.get(name, ())]
        found += [_checked(name, e, options) for name in (LOW_RANK, GROUP) for e, options in chosen.get(name, {}).items()]
        if item == "fig8":
            found += [_checked(LOW_RANK, e, options) for e, options in chosen.items()]
    return found


def _named(key: str, where: dict[str, Any]) -> list[Any]:
    inner = [found for value in where.values() if isinstance(value, dict) for found in _named(key, value)]
    return [where[key], *inner] if key in where else inner


def _checked(name: str, epsilon: str, options: dict[str, Any]) -> Any:
    """Data sets are told apart by the settings themselves: random numbers."""
    from experiments.random_settings import row, tuned

    for data, known in tuned("liang_2020").items():
        same = known.get(f"chosen/{name}", {}).get(epsilon) == options
        if same and epsilon in known.get(f"random/{name}", {}):
            return row("liang_2020", data, f"random/{name}", epsilon)
    return None


def tail() -> str:
    from experiments.random_settings import table

    return f"""## Is the printed side starved?

Chosen settings beside the best of fresh random ones, by cross-validation with new noise (`python -m experiments.liang_2020.starved`).

{table("liang_2020")}"""
