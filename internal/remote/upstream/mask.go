package upstream

import (
	"net/url"
	"strings"
)

// MaskAddresses hides possible secrets in the URLs of a text.
func MaskAddresses(text string) string {
	parts := strings.Split(text, "*")
	for i, p := range parts {
		u, err := url.Parse(strings.Trim(p, `" `))
		if err != nil || u.Host == "" || u.Scheme == "" {
			if at := strings.LastIndexByte(p, '@'); at >= 0 && strings.Contains(p[:at], "://") {
				parts[i] = "..." + p[at:]
			}
			continue
		}
		shown := u.Scheme + "://" + u.Host + maskPath(u.EscapedPath())
		if u.RawQuery != "" {
			shown += "?..."
		}
		parts[i] = shown
	}
	return strings.Join(parts, "*")
}

// maskPath hides path segments that look like tokens.
func maskPath(escaped string) string {
	segs := strings.Split(escaped, "/")
	for i, s := range segs {
		digits, letters := 0, 0
		for _, c := range []byte(s) {
			switch {
			case c >= '0' && c <= '9':
				digits++
			case c|0x20 >= 'a' && c|0x20 <= 'z':
				letters++
			}
		}
		if len(s) >= 20 && digits > 2 && letters > 2 && !strings.Contains(s, ".") {
			segs[i] = "..."
		}
	}
	return strings.Join(segs, "/")
}
