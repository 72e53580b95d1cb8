package argument

import "encoding/json"

// ResultDepthMax is how deeply a result may be nested, in objects and arrays:
// more than DepthMax, since programs write it, and far from the 1,000 levels
// where parsers of other languages stop, since records and lists go around it.
const ResultDepthMax = 512

// Depth is how deeply doc is nested: 0 for a scalar, 1 for a flat object or
// array. It only counts brackets outside strings, so that no document is too deep
// for it; whether doc is JSON it does not say.
func Depth(doc json.RawMessage) int {
	deepest, open := 0, 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		case '"':
			i = closing(doc, i)
		}
	}
	return deepest
}

// closing returns where the string that starts at i ends.
func closing(doc []byte, i int) int {
	for i++; i < len(doc) && doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i
}
