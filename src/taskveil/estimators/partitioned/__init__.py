"""Fitted estimators whose personal models stay on a cluster or in files, partition by partition."""
