// Package secret keeps secrets out of what leaves a process: results, deltas,
// errors, logs and spans get a placeholder, `[NAME]`, wherever a secret stood.
//
//	book := secret.NewBook(nil)
//	err := book.Add("LEDGER_TOKEN", token)
//	text := book.Masker().Text(text)
//
// # What is found
//
// A secret is found as it is, and in the forms in which programs write it:
// escaped for JSON (once and twice) and as a Go string, base64 (both alphabets,
// whatever stands before and after it), hexadecimal, escaped for URLs. Of a value
// of several lines each long line counts, of a URL with a password the password.
// In JSON, strings are looked at decoded, keys too, and numbers.
//
// # What is not
//
//   - Values under LengthMin bytes: whoever can try a few thousand values knows
//     them anyway, and `true` or `8080` stand everywhere.
//   - Encodings beside those above: compression, encryption, base64 broken into
//     lines, a secret that a program spells out letter by letter.
//   - Base64 of a text around a secret gives away up to four bits of its last byte.
//
// # What is never masked
//
// Arguments on their way to a tool: what was approved is what runs. Masking
// belongs to what a tool, a provider or this process says, at the point where it
// is written (F159), not where it is shown.
package secret
