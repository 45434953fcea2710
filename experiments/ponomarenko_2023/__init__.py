"""Federated MTL-SVM (Ponomarenko-Timofeev et al. 2023): what `taskveil reproduce svm-...` runs."""

ITEMS = {
    "equations": "items:svm_paper_equations",
    "rounds": "items:svm_rounds",
    "masks": "items:svm_masks",
}
