package symbolicate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the answer as JSON, equal to that of an Encoder of encoding/json without
// escapes for HTML, which needs several times as long and more memory than the answer has.
func (a V5Answer) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"results":[`...)
	for i, r := range a.Results {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = r.appendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, `]}`...), nil
}

func (r V5Result) appendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"stacks":[`...)
	for i, stack := range r.Stacks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for k := range stack {
			if k > 0 {
				b = append(b, ',')
			}
			b = stack[k].appendJSON(b)
		}
		b = append(b, ']')
	}
	// The rest is about modules, of which there are few.
	rest := r
	rest.Stacks = nil
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rest); err != nil {
		return nil, err
	}
	b = append(b, ']')
	return append(b, bytes.TrimSuffix(text.Bytes()[len(`{"stacks":null`):], []byte("\n"))...), nil
}

// appendJSON appends a frame. Members that json.Marshal omits are omitted.
func (f *V5Frame) appendJSON(b []byte) []byte {
	b = append(b, `{"frame":`...)
	b = strconv.AppendInt(b, int64(f.Frame), 10)
	b = appendText(append(b, `,"module":`...), f.Module)
	b = appendText(append(b, `,"module_offset":`...), f.ModuleOffset)
	return append(f.appendRest(b), '}')
}

// appendRest appends the members that depend on the address alone, with commas before them.
func (f *V5Frame) appendRest(b []byte) []byte {
	if f.rest != nil {
		return append(b, f.rest.json...)
	}
	b = appendMember(b, `,"function":`, f.Function)
	b = appendMember(b, `,"function_offset":`, f.FunctionOffset)
	b = appendMember(b, `,"function_size":`, f.FunctionSize)
	b = appendPosition(b, f.File, f.Line)
	for i, in := range f.Inlines {
		if i == 0 {
			b = append(b, `,"inlines":[{"function":`...)
		} else {
			b = append(b, `,{"function":`...)
		}
		b = appendText(b, in.Function)
		b = append(appendPosition(b, in.File, in.Line), '}')
	}
	if len(f.Inlines) > 0 {
		b = append(b, ']')
	}
	return b
}

func appendPosition(b []byte, file string, line uint32) []byte {
	b = appendMember(b, `,"file":`, file)
	if line != 0 {
		b = strconv.AppendUint(append(b, `,"line":`...), uint64(line), 10)
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

// plain returns how many bytes at the start of a text are ASCII that JSON does not escape,
// as far as eight together are.
func plain(s string) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		p := s[i : i+8]
		x := uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
			uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
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
