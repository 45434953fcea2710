"""Federated MTL-SVM (Ponomarenko-Timofeev et al. 2023): what `taskveil reproduce svm-...` runs."""

ITEMS = {
    "fig5": "items:fig5",
    "har30": "items:har30",
    "light": "items:light",
    "fig6": "items:fig6",
    "fig7": "items:fig7",
    "fig8": "items:fig8",
    "fig9": "items:fig9",
    "fig10": "items:fig10",
    "fig11": "items:fig11",
    "fig12": "items:fig12",
    "synthetic": "items:synthetic",
    "time": "items:time_table",
    "rounds": "items:rounds",
    "masks": "items:masks",
    "attack": "items:attack_item",
    "equations": "items:equations",
    "private": "items:private_item",
}
