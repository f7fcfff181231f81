// The log of one deployment, line by line as it is written.
import type { DeploymentStatus } from '../../../../generated/client/types.gen';
import { plainText, type LogLine } from '../../../components/log_lines';
import { followStream, type Stream } from '../../../live/stream.svelte';
import { isFinished } from '../deployment_words';

interface Line {
  at: string;
  stream: 'stdout' | 'stderr' | 'system';
  text: string;
}

export interface DeploymentLogState {
  readonly lines: readonly LogLine[];
  readonly stream: Stream;
  /** As the stream reported it; undefined before. */
  readonly status: DeploymentStatus | undefined;
  /** The position of the line that says why the deployment failed, or -1. */
  readonly failureAt: number;
}

const FAULT = /\b(error|fatal|failed|exception|traceback|panic)\b/i;

/** Return the log of the deployment. `onStatus` runs when its status changes. */
export function deploymentLog(build: () => number, onStatus: () => void): DeploymentLogState {
  let lines = $state.raw<LogLine[]>([]);
  let status = $state<DeploymentStatus | undefined>(undefined);
  let arrived: LogLine[] = [];
  let frame = 0;
  let number = 0;

  function take(data: string): void {
    const line = JSON.parse(data) as Line;
    number += 1;
    const tone = line.stream === 'system' ? 'system' : line.stream === 'stderr' && FAULT.test(line.text) ? 'error' : undefined;
    arrived.push({ key: String(number), text: plainText(line.text), at: line.at, tone });
    // Thousands of lines arrive at once: they are shown together.
    frame ||= requestAnimationFrame(show);
  }

  function show(): void {
    frame = 0;
    lines = [...lines, ...arrived];
    arrived = [];
  }

  const stream = followStream(
    () => `/api/v1/deployments/${build()}/log`,
    {
      line: take,
      status: (data) => {
        const next = (JSON.parse(data) as { status: DeploymentStatus }).status;
        if (status !== undefined && status !== next) onStatus();
        status = next;
        if (!isFinished(next)) return;
        show();
        stream.end();
      },
    },
    () => {
      cancelAnimationFrame(frame);
      frame = 0;
      lines = [];
      arrived = [];
      number = 0;
    },
  );
  const failureAt = $derived(status === 'failed' ? lines.findLastIndex((line) => line.tone === 'system') : -1);

  return {
    get lines() {
      return failureAt < 0 ? lines : lines.map((line, i) => (i === failureAt ? { ...line, tone: 'error' as const } : line));
    },
    stream,
    get status() {
      return status;
    },
    get failureAt() {
      return failureAt;
    },
  };
}
