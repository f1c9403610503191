"""`shadergrad serve`: what other sites and odd addresses get of a folder, and what headers say to the browser."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import served

INLINE = "\nconsole.log('<b>');\n"


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    site = tmp_path / "site"
    for folder in ("deep", "empty", ".git"):
        (site / folder).mkdir(parents=True)
    (site / "index.html").write_text(f"<script src='a.js'></script><script type='module'>{INLINE}</script>")
    (site / "deep" / "index.html").write_text("deep")
    (site / "empty" / "note.txt").write_text("note")
    (site / "a.js").write_text("1")
    (site / ".git" / "config").write_text("secret")
    (site / ".env").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "out.txt").symlink_to(tmp_path / "secret.txt")
    (site / "above").symlink_to(tmp_path)
    for page in ("index.html", "index.htm"):
        (site / page.replace(".", "-")).mkdir()
        (site / page.replace(".", "-") / page).symlink_to(tmp_path / "secret.txt")
    os.mkfifo(site / "pipe")
    (site / "round").symlink_to(site / "round")
    (site / "within.js").symlink_to(site / "a.js")
    with served(site) as address:
        yield address


def ask(
    origin: str, path: str, host: str | None = "localhost", method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=20)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), answer.headers
    connection.close()
    return found


@pytest.mark.parametrize(
    ("path", "text"), [("/", "<script"), ("/deep/", "deep"), ("/within.js", "1"), ("/a.js?x=%00#", "1")]
)
def test_files_of_the_folder_are_served(origin: str, path: str, text: str) -> None:
    status, body, _ = ask(origin, path)
    assert status == 200
    assert body.startswith(text)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "path",
    ["/.env", "/.git/config", "/%2eenv", "/deep/../.env", "/out.txt", "/above/secret.txt", "/above/site/a.js", "/round"]
    + [
        "/empty/",
        "/empty",
        "/nothing",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/deep%5c..%5c..%5csecret.txt",
        "/index-html/",
        "/index-htm/",
        "/pipe",
    ],
)
def test_links_out_dot_files_and_lists_are_not_there(origin: str, path: str, method: str) -> None:
    status, body, _ = ask(origin, path, method=method)
    if path == "/empty":  # first the address with a slash
        assert status == 301
    elif path == "/above/site/a.js":  # a way round that ends in the folder
        assert status == 200
    else:
        assert status == 404
    assert "secret" not in body
    assert "note.txt" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "", None, "10.0.0.1"]
)
def test_a_foreign_host_is_refused(origin: str, host: str | None) -> None:
    for method in ("GET", "HEAD"):
        status, body, _ = ask(origin, "/a.js", host, method)
        assert status == 403
        assert not body.startswith("1")


def test_two_hosts_are_a_bad_request(origin: str) -> None:
    connection = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=20)
    connection.putrequest("GET", "/a.js", skip_host=True)
    connection.putheader("Host", "localhost")
    connection.putheader("Host", "evil.example")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9000", "[::1]:8000", "localhost."])
def test_this_machine_is_served_at_any_port(origin: str, host: str) -> None:
    assert ask(origin, "/a.js", host)[0] == 200


@pytest.mark.parametrize("path", ["/%00", "/a.js%00", "/a%0a.js", "/%1f"])
def test_control_characters_are_a_bad_request(origin: str, path: str) -> None:
    assert ask(origin, path)[0] == 400


def test_headers_keep_strangers_scripts_out(origin: str) -> None:
    digest = base64.b64encode(hashlib.sha256(INLINE.encode()).digest()).decode()
    for path in ("/", "/index.html", "/a.js", "/nothing", "/.env"):
        headers = ask(origin, path)[2]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'self'"
        assert "'unsafe-inline'" not in policy["script-src"]
        assert "'unsafe-eval'" not in policy["script-src"]
        assert (f"'sha256-{digest}'" in policy["script-src"]) == (path in ("/", "/index.html"))
