"""Attacks on methods and mechanisms: lower bounds and demonstrations, never proofs."""
