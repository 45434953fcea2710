"""What comes in: tasks, their rows, public bounds, splits and generators."""

from taskveil.tasks.block import TaskBlock
from taskveil.tasks.load import load_tasks
from taskveil.tasks.prepare.scaling import Scaling, fit_scaling
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.rows import Rows, load_rows
from taskveil.tasks.split import k_fold, split_rows
from taskveil.tasks.synthetic import SyntheticData, get_synthetic
from taskveil.tasks.task import Task, TaskSet

__all__ = [
    "PublicBounds",
    "Rows",
    "Scaling",
    "SyntheticData",
    "Task",
    "TaskBlock",
    "TaskSet",
    "fit_scaling",
    "get_synthetic",
    "k_fold",
    "load_rows",
    "load_tasks",
    "split_rows",
]
