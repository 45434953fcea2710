"""Private mean-regularised multi-task learning (Hu, Wu, Smith 2023): what `taskveil reproduce pmtl-...` runs."""

from pathlib import Path

ITEMS = {name: f"items:{name}" for name in ("fig1", "fig3", "fig7", "fig8", "table1", "table3")} | {
    name: f"over_rounds:{name}" for name in ("fig2", "fig4", "fig5", "fig6")
}
if (Path(__file__).parent / "cnn.json").exists():  # what `cnn sweep` leaves on a GPU
    ITEMS["table2"] = "cnn:table2"
