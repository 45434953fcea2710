from taskveil.cli.main import run

run()
