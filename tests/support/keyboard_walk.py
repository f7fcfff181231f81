"""Uses a page of the dashboard by keyboard alone: each control, dialog and menu."""

import asyncio
from typing import Any

from playwright.async_api import CDPSession, Locator, Page, expect

from tests.support.dashboard_browser import Person

# Controls of a part of the page that Tab has to reach, in the order of the document. Of radio buttons with one name,
# Tab reaches one. The spans of a trace fold with arrow keys, so Tab skips the buttons that do the same. Tab also skips
# all line numbers of a log except one.
_LIST_CONTROLS = """
const within = (root) => {
  const visible = (each) => each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length
    && !each.closest('[inert], [aria-hidden=true]')
  const all = 'button, a[href], input, select, textarea, summary, [role=tab], [tabindex]'
  const controls = [...root.querySelectorAll(all)]
    .filter((each) => !each.disabled && each.type !== 'hidden' && visible(each))
  const chosen = (each) => {
    const group = controls.filter((other) => other.type === 'radio' && other.name === each.name)
    return each === (group.find((other) => other.checked) ?? group[0])
  }
  return controls.filter((each) => each.type !== 'radio' || !each.name || chosen(each))
}
const describe = (each) => each.outerHTML.slice(0, 160)
"""
_BEGIN = (
    """(selector) => {"""
    + _LIST_CONTROLS
    + """
  const root = document.querySelector(selector)
  const all = within(root)
  const isOther = (each) => each === root || each.closest('.visually-hidden, .fold, #page-title, [role=log]')
  const skipped = all.filter((each) => each.tabIndex < 0 && !isOther(each))
  const expected = all.filter((each) => each.tabIndex >= 0)
  const found = {expected, reached: [], bare: new Set(), left: [], skipped: skipped.map(describe)}
  window.keyboardWalk?.stop()
  const hasOutline = (each) => {
    const {outlineStyle, outlineWidth} = getComputedStyle(each)
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1
  }
  const note = ({target}) => {
    if (!root.contains(target)) {
      found.left.push(describe(target))
      return
    }
    // A field may be outlined together with its icon.
    if (!hasOutline(target) && !hasOutline(target.parentElement)) found.bare.add(describe(target))
    found.reached.push(expected.indexOf(target))
  }
  document.addEventListener('focusin', note)
  found.stop = () => document.removeEventListener('focusin', note)
  window.keyboardWalk = found
  return expected.length
}"""
)
_END = """() => {
  const {expected, reached, bare, left, skipped, stop} = window.keyboardWalk
  stop()
  const describe = (each) => each.outerHTML.slice(0, 160)
  const first = reached.filter((each, i) => each >= 0 && reached.indexOf(each) === i)
  return {
    missed: expected.filter((each, i) => each.isConnected && !reached.includes(i)).map(describe),
    disordered: first.filter((each, i) => i > 0 && each < first[i - 1]).map((each) => describe(expected[each])),
    bare: [...bare], left, skipped,
  }
}"""
# Elements that do something when they are clicked, and that no key reaches. Svelte keeps handlers under a symbol.
_FIND_MOUSE_ONLY = """() => [...document.querySelectorAll('#content *')].filter((each) => {
  const symbol = Object.getOwnPropertySymbols(each).find((found) => found.description === 'events')
  return symbol && each[symbol].click && each.tabIndex < 0 && !each.closest('.fold, label, [role=log]')
}).map((each) => each.outerHTML.slice(0, 160))"""
_COUNT_LEFT = """() => keyboardWalk.expected
  .filter((each, i) => each.isConnected && !keyboardWalk.reached.includes(i)).length"""
_HANDLED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
_FOCUSED = "() => document.activeElement.outerHTML.slice(0, 160)"
_IS_FOCUSED = "(element) => element === document.activeElement"
_WORDS = {
    "missed": "Tab does not reach",
    "disordered": "Tab reaches too late",
    "bare": "without an outline when it has the focus:",
    "left": "Tab leaves the dialog for",
    "skipped": "Tab skips",
}
_MORE_TABS = 3


async def find_unreachable(person: Person) -> list[str]:
    """Press Tab from the beginning of the content to its end. Return the controls that are not reached in the order of
    the document or show no focus, and the elements that only a mouse can use."""
    page = person.page
    await page.evaluate("document.getElementById('content').focus()")
    await page.evaluate(_BEGIN, "#content")
    await _press_until_all_are_reached(page)
    found = await page.evaluate(_END)
    found["left"] = []
    mouse_only: list[str] = await page.evaluate(_FIND_MOUSE_ONLY)
    return [*_describe(found), *(f"only a mouse can use {each}" for each in mouse_only)]


