"""Secrets that stand where none belongs: nothing shows them."""

from pathlib import Path

import pytest

from support.commands import invoke
from support.http import environment

PASSWORD = "Pl4ntedPassw0rd"


def run(*words: str, code: int, **settings: object) -> str:
    """Run a command that refuses its settings; return what it printed, without the secret."""
    done = invoke(words, environment(settings))
    said = done.stdout + done.stderr
    assert done.code == code, said
    assert PASSWORD.lower() not in "".join(said.split()).lower()
    return said


@pytest.mark.parametrize("setting", ["public_url", "archive", "spark_jars"])
@pytest.mark.parametrize("command", ["serve", "config", "doctor"])
def test_url_with_a_password_is_refused_where_it_would_be_shown(
    tmp_path: Path, command: str, setting: str
) -> None:
    url = f"https://user:{PASSWORD}@sqs.example.com"
    file = tmp_path / "skipmq.toml"
    file.write_text(f'{setting} = "{url}"\n')

    said = run(command, code=2, **{setting: url})
    of_file = run(command, code=2, config=file)

    assert f"SKIPMQ_{setting.upper()}: write the URL without a user" in said
    assert f"{setting}: write the URL without a user" in of_file


@pytest.mark.parametrize(
    "content",
    [
        '"{}" = 1\n',
        '"postgresql://user:{}@db/x" = ""\n',
        '["{}"]\na = 1\n',
        '["{0}"]\n["{0}"]\n',
        '"{0}" = 1\n"{0}" = 2\n',
        'master_key = "{}\n',
    ],
)
def test_secret_that_stands_where_a_key_belongs_is_not_shown(tmp_path: Path, content: str) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text(content.format(PASSWORD))

    assert "skipmq.toml" in run("config", code=2, config=file)


def test_secret_in_the_name_of_a_variable_is_not_shown() -> None:
    run("config", code=2, **{PASSWORD: "x"})
