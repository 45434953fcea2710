"""Private mean-regularised multi-task learning (Hu, Wu, Smith 2023): what `taskveil reproduce pmtl-...` runs."""

ITEMS = {name: f"items:{name}" for name in ("fig1", "fig3", "fig7", "fig8", "table1", "table3")} | {
    name: f"over_rounds:{name}" for name in ("fig2", "fig4", "fig5", "fig6")
}
