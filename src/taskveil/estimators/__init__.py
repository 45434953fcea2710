"""scikit-learn estimators."""

from taskveil.estimators.classifier import TaskClassifier
from taskveil.estimators.regressor import TaskRegressor

__all__ = ["TaskClassifier", "TaskRegressor"]
