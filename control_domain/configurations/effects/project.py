"""Changes of the project itself."""

from control_domain.configurations.effects.check_unchanged import find_due
from control_domain.configurations.effects.task import CannotCarryOut, Task, ToTell, tell_changes
from control_domain.configurations.present_fields import project_fields
from control_domain.projects.hold import hold_project


async def carry_out_on_project(task: Task) -> ToTell:
    """Rename it: nothing else of it is part of a configuration."""
    project = task.project
    if task.action.verb == "delete":
        raise CannotCarryOut(
            "A configuration removes no project: an operator does, with `pharos project remove`."
        )
    await hold_project(task.session, project)
    await task.session.refresh(project)
    due = find_due(task, project_fields(project))
    if due:
        for change in due:
            setattr(project, change.field, change.after)
        task.record("project.set", f"project {project.public_id}", tell_changes(due))
    return ToTell()
