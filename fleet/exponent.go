package fleet

import "math"

// An exponent reads a text that may be a resource.Quantity, and measures the exponent. The decoder
// computes with numbers of that many digits: "1e-10000000" takes seconds, "1e-1000000000" hours.
type exponent struct {
	state exponentState
	value int64
}

type exponentState int

const (
	beforeNumber exponentState = iota
	inMantissa
	afterE
	inExponent
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
	case e.state == inMantissa && (c == 'e' || c == 'E'):
		e.state = afterE
	case e.state == afterE && (c == '+' || c == '-'):
		e.state = inExponent
	case (e.state == afterE || e.state == inExponent) && isDigit:
		e.state, e.value = inExponent, min(maxExponent, 10*e.value+int64(c-'0'))
	case (e.state == inExponent || e.state == afterNumber) && isSpace:
		e.state = afterNumber
	default:
		e.state, e.value = noNumber, 0
	}
}

// size returns what the number counts when its text has ended: as many bytes as its time is worth.
// A million counts as 1 MB, and takes 70 ms.
func (e *exponent) size() int64 {
	if e.value < 1000 {
		return 0
	}
	return int64(math.Pow(float64(e.value), 1.5) / 1000)
}