async def find_dialog_faults(person: Person, way: str) -> list[str]:
    """Open a dialog with Enter, and return its faults: faults of accessibility, controls that Tab does not reach, a
    focus that leaves the dialog or does not come back.

    `way` names the button or link that opens it, or has its selector after `css=`. `A > B`: A opens a menu or a part of
    the page with B.
    """
    page = person.page
    first, _, second = way.partition(" > ")
    opener = _find(page, first)
    await opener.focus()
    pressed = await opener.element_handle()
    await page.keyboard.press("Enter")
    if second:
        item = page.get_by_role("menuitem", name=second).or_(page.get_by_role("button", name=second)).first
        await item.wait_for()
        # If a menu has opened the dialog, the focus returns to the button of the menu.
        if await item.get_attribute("role") != "menuitem":
            opener, pressed = item, await item.element_handle()
        await item.focus()
        await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.wait_for()
    await person.wait_until_quiet()
    faults = [] if await dialog.locator(":focus").count() else ["the dialog does not take the focus"]
    faults += await person.run_axe("[role=dialog]")
    await page.evaluate(_BEGIN, "[role=dialog]")
    # Past the last control, and back to the first.
    await _press_until_all_are_reached(page)
    found = await page.evaluate(_END)
    # The focus begins in the middle, at the first field.
    found["disordered"] = []
    faults += _describe(found)
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="detached")
    # Rows that arrived meanwhile may have moved it: then the locator finds another element.
    if not (await _has_focus(opener) or await page.evaluate(_IS_FOCUSED, pressed)):
        faults.append(
            f"the focus does not come back from the dialog, but is on {await page.evaluate(_FOCUSED)}"
        )
    return [f"{way}: {fault}" for fault in faults]


def _find(page: Page, name: str) -> Locator:
    if name.startswith("css="):
        return page.locator(name).first
    return page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name)).first


async def find_menu_faults(person: Person) -> list[str]:
    """Open a menu of each kind, go through it with arrow keys, and close it with Escape. Labels of one kind begin with
    the same word."""
    page = person.page
    faults = []
    triggers = page.locator("#content [aria-haspopup=menu]")
    names = [await each.get_attribute("aria-label") or "" for each in await triggers.all()]
    kinds = {name.partition(" ")[0]: index for index, name in reversed([*enumerate(names)])}
    for index in kinds.values():
        opener = triggers.nth(index)
        await opener.focus()
        await page.keyboard.press("Enter")
        menu = page.get_by_role("menu")
        await menu.wait_for()
        items = [await each.inner_text() for each in await menu.get_by_role("menuitem").all()]
        # A menu takes the focus a moment after it is drawn.
        await menu.locator("[role=menuitem]:focus").wait_for()
        passed = [await menu.locator(":focus").inner_text()]
        for key in ["ArrowDown"] * (len(items) - 1) + ["Home"]:
            await page.keyboard.press(key)
            passed.append(await menu.locator(":focus").inner_text())
        if passed != [*items, items[0]]:
            faults.append(f"the menu {names[index]} has {items}, and arrow keys reach {passed}")
        await page.keyboard.press("Escape")
        await menu.wait_for(state="detached")
        if not await _has_focus(opener):
            faults.append(f"the focus does not come back from the menu {names[index]}")
    return faults


async def _has_focus(opener: Locator) -> bool:
    """True if the element has the focus within a second: a closing dialog gives it back with a later frame."""
    try:
        await expect(opener).to_be_focused(timeout=1000)
    except AssertionError:
        return False
    return True


async def _press_until_all_are_reached(page: Page) -> None:
    """Press Tab until each control was reached once, or no more are reached."""
    left: int = await page.evaluate(_COUNT_LEFT)
    # In an editor, Tab indents; after Escape, it leaves.
    keys = ("Escape", "Tab") if await page.locator("#content .editor textarea").count() else ("Tab",)
    session = await page.context.new_cdp_session(page)
    try:
        while True:
            # Send all keys at once: the browser handles them in order.
            pressed = [_press(session, key) for _ in range(left + _MORE_TABS) for key in keys]
            await asyncio.gather(*pressed)
            await page.evaluate(_HANDLED)
            before, left = left, await page.evaluate(_COUNT_LEFT)
            if left in (0, before):
                return
    finally:
        await session.detach()


async def _press(session: CDPSession, key: str) -> None:
    code = {"Tab": 9, "Escape": 27}[key]
    pressed = {"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
    await session.send("Input.dispatchKeyEvent", pressed)


def _describe(found: dict[str, Any]) -> list[str]:
    return [f"{words} {each}" for name, words in _WORDS.items() for each in found[name]]
