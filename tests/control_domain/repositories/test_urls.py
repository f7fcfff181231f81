"""Addresses that repositories may have."""

import subprocess
from pathlib import Path

import pytest

from control_domain.repositories.urls import BadUrl, parse_full_name, read_url


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://github.com/acme/shop.git", "github"),
        ("https://www.github.com/acme/shop", "github"),
        ("https://GitHub.com/acme/shop", "github"),
        ("ssh://git@ssh.github.com:443/acme/shop.git", "github"),
        ("git@github.com:acme/shop.git", "github"),
        ("git@gitlab.com:acme/sub/shop.git", "gitlab"),
        ("https://gitlab.com/acme/shop", "gitlab"),
        ("https://bitbucket.org/acme/shop", "bitbucket"),
        ("ssh://git@altssh.bitbucket.org:443/acme/shop", "bitbucket"),
        ("https://git.example:8443/shop.git", None),
        ("https://github.com.evil.example/shop.git", None),
        ("ssh://git.example/~ada/shop.git", None),
        ("ssh://git@[::1]:22/shop.git", None),
        ("git@[::1]:shop.git", None),
        ("file:///srv/shop.git", None),
        ("file://localhost/srv/shop.git", None),
        ("/srv/my repositories/blåbær.git", None),
        (f"https://h/{'x' * 490}", None),
    ],
)
def test_address_is_stored_unchanged_and_its_host_recognized(url: str, kind: str | None) -> None:
    assert read_url(f" {url}\n") == (url, kind)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/Acme/Shop.git", "acme/shop"),
        ("https://github.com//acme/shop/", "acme/shop"),
        ("https://git.example:8443/scm/shop.git/", "scm/shop"),
        ("ssh://git@ssh.github.com:443/acme/shop.git", "acme/shop"),
        ("ssh://git@[::1]:22/shop.git", "shop"),
        ("git@gitlab.com:acme/sub/shop.git", "acme/sub/shop"),
        ("git@github.com:/acme/shop", "acme/shop"),
        ("git@[::1]:acme/shop.git", "acme/shop"),
        ("file:///srv/acme/shop.git", None),
        ("/srv/acme/shop.git", None),
        ("/srv/git@host:acme/shop.git", None),
        # A letter that becomes two letters in lower case, so that the text would exceed the column.
        (f"https://h/{'İ' * 490}", None),
    ],
)
def test_the_name_on_its_host(url: str, name: str | None) -> None:
    assert parse_full_name(url) == name


def test_git_accepts_schemes_in_lower_case_only() -> None:
    assert read_url("HTTPS://github.com/acme/Shop") == ("https://github.com/acme/Shop", "github")


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:hunter2@github.com/a/b",
        "https://hunter2@github.com/a/b",
        "https://:hunter2@github.com/a/b",
        "https://hunter2:@github.com/a/b",
        "ssh://git:hunter2@host/a",
    ],
)
def test_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(
        BadUrl, match="give the machine that deploys a deploy key or a Git credential"
    ) as told:
        read_url(url)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        # Transports that run programs, and other schemes.
        "ext::sh -c whoami",
        "ext::ssh://host/a",
        "ext://sh/a",
        "fd::17",
        "http://github.com/a/b",
        "git://github.com/a/b",
        "ftp://host/a",
        "javascript:alert(1)",
        # Options of git and of ssh.
        "-u./x",
        "--upload-pack=touch /tmp/x",
        "ssh://-oProxyCommand=id/a",
        "ssh://git@-oProxyCommand=id/a",
        "-oProxyCommand=id@host:a",
        "git@-oProxyCommand=id:a",
        "git@host:-oProxyCommand=id",
        "ssh://-x@host/a",
        # Texts that are not addresses.
        "",
        " ",
        "/",
        "shop",
        "./shop",
        "../shop",
        "~/shop",
        "host:shop",
        "C:\\shop",
        "C:/shop",
        "git@host:",
        "git@host::a",
        "git@host:a b",
        "https://",
        "https:///a",
        "https://github.com",
        "https://github.com/",
        "https://github.com:99999/a",
        "https://github.com:x/a",
        "https://[::1/a",
        "https://git hub.com/a",
        "https://host/a b",
        "https://host%00/a",
        "https://gıthub.com/a",
        "file://",
        "file:///",
        "file://server/share",
        "https://host/a?token=hunter2",
        "https://host/a#hunter2",
        "https://github.com\\@evil.example/a",
        "https://host/a\nb",
        "https://host/a\x00b",
        "https://host/a\x1b[31m",
        "https://host/\u202ea",
        "/srv/a\nb",
        f"https://h/{'x' * 491}",
    ],
)
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(BadUrl) as told:
        read_url(url)
    (line,) = str(told.value).splitlines()
    assert line.endswith(".") and "hunter2" not in line


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_git_clones_from_the_stored_address(tmp_path: Path, form: str) -> None:
    run = ["git", "-c", "protocol.file.allow=always"]
    source = tmp_path / "my shop"
    subprocess.run([*run, "init", "--quiet", "--bare", str(source)], check=True)
    url, _ = read_url(form.format(source if form == "{}" else tmp_path / "shop"))
    source.rename(tmp_path / "shop") if form != "{}" else None
    done = subprocess.run(
        [*run, "clone", "--quiet", "--", url, str(tmp_path / "clone")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
