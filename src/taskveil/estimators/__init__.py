"""scikit-learn estimators."""

from taskveil.estimators.classifier import TaskClassifier
from taskveil.estimators.regressor import TaskRegressor
from taskveil.estimators.survival import TaskSurvival

__all__ = ["ESTIMATORS", "TaskClassifier", "TaskRegressor", "TaskSurvival"]

ESTIMATORS = {"regression": TaskRegressor, "classification": TaskClassifier, "survival": TaskSurvival}
