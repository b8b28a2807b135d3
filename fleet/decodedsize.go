package fleet

import (
	"errors"
	"math"
	"unicode/utf8"
)

// A sizer estimates how large a response becomes when it is decoded, before it is decoded. The
// bytes alone do not tell: an element without fields has two bytes in protobuf, and becomes a
// struct of hundreds.
//
// Objects of ordinary clusters have fewer estimated than received bytes, so ObjectBytes means the
// bytes of the response unless the response was made to become large.
type sizer interface {
	// scan returns the bytes that the next part of the response becomes, and whether an object of a
	// watch ended in it.
	scan(part []byte) (bytes int64, ended bool)
}

// The estimates, in bytes of memory.
const (
	itemSize     = 512 // an item of a list, such as a Node
	elementSize  = 96  // an element of another list
	emptySize    = 96  // a field of protobuf with up to emptyField bytes
	shortSize    = 32  // a field of protobuf with up to shortField bytes
	entrySize    = 32  // an entry of a JSON object
	objectSize   = 32  // an object in a field
	emptyField   = 8
	shortField   = 32
	nestedFields = 128 // deeper fields count as if they consisted of empty ones
)

var (
	errContentType = errors.New("the API server answered in an encoding that was not requested")
	errLargeEvent  = errors.New("the API server sent an event that is larger than any object")
)

// jsonSizer is the sizer of JSON. It does not check the syntax, which the decoder does. The decoder
// replaces a byte that is no valid UTF-8 by three, so each byte that may be such a one counts so.
type jsonSizer struct {
	// isArray has the arrays among the open objects and arrays.
	isArray           []bool
	inString, escaped bool
	// number is the string or the number that is read.
	number exponent
	// hasNoQuantities is true if no text is decoded as a resource.Quantity.
	hasNoQuantities bool
}

// scan implements sizer.
func (s *jsonSizer) scan(part []byte) (bytes int64, ended bool) {
	for _, c := range part {
		if s.inString {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.inString = false
				bytes += s.endNumber()
				continue
			}
			s.number.next(c)
			if c >= utf8.RuneSelf {
				bytes += int64(len(string(utf8.RuneError)))
			}
			continue
		}
		switch c {
		case '"', '{', '[', ',', ':', '}', ']':
			bytes += s.endNumber()
		default:
			s.number.next(c)
		}
		switch c {
		case '"':
			s.inString = true
		case '{', '[':
			bytes += objectSize
			s.isArray = append(s.isArray, c == '[')
			if c == '[' {
				bytes += s.element()
			}
		case ',':
			bytes += s.element()
		case '}', ']':
			if n := len(s.isArray); n > 0 {
				s.isArray = s.isArray[:n-1]
				ended = ended || n == 1
			}
		}
	}
	return bytes, ended
}

// endNumber returns the size of a number that ends, and begins another one.
func (s *jsonSizer) endNumber() int64 {
	size := s.number.size()
	s.number = exponent{}
	if s.hasNoQuantities {
		return 0
	}
	return size
}

// element returns the size of the next element of the innermost array or object. Even null becomes
// a whole element of a list.
func (s *jsonSizer) element() int64 {
	n := len(s.isArray)
	switch {
	case n == 0 || !s.isArray[n-1]:
		return entrySize
	case n == 2:
		return itemSize
	}
	return elementSize
}

// protobufSizer is the sizer of the protobuf of Kubernetes. It does not know the types, so it reads
// each field as a message while that is possible. A field that cannot be a message is a string. If
// its type is a message nevertheless, the decoder refuses the response.
type protobufSizer struct {
	isWatch bool
	// fields are the open fields, from the outermost. The first is the response, or an event of it.
	fields []protobufField
	offset int64
	// skip is how many of the next bytes are no fields.
	skip int64

	state  protobufState
	number uint64
	digits int
}

type protobufField struct {
	// end is the offset of the byte after the field.
	end int64
	// groups counts the open groups.
	groups int
	// prefix counts the bytes of protobufPrefix that are still to come.
	prefix int
	// number reads the whole field, which may be a string.
	number exponent
}

type protobufState int

const (
	readsTag protobufState = iota
	readsNumber
	readsLength
	// readsFrame reads the length of an event.
	readsFrame
)

// protobufPrefix is before each object.
const protobufPrefix = "k8s\x00"

