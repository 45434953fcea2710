"""Tables that are larger than memory: tasks that are read partition by partition, on other machines."""
