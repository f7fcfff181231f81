// The projects with their environments, for filters and forms: loaded once a page.
import { listProjects } from '../../generated/client/sdk.gen';
import type { Project } from '../../generated/client/types.gen';
import { callPage } from '../api/call';
import { resource, type Resource } from './resource.svelte';

/** Return all projects in which the person has a role. Call it while a component is created. */
export function allProjects(): Resource<Project[]> {
  return resource(async (signal) => {
    const projects: Project[] = [];
    let cursor: string | undefined;
    do {
      const page = await callPage(listProjects({ query: { limit: 100, cursor }, signal }));
      projects.push(...page.data);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    return projects;
  });
}