func newProtobufSizer(isWatch bool) *protobufSizer {
	s := &protobufSizer{isWatch: isWatch, state: readsFrame}
	if !isWatch {
		s.state = readsTag
		s.fields = []protobufField{{end: math.MaxInt64, prefix: len(protobufPrefix)}}
	}
	return s
}

// scan implements sizer.
func (s *protobufSizer) scan(part []byte) (bytes int64, ended bool) {
	for len(part) > 0 {
		n := max(1, min(s.skip, int64(len(part))))
		s.readNumbers(part[:n])
		s.offset += n
		if s.skip > 0 {
			s.skip -= n
		} else {
			bytes += s.next(part[0])
		}
		part = part[n:]
		for n := len(s.fields); n > 0 && s.fields[n-1].end == s.offset; n = len(s.fields) {
			bytes += s.fields[n-1].number.size()
			s.fields = s.fields[:n-1]
			s.state, s.number, s.digits = readsTag, 0, 0
			if n == 1 {
				s.state, ended = readsFrame, true
			}
		}
	}
	return bytes, ended
}

// readNumbers reads bytes of the open fields.
func (s *protobufSizer) readNumbers(part []byte) {
	for _, c := range part {
		mayBeNumber := false
		for i := range s.fields {
			number := &s.fields[i].number
			number.next(c)
			mayBeNumber = mayBeNumber || number.state != noNumber
		}
		if !mayBeNumber {
			return
		}
	}
}

// next reads a byte, and returns the size of a field that begins after it.
func (s *protobufSizer) next(c byte) int64 {
	if s.state == readsFrame {
		s.number = s.number<<8 | uint64(c)
		if s.digits++; s.digits == 4 {
			s.fields = append(s.fields, protobufField{end: s.offset + int64(s.number)})
			s.state, s.number, s.digits = readsTag, 0, 0
		}
		return 0
	}
	field := &s.fields[len(s.fields)-1]
	if field.prefix > 0 {
		if c != protobufPrefix[len(protobufPrefix)-field.prefix] {
			s.skipField()
			return 0
		}
		field.prefix--
		return 0
	}
	if s.digits == 10 {
		s.skipField()
		return 0
	}
	s.number |= uint64(c&0x7f) << (7 * s.digits)
	s.digits++
	if c >= 0x80 {
		return 0
	}
	number, state := s.number, s.state
	s.state, s.number, s.digits = readsTag, 0, 0
	switch state {
	case readsTag:
		s.tag(field, number)
	case readsLength:
		return s.open(field, number)
	}
	return 0
}

// tag reads the number and the type of a field.
func (s *protobufSizer) tag(field *protobufField, tag uint64) {
	if int32(tag>>3) <= 0 && field.groups == 0 {
		s.skipField()
		return
	}
	switch tag & 7 {
	case 0:
		s.state = readsNumber
	case 1:
		s.skipBytes(field, 8)
	case 2:
		s.state = readsLength
	case 3:
		field.groups++
	case 4:
		if field.groups == 0 {
			s.skipField()
			return
		}
		field.groups--
	case 5:
		s.skipBytes(field, 4)
	default:
		s.skipField()
	}
}

// open begins a field of bytes, and returns its size.
func (s *protobufSizer) open(in *protobufField, length uint64) (size int64) {
	if length > uint64(in.end-s.offset) {
		s.skipField()
		return 0
	}
	depth := len(s.fields)
	switch {
	case depth == 2 && !s.isWatch:
		size = itemSize
	case length <= emptyField:
		size = emptySize
	case length <= shortField:
		size = shortSize
	}
	switch {
	case length == 0:
	case depth == nestedFields:
		s.skip = int64(length)
		size += min(int64(length), math.MaxInt64/emptySize) * emptySize / 2
	default:
		next := protobufField{end: s.offset + int64(length)}
		if depth == 2 && s.isWatch { // the object of an event
			next.prefix = len(protobufPrefix)
		}
		s.fields = append(s.fields, next)
	}
	return size
}

func (s *protobufSizer) skipBytes(in *protobufField, n int64) {
	if n > in.end-s.offset {
		s.skipField()
		return
	}
	s.skip = n
}

// skipField skips the rest of a field that is no message.
func (s *protobufSizer) skipField() {
	s.skip = s.fields[len(s.fields)-1].end - s.offset
	s.state, s.number, s.digits = readsTag, 0, 0
}
