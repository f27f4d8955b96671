"""The list of other projects' kernels, tests/kernels_of_the_world.toml, as records."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = Path(__file__).resolve().parent
LIST = TESTS / "kernels_of_the_world.toml"
DRIVERS = TESTS / "world_drivers"


@dataclass(frozen=True)
class WorldKernel:
    """A kernel of a project, and the driver's case that launches it."""

    project: str
    repository: str
    commit: str
    file: str
    kernel: str
    driver: Path
    case: str
    target: str = "sm90"
    python_path: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def run(self) -> tuple[str, str]:
        """Kernels with an equal one are launched by the same case."""
        return self.project, self.case


def world_kernels() -> list[WorldKernel]:
    projects = tomllib.loads(LIST.read_text())["project"]
    return [
        WorldKernel(
            project["name"],
            project["repository"],
            project["commit"],
            row["file"],
            row["kernel"],
            DRIVERS / project["driver"],
            row["case"],
            row.get("target", "sm90"),
            tuple(project["python_path"]),
            project.get("environment", {}),
        )
        for project in projects
        for row in project["kernels"]
    ]
