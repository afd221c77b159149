# SPDX-License-Identifier: Apache-2.0
"""A real process around the http module for each test, on a free port, ended with SIGTERM and required to end clean."""
import os
import pathlib
import signal
import subprocess
import threading

import pytest

BUILD = pathlib.Path(os.environ.get("QN_BUILD_DIR", "build")).resolve()
HOST = BUILD / "tests" / "fakes" / "http_host" / "http_host"
MODULE = BUILD / "modules" / "http_h2o.so"


class Server:
    def __init__(self, **options):
        args = [f"{key}={value}" for key, value in {"port": 0, **options}.items()]
        env = {key: value for key, value in os.environ.items() if key != "PG_HOST"}
        env.update(options.pop("env", {}))
        self.process = subprocess.Popen([HOST, MODULE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=env)
        self.lines = []
        self.port = None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("http.listening"):
                self.port = int(line.split("port=")[1].split()[0])
            if line.strip() == "ready":
                break
        else:
            self.process.wait()
            raise RuntimeError(self.process.stderr.read())
        self.readers = [threading.Thread(target=self._read, args=(stream, into), daemon=True) for stream, into in
                        ((self.process.stdout, self.lines), (self.process.stderr, self.errors()))]
        for reader in self.readers:
            reader.start()

    def errors(self):
        self.stderr = []
        return self.stderr

    @staticmethod
    def _read(stream, into):
        for line in stream:
            into.append(line.rstrip("\n"))

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def finish(self):
        """Ends it and returns its last lines; anything but a clean end fails."""
        if self.process.poll() is None:
            self.terminate()
        code = self.process.wait(timeout=30)
        for reader in self.readers:
            reader.join()
        assert code == 0 and self.lines[-1] == "clean" and not self.stderr, (code, self.lines[-3:], "\n".join(self.stderr[:60]))
        return self.lines


@pytest.fixture
def serve():
    """Starts servers; each is ended and checked after the test."""
    servers = []

    def start(**options):
        servers.append(Server(**options))
        return servers[-1]

    yield start
    for server in servers:
        server.finish()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return make_certificate(folder)


def make_certificate(folder, name="server"):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-days", "2", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    return {"tls_cert": cert, "tls_key": key}
