// Where a person finds what a type of channel needs.
import type { Channel } from '../../../../generated/client/types.gen';

export const GUIDES: Record<Channel['type'], string[]> = {
  email: ['Enter the address that gets the messages. For several people use a mailing list, or a channel each.'],
  webhook: [
    'Enter the URL of your program. Pharos posts JSON to it, signed according to Standard Webhooks.',
    'Without a signing secret of your own, Pharos makes one and shows it once.',
    'Answer 2xx within 15 seconds, and do the work afterwards.',
  ],
  slack: [
    'At api.slack.com/apps choose Create New App, From scratch, a name, and your workspace.',
    'Under Incoming Webhooks turn on Activate Incoming Webhooks.',
    'Choose Add New Webhook to Workspace, then the channel of Slack, then Allow.',
    'Copy the URL of the webhook.',
  ],
  discord: ['In Edit Channel, Integrations, Webhooks choose New Webhook. You need the permission Manage Webhooks.', 'Choose Copy Webhook URL.'],
  teams: [
    'At the channel or chat of Teams choose ⋯, Workflows.',
    'Choose the template Send webhook alerts to a channel, then Next, the team and the channel, and Add workflow.',
    'Copy the URL. The trigger must accept Anyone: the signature in the URL is the secret.',
  ],
  telegram: [
    'Write /newbot to @BotFather, and copy the token.',
    'Add the bot to the group, or write to it. In a channel make it an administrator who may post.',
    'Write a message there and open https://api.telegram.org/bot…/getUpdates with your token: chat.id is the number, -100… for groups.',
  ],
  ntfy: ['Choose a topic that nobody guesses: on ntfy.sh whoever knows it reads the messages.', 'Subscribe to it in the app.'],
  pagerduty: ['At the service choose Integrations, Add an integration, Events API V2, Add.', 'Copy the Integration Key.'],
  apprise: ['Enter the Apprise URL of the service, as the documentation of Apprise says.', 'It may connect to any address, private ones too.'],
};

/** `signing_secret` → `Signing secret`. */
export function labelOf(field: string): string {
  const words = field.replaceAll('_', ' ').replace(/\burl\b/, 'URL').replace(/\bid\b/, 'ID').replace(/\bapi\b/, 'API');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
