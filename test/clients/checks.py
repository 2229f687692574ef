"""Assertions for the python-gitlab scripts."""
import gitlab


def same(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


def refused(status, message, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except gitlab.exceptions.GitlabError as error:
        same(error.response_code, status)
        if message not in str(error.error_message):
            raise AssertionError(f"{error.error_message!r} does not say {message!r}")
    else:
        raise AssertionError(f"{call} was not refused")
