package server

import "bytes"

// head is the header of a request, as far as it matters whether it can be
// answered quickly. Its fields are parts of the bytes read.
type head struct {
	head   []byte // all of it, with the empty line
	path   []byte // of the target, escaped
	query  []byte // behind the question mark
	host   []byte
	coding []byte // Accept-Encoding
	agent  string
	simple bool // a GET for a path whose other headers change nothing
}

// harmless are headers that change nothing in the answer of a symbol path.
var harmless = map[string]bool{
	"accept-language": true, "cache-control": true, "dnt": true, "origin": true, "pragma": true, "priority": true,
	"referer": true, "sec-fetch-dest": true, "sec-fetch-mode": true, "sec-fetch-site": true, "symbolchecksum": true,
	"x-forwarded-for": true, "x-forwarded-proto": true, "x-real-ip": true,
}

// longestName is the length of the longest header name that matters here.
const longestName = 32

// parseHead reads the header that b begins with. whole is true only if b has
// all of it, in the strictest reading of RFC 9112, and if it is that of a GET
// or HEAD without a body, so that every reader finds the same end of it.
func parseHead(b []byte) (q head, whole bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return q, false
	}
	q.head = b[:end+4]
	line, rest, _ := bytes.Cut(b[:end+2], []byte("\r\n"))
	method, line, _ := bytes.Cut(line, []byte(" "))
	target, proto, _ := bytes.Cut(line, []byte(" "))
	get := string(method) == "GET"
	if !get && string(method) != "HEAD" || string(proto) != "HTTP/1.1" || len(target) == 0 || !visible(target) {
		return q, false
	}
	q.path, q.query, _ = bytes.Cut(target, []byte("?"))
	q.simple = get && target[0] == '/' && bytes.IndexByte(target, '#') < 0
	hosts, codings := 0, 0
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !token(name) || !text(value) {
			return q, false
		}
		value = bytes.Trim(value, " \t")
		var lower [longestName]byte
		if len(name) > longestName {
			q.simple = false
			continue
		}
		switch n := lowerInto(lower[:], name); string(n) {
		case "content-length", "transfer-encoding", "upgrade", "expect", "trailer", "te", "http2-settings":
			return q, false
		case "host":
			hosts++
			q.host = value
			q.simple = q.simple && plainHost(value)
		case "user-agent":
			q.agent = string(value)
		case "accept":
			q.simple = q.simple && !containsFold(value, "msfz")
		case "accept-encoding":
			codings++
			q.coding = value
		case "connection":
			if !bytes.EqualFold(value, []byte("keep-alive")) {
				return q, false
			}
		default:
			q.simple = q.simple && harmless[string(n)]
		}
	}
	q.simple = q.simple && hosts == 1 && codings <= 1
	return q, true
}

func lowerInto(dst, s []byte) []byte {
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst[i] = c
	}
	return dst[:len(s)]
}

// visible reports whether b consists of visible ASCII characters.
func visible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// text reports whether b is a header value without control characters.
func text(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// token reports whether b is a header name.
func token(b []byte) bool {
	for _, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(b) > 0
}

// plainHost reports whether h is a host name or address with an optional port.
func plainHost(h []byte) bool {
	for _, c := range h {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '-' || c == '.' || c == ':' || c == '_' || c == '[' || c == ']') {
			return false
		}
	}
	return len(h) > 0
}

// containsFold reports whether b contains word in any case.
func containsFold(b []byte, word string) bool {
	for i := 0; i+len(word) <= len(b); i++ {
		if b[i]|0x20 == word[0] && bytes.EqualFold(b[i:i+len(word)], []byte(word)) {
			return true
		}
	}
	return false
}
