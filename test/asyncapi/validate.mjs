// Parses an AsyncAPI document with every schema it refers to. Exits 1 on any
// diagnostic, hints too, and when nothing was found in it.
import { Parser, fromFile } from '@asyncapi/parser'

// We stay on 3.0.0, which more tools read than 3.1.0.
const tolerated = new Set(['asyncapi-latest-version'])

const path = process.argv[2]
if (!path) {
  console.error('usage: node validate.mjs FILE')
  process.exit(2)
}
const { document, diagnostics: all } = await fromFile(new Parser(), path).parse()
const diagnostics = all.filter((d) => !tolerated.has(d.code))
for (const d of diagnostics) {
  console.error(`${path}:${d.range.start.line + 1}: ${d.code}: ${d.message} (${d.path.join('.')})`)
}
const channels = document?.channels().all().length ?? 0
const messages = document?.messages().all().length ?? 0
const operations = document?.operations().all().length ?? 0
console.log(`${channels} channels, ${messages} messages, ${operations} operations, ${diagnostics.length} diagnostics`)
process.exit(diagnostics.length === 0 && channels > 0 && messages > 0 && operations > 0 ? 0 : 1)
