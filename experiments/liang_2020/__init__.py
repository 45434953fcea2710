"""Model-protected multi-task learning (Liang et al. 2020): what `taskveil reproduce mp-mtl-...` runs."""

ITEMS = {
    "headline": "curves:headline",
    "fig2": "pictures:fig2",
    "fig3": "pictures:fig3",
    "fig4": "synthetic:fig4",
    "fig5": "pictures:fig5",
    "fig6": "curves:fig6",
    "fig6b": "curves:fig6b",
    "fig7": "curves:fig7",
    "fig8": "synthetic:fig8",
    "fig9": "curves:fig9",
    "fig9b": "curves:fig9b",
    "fig10": "curves:fig10",
    "fig11": "curves:fig11",
    "fig12": "curves:fig12",
    "sigma": "synthetic:sigma",
    "lemmas": "pictures:lemmas",
    "prop1": "pictures:prop1",
    "two-budgets": "two_budgets:two_budgets",
}
