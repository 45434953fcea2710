"""A secure sum: the server learns the total of the sites' integer vectors and nothing else about them."""

from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.keys import Identity
from taskveil.runtime.secure.run import install, secure_total
from taskveil.runtime.secure.server import SecureServer
from taskveil.runtime.secure.settings import SecureSettings

__all__ = ["Identity", "SecureClient", "SecureServer", "SecureSettings", "install", "secure_total"]
