"""Federated MTL-SVM (Ponomarenko-Timofeev et al. 2023): what `taskveil reproduce svm-...` runs."""

ITEMS = {
    "fig5": "figures:fig5",
    "har30": "figures:har30",
    "light": "figures:light",
    "fig6": "figures:fig6",
    "fig7": "figures:fig7",
    "fig8": "figures:fig8",
    "fig9": "figures:fig9",
    "fig10": "figures:fig10",
    "fig11": "figures:fig11",
    "fig12": "figures:fig12",
    "synthetic": "claims:synthetic",
    "time": "claims:time_table",
    "rounds": "claims:rounds",
    "masks": "claims:masks",
    "attack": "claims:attack_item",
    "equations": "claims:equations",
    "complexity": "claims:complexity_item",
    "reconstruction": "claims:reconstruction_item",
    "waiting": "claims:waiting",
    "private": "claims:private_item",
}
