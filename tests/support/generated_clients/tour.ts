// A tour of Pharos with the generated TypeScript client: prints what it has seen as JSON.
// Arguments: the API root and an API token.

import * as pharos from "./client";
import { createClient } from "./client/client";

declare const process: { argv: string[] };

async function main(): Promise<void> {
  const [baseUrl, token] = process.argv.slice(2);
  const client = createClient({ baseUrl, auth: () => token });
  const seen: Record<string, unknown> = {};

  const account = await pharos.readAccount({ client, throwOnError: true });
  seen.account = account.data.data.slug;
  const project = (await pharos.createProject({ client, throwOnError: true, body: { name: "TypeScript tour" } })).data.data;
  const environment = (
    await pharos.createEnvironment({
      client,
      throwOnError: true,
      path: { project: project.id },
      body: { name: "Staging", type: "staging" },
    })
  ).data.data;
  seen.environment = [project.slug, environment.slug, environment.state];
  const path = { environment: environment.id };
  await pharos.updateSomeVariables({ client, throwOnError: true, path, body: { set: { APP_ENV: "staging" } } });
  const variables = (await pharos.listVariables({ client, throwOnError: true, path })).data.data;
  seen.variables = variables.variables.map((variable) => variable.name);

  const etag = (await pharos.readEnvironment({ client, throwOnError: true, path })).response.headers.get("ETag") ?? "";
  const changes = [];
  for (const name of ["First", "Second"]) {
    changes.push(await pharos.updateEnvironment({ client, path, headers: { "If-Match": etag }, body: { name } }));
  }
  seen.changes = changes.map((change) => change.response?.status);
  seen.problem = changes[1].error?.type;

  await pharos.createHeartbeat({ client, throwOnError: true, path, body: { name: "backup", cron: "0 3 * * *" } });
  const beats = await pharos.listHeartbeats({ client, throwOnError: true, query: { environment: environment.id } });
  seen.heartbeats = beats.data.data.map((beat) => [beat.name, beat.state]);
  const key = await pharos.createIngestKey({ client, throwOnError: true, path, body: {} });
  seen.ingest_key = key.data.data.key.slice(0, 8);
  const site = await pharos.createSite({
    client,
    throwOnError: true,
    path: { project: project.id },
    body: { name: "Tour", domains: ["https://typescript.example"] },
  });
  const goal = await pharos.createGoal({
    client,
    throwOnError: true,
    path: { site: site.data.data.id },
    body: { name: "Sale", event: "purchase" },
  });
  seen.goal = goal.data.data.name;
  const refused = await pharos.deleteProject({ client, path: { project: project.id } });
  seen.refused = [refused.response?.status, refused.error?.type];
  await pharos.deleteEnvironment({ client, throwOnError: true, path });
  seen.gone = (await pharos.readEnvironment({ client, path })).error?.type;
  console.log(JSON.stringify(seen));
}

void main();
