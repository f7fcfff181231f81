"""The subfolders of the local driver's folder.

```
artefacts/<deployment>/     artefacts: read-only for the processes that run them
homes/<environment>/build/  HOME of build steps: caches outlast a build
homes/<environment>/run/    HOME of release steps and processes: the only place where they can keep files
outputs/<environment>/<deployment>/     what processes printed, and how much of it is stored as logs
sealing/<deployment>/       the tree of a build while Pharos copies it
removed/                    trees that are being deleted
```
"""

ARTEFACTS = "artefacts"
HOMES = "homes"
OUTPUTS = "outputs"
SEALING = "sealing"
REMOVED = "removed"
