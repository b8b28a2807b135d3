package fleet

import (
	"math"
	"strings"
)

// An exponent reads a text that may be a resource.Quantity, and measures the exponent. The decoder
// computes with numbers of that many digits: "1e-10000000" takes seconds, "1e-1000000000" hours. A
// number that is written out takes longer: the time grows with the square of its digits.
type exponent struct {
	state exponentState
	value int64
	// digits counts those before the exponent.
	digits int64
}

type exponentState int

const (
	beforeNumber exponentState = iota
	inMantissa
	afterE
	inExponent
	inSuffix
	afterNumber
	noNumber
)

// maxExponent limits the value that is computed; greater ones count the same.
const maxExponent = 1 << 40

// next reads a byte of the text.
func (e *exponent) next(c byte) {
	isDigit := c >= '0' && c <= '9'
	// The decoder of JSON trims white space, also that of other alphabets.
	isSpace := c <= ' ' || c >= 0x80
	switch {
	case e.state == noNumber:
	case e.state == beforeNumber && isSpace:
	case e.state == beforeNumber && (c == '+' || c == '-'),
		(e.state == beforeNumber || e.state == inMantissa) && (isDigit || c == '.'):
		e.state = inMantissa
		if isDigit {
			e.digits++
		}
	case e.state == inMantissa && (c == 'e' || c == 'E'):
		e.state = afterE
	case e.state == afterE && (c == '+' || c == '-'):
		e.state = inExponent
	case (e.state == afterE || e.state == inExponent) && isDigit:
		e.state, e.value = inExponent, min(maxExponent, 10*e.value+int64(c-'0'))
	case (e.state == inMantissa || e.state == afterE || e.state == inSuffix) && isSuffix(c):
		e.state = inSuffix
	case e.state != beforeNumber && isSpace:
		e.state = afterNumber
	default:
		*e = exponent{state: noNumber}
	}
}

// isSuffix reports whether a byte is in the suffix of a quantity, such as "Ki".
func isSuffix(c byte) bool { return strings.IndexByte("inumkKMGTPE", c) >= 0 }

// size returns what the number counts when its text has ended: as many bytes as its time is worth.
// An exponent of a million counts as 1 MB, and takes 70 ms. A million digits count as 8 MB.
func (e *exponent) size() (bytes int64) {
	if e.value >= 1000 {
		bytes = int64(math.Pow(float64(e.value), 1.5) / 1000)
	}
	if e.digits >= 1000 {
		bytes += e.digits / 1000 * e.digits / 125
	}
	return bytes
}
