"""The public names of `taskveil.tasks.prepare.scaling`."""

from taskveil.tasks.prepare.scaling import MODES, Scaling, fit_scaling

__all__ = ["MODES", "Scaling", "fit_scaling"]
