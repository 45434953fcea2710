"""Published settings of private multi-task and federated learning, run with our methods beside re-run peers. See README.md."""
