"""What every repository of models must do; each one's test class inherits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cloud_worker import ModelRepository


class RepositoryConformance:
    """The repository under test holds the models ``apple`` and ``pear``."""

    @pytest.fixture
    def repository(self) -> ModelRepository:
        raise NotImplementedError

    def test_entries_are_sorted_by_name(self, repository: ModelRepository) -> None:
        assert [entry.name for entry in repository.entries()] == ["apple", "pear"]

    def test_each_digest_is_there_once(self, repository: ModelRepository) -> None:
        digests = [entry.sha256 for entry in repository.entries()]
        assert len(set(digests)) == len(digests)
        assert all(
            len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests
        )

    def test_every_entry_is_found_by_its_digest(self, repository: ModelRepository) -> None:
        for entry in repository.entries():
            assert repository.find(entry.sha256) == entry

    def test_unknown_digest_is_not_found(self, repository: ModelRepository) -> None:
        known = {entry.sha256 for entry in repository.entries()}
        unknown = next(f"{n:064x}" for n in range(3) if f"{n:064x}" not in known)
        assert repository.find(unknown) is None
        assert repository.find("") is None
        assert repository.find("../../etc/passwd") is None

    def test_every_entry_lies_somewhere(self, repository: ModelRepository) -> None:
        for entry in repository.entries():
            assert entry.bare is not None or entry.bundles
