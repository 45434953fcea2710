"""How often one run with canary tasks refutes a planted fault, and how often a correct run."""
