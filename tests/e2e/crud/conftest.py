"""Fixtures of the CRUD suites: a database of its own for each test."""

import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def database(client):
    name = f"crud_{next(_numbers)}"
    yield client[name]
    client.drop_database(name)


@pytest.fixture
def collection(database):
    return database["things"]
