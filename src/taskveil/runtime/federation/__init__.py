"""A federation over the network: its files (config), keys, processes, the server's run and the site's answers."""
