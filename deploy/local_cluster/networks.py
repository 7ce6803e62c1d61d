"""A network namespace for each server, on a bridge that exists only on this machine."""

import subprocess

from local_cluster.errors import ClusterError

# The range reserved for tests of network devices, which no real network uses.
_RANGE = "198.18"
_MOST = 256


class Network:
    """Servers 1 to `count`, each in its own namespace, and this machine as one more host."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._number = self._make_bridge()
        self._bridge = f"skipmq{self._number}"
        self.subnet = f"{_RANGE}.{self._number}."
        try:
            _ip("addr", "add", f"{self.subnet}254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for number in range(1, count + 1):
                self._make_server(number)
        except BaseException:
            self.remove()
            raise

    def words(self, number: int) -> list[str]:
        """Return the words that run the command after them on a server."""
        return ["ip", "netns", "exec", self._namespace(number)]

    def isolate(self, number: int) -> None:
        """Disconnect a server: packets from and to it are lost."""
        _ip("link", "set", self._port(number), "down")

    def heal(self, number: int) -> None:
        """Reconnect a server."""
        _ip("link", "set", self._port(number), "up")

    def remove(self) -> None:
        """Remove the namespaces and the bridge."""
        for number in range(1, self._count + 1):
            _ip("link", "del", self._port(number), check=False)
            _ip("netns", "del", self._namespace(number), check=False)
        _ip("link", "del", self._bridge, check=False)

    def _make_bridge(self) -> int:
        for number in range(_MOST):
            last = number == _MOST - 1
            if _ip("link", "add", f"skipmq{number}", "type", "bridge", check=last):
                return number
        raise AssertionError

    def _make_server(self, number: int) -> None:
        name, port = self._namespace(number), self._port(number)
        _ip("netns", "add", name)
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", port, "master", self._bridge, "up")
        _ip("-n", name, "addr", "add", f"{self.subnet}{number}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def _namespace(self, number: int) -> str:
        return f"skipmq{self._number}-{number}"

    def _port(self, number: int) -> str:
        return f"skipmq{self._number}v{number}"


def _ip(*words: str, check: bool = True) -> bool:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ClusterError(
            "namespaces need the program ip: sudo apt-get install iproute2"
        ) from error
    if check and done.returncode:
        raise ClusterError(
            f"this machine does not let us make network namespaces (as root?):"
            f" ip {' '.join(words)}: {done.stderr.strip()}"
        )
    return done.returncode == 0
