const LONGEST_TEXT = 64 * 1024

/** Return the beginning of a response's text, up to 64 KiB. The rest is not received: a broken server cannot fill the memory. */
export async function readText(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  if (reader === undefined) return ''
  const decoder = new TextDecoder()
  let text = ''
  for (let room = LONGEST_TEXT; room > 0; ) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    text += decoder.decode(value.subarray(0, room), { stream: true })
    room -= value.length
  }
  await reader.cancel()
  return text
}
