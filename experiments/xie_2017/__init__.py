"""Asynchronous private multi-task learning (Xie et al. 2017): what `taskveil reproduce async-...` runs."""

ITEMS = {
    "fig2": "items:fig2",
    "fig3": "items:fig3",
    "fig4": "items:fig4",
    "fig5": "items:fig5",
    "fig6": "items:fig6",
    "fig7": "items:fig7",
    "time": "items:time_to_target",
    "composition": "items:composition",
}
