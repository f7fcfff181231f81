"""Projects as other documents name them."""

from control_domain.tables.projects import Project


def summarize_project(project: Project) -> dict[str, str]:
    """The public ID, the name and the slug."""
    return {"id": project.public_id, "name": project.name, "slug": project.slug}
