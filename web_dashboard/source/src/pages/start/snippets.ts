// Programs that send one event to this installation.

export interface Snippet {
  id: string;
  label: string;
  code: string;
  /** What a reader has to know besides the code. */
  note?: string;
}

/** Shown in place of a key that is not known: its secret is shown once, when it is created. */
export const NO_KEY = 'YOUR_INGEST_KEY';

/** `batch`: an ID that no other batch has, since a batch is stored once. */
export function eventSnippets(baseUrl: string, key: string, batch: string): Snippet[] {
  const url = `${baseUrl}/api/v1/ingest`;
  return [
    {
      id: 'curl',
      label: 'curl',
      code: `curl -sS ${url} \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '{"batch_id": "${batch}", "events": [{"type": "log", "severity": "info", "title": "Hello from curl"}]}'`,
    },
    {
      id: 'python',
      label: 'Python',
      code: `import json, urllib.request, uuid

batch = {
    "batch_id": str(uuid.uuid4()),
    "events": [{"type": "log", "severity": "info", "title": "Hello from Python"}],
}
request = urllib.request.Request(
    "${url}",
    json.dumps(batch).encode(),
    {"Authorization": "Bearer ${key}", "Content-Type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())`,
    },
    {
      id: 'node',
      label: 'Node',
      code: `const batch = {
  batch_id: crypto.randomUUID(),
  events: [{ type: 'log', severity: 'info', title: 'Hello from Node' }],
};
const response = await fetch('${url}', {
  method: 'POST',
  headers: { Authorization: 'Bearer ${key}', 'Content-Type': 'application/json' },
  body: JSON.stringify(batch),
});
console.log(response.status, await response.text());`,
      note: 'Save it as hello.mjs and run it with Node 20 or newer.',
    },
    {
      id: 'go',
      label: 'Go',
      code: `package main

import (
\t"fmt"
\t"net/http"
\t"strings"
)

func main() {
\tbody := \`{"batch_id": "${batch}-go", "events": [{"type": "log", "severity": "info", "title": "Hello from Go"}]}\`
\trequest, err := http.NewRequest("POST", "${url}", strings.NewReader(body))
\tif err != nil {
\t\tpanic(err)
\t}
\trequest.Header.Set("Authorization", "Bearer ${key}")
\trequest.Header.Set("Content-Type", "application/json")
\tresponse, err := http.DefaultClient.Do(request)
\tif err != nil {
\t\tpanic(err)
\t}
\tdefer response.Body.Close()
\tfmt.Println(response.Status)
}`,
    },
  ];
}

/** The element that a page includes to be measured. */
export function trackerSnippet(baseUrl: string, tracker: string): string {
  return `<script defer src="${baseUrl}/tracker/v1.js" data-site="${tracker}"></` + 'script>';
}
