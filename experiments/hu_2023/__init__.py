"""Private mean-regularised multi-task learning (Hu, Wu, Smith 2023): what `taskveil reproduce pmtl-...` runs."""

ITEMS = {
    name: f"items:{name}" for name in ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "table1", "table3")
}
