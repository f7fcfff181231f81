"""Name the source of a visit: search engine, social network, other site."""

from functools import lru_cache
from typing import Final

from pipeline_contracts.origins import is_own_host

DIRECT: Final = "Direct / None"
_MAX_LENGTH = 255

# By registrable domain, or by host if the domain has several services.
_SOURCES: Final = {
    # Search
    "bing.com": "Bing",
    "duckduckgo.com": "DuckDuckGo",
    "ecosia.org": "Ecosia",
    "qwant.com": "Qwant",
    "startpage.com": "Startpage",
    "search.brave.com": "Brave",
    "kagi.com": "Kagi",
    "baidu.com": "Baidu",
    "sogou.com": "Sogou",
    "naver.com": "Naver",
    "seznam.cz": "Seznam",
    "ya.ru": "Yandex",
    "search.marginalia.nu": "Marginalia",
    "swisscows.com": "Swisscows",
    "mojeek.com": "Mojeek",
    # Social
    "facebook.com": "Facebook",
    "fb.com": "Facebook",
    "fb.me": "Facebook",
    "messenger.com": "Facebook Messenger",
    "instagram.com": "Instagram",
    "threads.net": "Threads",
    "threads.com": "Threads",
    "twitter.com": "X",
    "x.com": "X",
    "t.co": "X",
    "linkedin.com": "LinkedIn",
    "lnkd.in": "LinkedIn",
    "reddit.com": "Reddit",
    "redd.it": "Reddit",
    "youtube.com": "YouTube",
    "youtu.be": "YouTube",
    "tiktok.com": "TikTok",
    "pinterest.com": "Pinterest",
    "pin.it": "Pinterest",
    "snapchat.com": "Snapchat",
    "bsky.app": "Bluesky",
    "mastodon.social": "Mastodon",
    "mastodon.online": "Mastodon",
    "vk.com": "VK",
    "quora.com": "Quora",
    "tumblr.com": "Tumblr",
    "telegram.org": "Telegram",
    "t.me": "Telegram",
    "whatsapp.com": "WhatsApp",
    "wa.me": "WhatsApp",
    "discord.com": "Discord",
    "slack.com": "Slack",
    "teams.microsoft.com": "Microsoft Teams",
    "news.ycombinator.com": "Hacker News",
    "hckrnews.com": "Hacker News",
    "lobste.rs": "Lobsters",
    "producthunt.com": "Product Hunt",
    "github.com": "GitHub",
    "gitlab.com": "GitLab",
    "stackoverflow.com": "Stack Overflow",
    "medium.com": "Medium",
    "dev.to": "DEV",
    "wikipedia.org": "Wikipedia",
    "twitch.tv": "Twitch",
    # Mail
    "mail.google.com": "Gmail",
    "outlook.com": "Outlook.com",
    "outlook.live.com": "Outlook.com",
    "outlook.office.com": "Outlook.com",
    "outlook.office365.com": "Outlook.com",
    "mail.yahoo.com": "Yahoo! Mail",
    "mail.proton.me": "Proton Mail",
    "mail.yandex.ru": "Yandex Mail",
    "fastmail.com": "Fastmail",
    "mail.aol.com": "AOL Mail",
    # AI assistants
    "chatgpt.com": "ChatGPT",
    "chat.openai.com": "ChatGPT",
    "claude.ai": "Claude",
    "gemini.google.com": "Gemini",
    "copilot.microsoft.com": "Copilot",
    "perplexity.ai": "Perplexity",
    "grok.com": "Grok",
    "chat.deepseek.com": "DeepSeek",
    "chat.mistral.ai": "Le Chat",
    "you.com": "You.com",
    "phind.com": "Phind",
    "poe.com": "Poe",
    "meta.ai": "Meta AI",
}
# Names with domains in many countries, like `google.co.uk`.
_BY_LABEL: Final = {"google": "Google", "yahoo": "Yahoo!", "yandex": "Yandex", "pinterest": "Pinterest"}
# Second-level domains under which countries register names.
_SECOND_LEVELS: Final = frozenset({"co", "com", "org", "net", "ac", "or", "ne"})


def name_source(utm_source: str, referrer_host: str, origins: tuple[str, ...]) -> str:
    """Return the source of an event: `utm_source`, else the referring host's name. `origins` are those of the site
    itself."""
    tagged = utm_source.strip()
    if tagged:
        return tagged[:_MAX_LENGTH]
    # Anybody may send a referrer: long referrers must not fill the cache.
    if not referrer_host or len(referrer_host) > 2 * _MAX_LENGTH:
        return DIRECT
    return _name_host(referrer_host, origins)


@lru_cache(16_384)
def _name_host(referrer_host: str, origins: tuple[str, ...]) -> str:
    host = referrer_host.strip().lower().rstrip(".")
    host = host.partition(":")[0] if not host.startswith("[") else host
    bare = host.removeprefix("www.")
    if not bare or len(bare) > _MAX_LENGTH or is_own_host(bare, origins):
        return DIRECT
    labels = bare.split(".")
    for start in range(len(labels) - 1):
        source = _SOURCES.get(".".join(labels[start:]))
        if source is not None:
            return source
    return _BY_LABEL.get(_registrant(labels), bare)


def _registrant(labels: list[str]) -> str:
    """Return the registered label: `google` of `www.google.co.uk`."""
    if len(labels) >= 3 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVELS:
        return labels[-3]
    return labels[-2] if len(labels) >= 2 else ""
