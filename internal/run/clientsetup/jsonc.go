package clientsetup

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// node is a value of a text in JSON with comments, with its place in the text.
type node struct {
	kind     byte // '{', '[', '"' or 0 for any other value
	from, to int  // bytes of the text
	text     string
	keys     []string // of an object, beside items
	items    []node
}

// member returns a member of an object, or nil.
func (n *node) member(key string) *node {
	if n == nil || n.kind != '{' {
		return nil
	}
	for i, k := range n.keys {
		if k == key {
			return &n.items[i]
		}
	}
	return nil
}

// maxDepth is how deeply values may be nested.
const maxDepth = 200

// jsonc reads JSON as editors write it: with comments, and with commas before closing brackets.
type jsonc struct {
	text []byte
	at   int
}

// parseJSONC reads a text.
func parseJSONC(text []byte) (node, error) {
	p := &jsonc{text: text}
	n, err := p.value(0)
	if err == nil {
		if err = p.space(); err == nil && p.at < len(text) {
			err = p.wrong("something stands after the value")
		}
	}
	return n, err
}

func (p *jsonc) wrong(what string) error {
	line := 1
	for _, c := range p.text[:min(p.at, len(p.text))] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("line %d: %s", line, what)
}

// space skips blanks and comments.
func (p *jsonc) space() error {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			p.at++
		case p.at == 0 && len(p.text) >= 3 && string(p.text[:3]) == "\ufeff":
			p.at += utf8.RuneLen('\ufeff')
		case c == '/' && p.at+1 < len(p.text) && p.text[p.at+1] == '/':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case c == '/' && p.at+1 < len(p.text) && p.text[p.at+1] == '*':
			end := p.at + 2
			for end+1 < len(p.text) && (p.text[end] != '*' || p.text[end+1] != '/') {
				end++
			}
			if end+1 >= len(p.text) {
				return p.wrong("a comment does not end")
			}
			p.at = end + 2
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonc) value(depth int) (n node, err error) {
	if err := p.space(); err != nil {
		return n, err
	}
	if depth > maxDepth {
		return n, p.wrong("the values are nested too deeply")
	}
	if p.at >= len(p.text) {
		return n, p.wrong("a value is missing")
	}
	n.from = p.at
	switch c := p.text[p.at]; c {
	case '{', '[':
		n.kind = c
		err = p.list(&n, depth)
	case '"':
		n.kind = c
		n.text, err = p.str()
	default:
		for p.at < len(p.text) && isWord(p.text[p.at]) {
			p.at++
		}
		if p.at == n.from {
			return n, p.wrong("a value is missing")
		}
	}
	n.to = p.at
	return n, err
}

func isWord(c byte) bool {
	return c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// str reads a string.
func (p *jsonc) str() (string, error) {
	from := p.at
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	if p.at >= len(p.text) {
		return "", p.wrong("a text does not end")
	}
	p.at++
	var s string
	if json.Unmarshal(p.text[from:p.at], &s) != nil {
		return "", p.wrong("a text is not JSON")
	}
	return s, nil
}

// list reads the members of an object or the elements of an array.
func (p *jsonc) list(n *node, depth int) error {
	end := byte('}')
	if n.kind == '[' {
		end = ']'
	}
	p.at++
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.at >= len(p.text) {
			return p.wrong("a bracket is not closed")
		}
		if p.text[p.at] == end {
			p.at++
			return nil
		}
		if n.kind == '{' {
			if p.text[p.at] != '"' {
				return p.wrong("a name in quotes is missing")
			}
			key, err := p.str()
			if err == nil {
				err = p.space()
			}
			if err != nil {
				return err
			}
			if p.at >= len(p.text) || p.text[p.at] != ':' {
				return p.wrong("a colon is missing")
			}
			p.at++
			n.keys = append(n.keys, key)
		}
		item, err := p.value(depth + 1)
		if err == nil {
			err = p.space()
		}
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
		switch {
		case p.at < len(p.text) && p.text[p.at] == ',':
			p.at++
		case p.at >= len(p.text) || p.text[p.at] != end:
			return p.wrong("a comma or a closing bracket is missing")
		}
	}
}
