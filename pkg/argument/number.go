package argument

import (
	"math"
	"strconv"
	"strings"
)

// integerMax is the largest integer whose neighbours float64 still tells apart.
const integerMax = 1<<53 - 1

// exponentMax bounds a written exponent, so that nothing computes 10^999999999.
const exponentMax = 1000

// representable reports whether a JSON number is of a size float64 can hold.
// Beyond it a schema's minimum or multipleOf has no answer.
func representable(text string) bool {
	if len(text) > numberMax {
		return false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n > exponentMax || n < -exponentMax {
			return false
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	digits, _ := decimal(text)
	return f != 0 || digits == ""
}

// exact reports whether no other number has the canonical form of this one:
// its value is the shortest decimal of its float64, and an integer lies within
// ±(2^53-1). RFC 8785 renders through float64, so that without this guard
// 9007199254740993 and 9007199254740992 would have one hash. Spellings of one
// value (1, 1.0, 1e0; also 0 and -0) are one number.
func exact(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	if f == math.Trunc(f) && math.Abs(f) > integerMax {
		return false
	}
	digits, exp := decimal(text)
	shortest, shortestExp := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return digits == shortest && exp == shortestExp
}

// decimal returns the significant digits of a number and the power of ten of
// the last of them; zero has none. The sign is left out.
func decimal(text string) (digits string, exp int) {
	mantissa, power, ok := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	if ok {
		exp, _ = strconv.Atoi(power) // bounded by representable
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "", 0
	}
	return trimmed, exp + len(digits) - len(trimmed)
}
