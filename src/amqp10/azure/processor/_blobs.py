"""Leases and checkpoints in blobs of Azure Storage, where Microsoft's clients keep theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from ..._arguments import checked
from ...errors import StoreError, Unsupported
from ._leases import Checkpoint, ConsumerGroup, Lease

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_OWNER: Final = "ownerid"
_WANTED: Final = "wantedby"  # our own field: Microsoft's clients ignore it, and erase it when they renew
_NUMBER: Final = "sequencenumber"
_OFFSET: Final = "offset"
_ATTEMPTS: Final = 10
"""How often a checkpoint is read and written again when others write at the same time."""


@checked
class BlobLeases:
    """Keeps leases and checkpoints in blobs as Microsoft's Event Hubs clients do, which may share the hub.

        container = ContainerClient.from_connection_string(text, "leases")  # of azure.storage.blob
        async with EventProcessor(hub, handle, store=BlobLeases(container)) as processor: ...

    A lease is an empty blob `NAMESPACE/HUB/GROUP/ownership/PARTITION`, a checkpoint `.../checkpoint/PARTITION`, all in
    lowercase, with the values as metadata. Each call runs in a thread. Turn off versions and soft delete of blobs in
    the storage account: with them each renewal adds a blob.

    Args:
        container: an existing container, of the package azure-storage-blob and not of its `aio`.

    Raises:
        Unsupported: azure-storage-blob is not installed.
        TypeError: `container` is of another type.
    """

    def __init__(self, container: ContainerClient) -> None:
        try:
            from azure.core import MatchConditions
            from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
            from azure.storage.blob import ContainerClient as Client
        except ImportError as error:
            raise Unsupported("BlobLeases needs azure-storage-blob: pip install 'amqp10[azure-blobs]'") from error
        if not isinstance(container, Client):
            raise TypeError(
                "container must be an azure.storage.blob.ContainerClient, as ContainerClient.from_connection_string("
                f"text, 'leases') makes it, not {type(container).__name__}"
            )
        self._container = container
        self._unmodified = MatchConditions.IfNotModified
        self._missing = MatchConditions.IfMissing
        self._not_there: type[Exception] = ResourceNotFoundError
        self._faster: tuple[type[Exception], ...] = (ResourceModifiedError, ResourceExistsError)

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return the leases of all partitions that ever had one.

        Raises:
            StoreError: the container cannot be read.

        Cancelling: waits for the end of the call.
        """
        found = await self._do(partial(self._list, _prefix(group, "ownership")))
        return [
            Lease(partition, metadata.get(_OWNER) or "", etag, metadata.get(_WANTED) or "")
            for partition, etag, metadata in found
        ]

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write each lease whose blob is unchanged; return the written leases.

        Raises:
            StoreError: the container cannot be written; some leases may be written.

        Cancelling: waits for the end of the call.
        """
        written: list[Lease] = await self._do(partial(self._write, _prefix(group, "ownership"), leases))
        return written

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return the checkpoints by partition id.

        Raises:
            StoreError: the container cannot be read.

        Cancelling: waits for the end of the call.
        """
        found = await self._do(partial(self._list, _prefix(group, "checkpoint")))
        checkpoints = {partition: _checkpoint(metadata) for partition, _, metadata in found}
        return {partition: checkpoint for partition, checkpoint in checkpoints.items() if checkpoint is not None}

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep each checkpoint that is ahead of the one kept for its partition.

        Raises:
            StoreError: the container cannot be written; some checkpoints may be kept.

        Cancelling: waits for the end of the call.
        """
        await self._do(partial(self._save, _prefix(group, "checkpoint"), checkpoints))

    # Run in a thread

    async def _do(self, work: Any) -> Any:
        def do() -> Any:
            try:
                return work()
            except StoreError:
                raise
            except Exception as error:  # not only AzureError: an answer that is not the service's is any error
                raise StoreError(f"container {self._container.container_name!r}: {error}") from error

        return await anyio.to_thread.run_sync(do)

    def _list(self, prefix: str) -> list[tuple[str, str, dict[str, str]]]:
        blobs = self._container.list_blobs(name_starts_with=prefix, include=["metadata"])
        return [(blob.name.removeprefix(prefix), _plain(blob.etag), blob.metadata or {}) for blob in blobs]

    def _put(self, name: str, metadata: dict[str, str], etag: str | None) -> str | None:
        """Write a blob if its ETag is `etag`, or if it does not exist and `etag` is None.

        Returns:
            The new ETag; None: somebody else wrote the blob.
        """
        blob = self._container.get_blob_client(name)
        try:
            if etag is None:
                done = blob.upload_blob(b"", metadata=metadata, match_condition=self._missing)
            else:
                done = blob.set_blob_metadata(metadata, etag=f'"{etag}"', match_condition=self._unmodified)
        except self._faster:
            return None
        except self._not_there as error:
            if getattr(error, "error_code", None) == "ContainerNotFound":
                raise
            return None  # somebody deleted the blob
        return _plain(done["etag"])

    def _write(self, prefix: str, leases: Sequence[Lease]) -> list[Lease]:
        written = []
        for lease in leases:
            metadata = {_OWNER: lease.owner} | ({_WANTED: lease.wanted_by} if lease.wanted_by else {})
            etag = self._put(prefix + lease.partition, metadata, lease.version)
            if etag is not None:
                written.append(replace(lease, version=etag))
        return written

    def _save(self, prefix: str, checkpoints: Mapping[str, Checkpoint]) -> None:
        for partition, checkpoint in checkpoints.items():
            metadata = {_NUMBER: str(checkpoint.sequence_number)}
            metadata |= {_OFFSET: checkpoint.offset} if checkpoint.offset is not None else {}
            for _ in range(_ATTEMPTS):
                etag, kept = self._find(prefix + partition)
                if kept is not None and kept.sequence_number >= checkpoint.sequence_number:
                    break
                if self._put(prefix + partition, metadata, etag) is not None:
                    break
            else:
                name = f"container {self._container.container_name!r}: {prefix}{partition}"
                raise StoreError(f"{name} could not be written, in {_ATTEMPTS} attempts; is the URL right?")

    def _find(self, name: str) -> tuple[str | None, Checkpoint | None]:
        try:
            found = self._container.get_blob_client(name).get_blob_properties()
        except self._not_there as error:
            if getattr(error, "error_code", None) == "ContainerNotFound":
                raise
            return None, None
        return _plain(found.etag), _checkpoint(found.metadata or {})

    def __repr__(self) -> str:
        return f"<BlobLeases in {self._container.container_name!r}>"


def _prefix(group: ConsumerGroup, kind: str) -> str:
    return f"{group.namespace}/{group.hub}/{group.group}/{kind}/".lower()


def _plain(etag: Any) -> str:
    """Return an ETag without the quotes that answers have and listings lack."""
    return str(etag).strip('"')


def _checkpoint(metadata: Mapping[str, str]) -> Checkpoint | None:
    """Return the checkpoint in a blob's metadata; None: another client wrote nothing to continue from."""
    try:
        return Checkpoint(int(metadata[_NUMBER]), metadata.get(_OFFSET))
    except (KeyError, ValueError):
        return Checkpoint(-1, metadata[_OFFSET]) if metadata.get(_OFFSET) else None
