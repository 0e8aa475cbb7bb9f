package symbolicate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/functab"
)

// appendModules appends the members about modules, of which there are few, and ends the object.
func (r V5Result) appendModules(b []byte) ([]byte, error) {
	r.Stacks = nil
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(text.Bytes()[len(`{"stacks":null`):], []byte("\n"))...), nil
}

// appendAnswer appends the members of a frame that depend on its address alone, at an offset in its
// module, with commas before them. Members that json.Marshal omits in a V5Frame are omitted.
func appendAnswer(b []byte, a *functab.Answer, offset int64) []byte {
	outer := len(a.Frames) - 1
	b = appendMember(b, `,"function":`, a.Frames[outer].Function)
	b = append(appendHex(append(b, `,"function_offset":"`...), offset-int64(a.FunctionStart)), '"')
	if a.FunctionSize > 0 {
		b = append(appendHex(append(b, `,"function_size":"`...), int64(a.FunctionSize)), '"')
	}
	b = appendPosition(b, &a.Frames[outer])
	for i := range outer {
		if i == 0 {
			b = append(b, `,"inlines":[{"function":`...)
		} else {
			b = append(b, `,{"function":`...)
		}
		b = appendText(b, a.Frames[i].Function)
		b = append(appendPosition(b, &a.Frames[i]), '}')
	}
	if outer > 0 {
		b = append(b, ']')
	}
	return b
}

// appendPosition appends the members of a position: no line without a file.
func appendPosition(b []byte, l *functab.Line) []byte {
	if l.File == "" {
		return b
	}
	b = appendText(append(b, `,"file":`...), l.File)
	if l.Line != 0 {
		b = strconv.AppendUint(append(b, `,"line":`...), uint64(l.Line), 10)
	}
	return b
}

// appendMember appends a member whose text may be empty, and then is omitted.
func appendMember(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, name...), text)
}

// isPlain reports whether a text is ASCII that JSON does not escape; it may be, too, if the result is
// false.
func isPlain(s string) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	if strings.IndexByte(s, '"') >= 0 || strings.IndexByte(s, '\\') >= 0 {
		return false
	}
	if len(s) < 8 {
		for i := range len(s) {
			if s[i] < ' ' || s[i] >= utf8.RuneSelf {
				return false
			}
		}
		return true
	}
	// Of a byte below a space, or above ASCII, the highest bit is set in the sum.
	x := eight(s, len(s)-8)
	sum := x | (x - each*' ')
	for i := 0; i+8 <= len(s); i += 8 {
		x := eight(s, i)
		sum |= x | (x - each*' ')
	}
	return sum&high == 0
}

// eight returns eight bytes of a text.
func eight(s string, i int) uint64 {
	p := s[i : i+8]
	return uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
		uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
}

// plain returns how many bytes at the start of a text are ASCII that JSON does not escape,
// as far as eight together are.
func plain(s string) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := eight(s, i)
		quote, slash := x^each*'"', x^each*'\\'
		if (x|(x-each*' ')&^x|(quote-each)&^quote|(slash-each)&^slash)&high != 0 {
			break
		}
	}
	return i
}

// appendText appends a text as encoding/json writes it.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	if isPlain(s) {
		return append(append(b, s...), '"')
	}
	first := 0
	for i := plain(s); i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(append(b, s[first:i]...), `\ufffd`...)
				first = i + n
			case r == '\u2028' || r == '\u2029':
				b = append(append(b, s[first:i]...), `\u202`...)
				b = append(b, hex[r&0xF])
				first = i + n
			}
			i += n
			i += plain(s[i:])
			continue
		}
		if !escaped[c] {
			i++
			continue
		}
		b = append(b, s[first:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		i++
		first = i
		i += plain(s[i:])
	}
	return append(append(b, s[first:]...), '"')
}

// escaped are the characters of ASCII that appendText does not copy.
var escaped = func() (set [utf8.RuneSelf]bool) {
	for c := range byte(' ') {
		set[c] = true
	}
	set['"'], set['\\'] = true, true
	return set
}()
