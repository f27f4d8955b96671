"""A worker process as its supervisor sees it."""

from __future__ import annotations

from dataclasses import replace

from warplens_run.base.temporary import temporary_folder
from warplens_run.processes.child import Child
from warplens_run.replay import wire


class WorkerProcess:
    def __init__(self, job: wire.ReplayJob) -> None:
        self._folder = temporary_folder()
        self._child = Child("warplens_run.replay.worker")
        self.send(replace(job, folder=self._folder.name))

    def send(self, message: wire.Request) -> None:
        self._child.send(wire.line(message))

    def receive(self, seconds: float) -> wire.Reply:
        return wire.read_reply(self._child.receive(seconds))

    def end(self) -> None:
        self._child.end()
        self._folder.cleanup()
