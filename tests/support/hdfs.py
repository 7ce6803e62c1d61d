"""HDFS on this machine: a namenode and a datanode, of the Hadoop that PySpark brings a part of."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

from support import trees
from support.http import eventually, free_port
from support.programs import INSTALLED, maven, need

PATIENCE = 120
SERVERS = "org.apache.hadoop:hadoop-client-minicluster"
_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1}: %m%n%ex
"""


def _classpath() -> str:
    """Return the class path of the servers, which Maven brings; skip the test where it cannot."""
    need("java")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    (client,) = jars.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    servers = maven(f"{SERVERS}:{version}", INSTALLED.parent / "hadoop")
    return f"{servers}:{jars}/*"


def _write(file: Path, properties: Mapping[str, object]) -> None:
    told = "".join(
        f"<property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in properties.items()
    )
    file.write_text(f"<configuration>\n{told}</configuration>\n")


def _configure(folder: Path, url: str) -> None:
    folder.mkdir(parents=True)
    (folder / "log4j2.properties").write_text(_LOGGING)
    _write(folder / "core-site.xml", {"fs.defaultFS": url, "hadoop.tmp.dir": folder / "tmp"})
    _write(
        folder / "hdfs-site.xml",
        {
            "dfs.replication": 1,
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
        },
    )


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Give the URL of an empty HDFS, which ends with the block."""
    classpath = _classpath()
    url = f"hdfs://127.0.0.1:{free_port()}"
    _configure(folder, url)
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-cp", f"{folder}:{classpath}"]  # fmt: skip
    server = "org.apache.hadoop.hdfs.server"
    log = folder / "log"
    with ExitStack() as stack:
        told = stack.enter_context(log.open("ab"))
        namenode = [*java, f"{server}.namenode.NameNode"]
        made = subprocess.run([*namenode, "-format"], stdout=told, stderr=told, check=False)
        assert made.returncode == 0, log.read_text()
        for command in (namenode, [*java, f"{server}.datanode.DataNode"]):
            process = subprocess.Popen(command, stdout=told, stderr=told, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(trees.kill, process.pid)
        eventually(lambda: re.search("registerDatanode: from", log.read_text()), PATIENCE)
        yield url
