"""Private mean-regularised multi-task learning (Hu, Wu, Smith 2023): what `taskveil reproduce pmtl-...` runs."""

ITEMS: dict[str, str] = {}
