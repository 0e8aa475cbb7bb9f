package srclink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parseMap(t testing.TB, texts ...string) *Map {
	t.Helper()
	var b [][]byte
	for _, s := range texts {
		b = append(b, []byte(s))
	}
	m, err := ParseMap(b...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMapURL has the examples of the Source Link specification, and what it
// leaves open.
func TestMapURL(t *testing.T) {
	m := parseMap(t, `{"documents": {
		"C:\\src\\CodeFormatter\\*": "https://raw.githubusercontent.com/dotnet/codeformatter/bcc51178e1a82fb2edaf47285f6e577989a7333f/*",
		"C:\\src\\*": "http://MyDefaultDomain.com/src/*",
		"C:\\src\\foo.cs": "http://MySpecificFoodDomain.com/src/foo.cs",
		"/_/*": "https://example.com/q?path=*&version=1",
		"Ünï\\*": "https://example.com/u/*"}, "other": [1, {"documents": {"x": "https://x/"}}]}`,
		"\xEF\xBB\xBF"+`{"documents": {"D:\\lib\\*": "https://lib.example.com/*", "c:\\SRC\\*": "https://late.example.com/*", "c:\\SRC\\FOO.CS": "https://late.example.com/foo.cs"}}`)
	for name, want := range map[string]string{
		`C:\src\CodeFormatter\a\b.cs`:       "https://raw.githubusercontent.com/dotnet/codeformatter/bcc51178e1a82fb2edaf47285f6e577989a7333f/a/b.cs",
		`c:\SRC\codeformatter\A.cs`:         "https://raw.githubusercontent.com/dotnet/codeformatter/bcc51178e1a82fb2edaf47285f6e577989a7333f/A.cs",
		`C:\src\bar.cs`:                     "http://MyDefaultDomain.com/src/bar.cs",
		`C:\src\foo.cs`:                     "http://MySpecificFoodDomain.com/src/foo.cs",
		`C:\src\foo.cs2`:                    "http://MyDefaultDomain.com/src/foo.cs2",
		`/_/a b/c#d/ä%.cs`:                  "https://example.com/q?path=a%20b/c%23d/%C3%A4%25.cs&version=1",
		`üNÏ\x`:                             "https://example.com/u/x",
		`D:\lib\x.c`:                        "https://lib.example.com/x.c",
		`E:\x.c`:                            "",
		`C:\src`:                            "",
		``:                                  "",
		`/_/` + strings.Repeat("x", maxURL): "",
	} {
		got, ok := m.URL(name)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("URL(%q) = %q, want %q", name, got, want)
		}
	}
	want := []Place{{"http", "mydefaultdomain.com"}, {"http", "myspecificfooddomain.com"}, {"https", "example.com"},
		{"https", "late.example.com"}, {"https", "lib.example.com"}, {"https", "raw.githubusercontent.com"}}
	if diff := cmp.Diff(want, m.Places()); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// TestMapRules leaves out rules that are not valid, above all those by which a
// name could decide on the server.
func TestMapRules(t *testing.T) {
	for rule, want := range map[string]int{
		`"a/*": "https://x/*"`:              1,
		`"a/*": "https://x/*/y?z=1"`:        1,
		`"a": "https://x/a"`:                1,
		`"*": "https://x/*"`:                1,
		`"a/*": "file:///c:/src/*"`:         1,
		`"a/*": "https://x/"`:               0,
		`"a": "https://x/*"`:                0,
		`"a/*/b": "https://x/*"`:            0,
		`"a/**": "https://x/*"`:             0,
		`"a/*": "https://x/*/*"`:            0,
		`"": "https://x/"`:                  0,
		`"a/*": 5`:                          0,
		`"a/*": "x/*"`:                      0,
		`"a/*": "https://good.example*"`:    0,
		`"a/*": "https://x*.good.example/"`: 0,
		`"a/*": "https://*@good.example/"`:  0,
		`"a/*": "https://good.example:*/"`:  0,
		`"a/*": "https://good.example?*"`:   0,
		fmt.Sprintf(`"a/%s*": "https://x/*"`, strings.Repeat("x", maxURL)): 0,
	} {
		m := parseMap(t, `{"documents": {`+rule+`}}`)
		if m.Rules() != want || m.Skipped() != 1-want {
			t.Errorf("%s: %d rules, %d left out; want %d, %d", rule, m.Rules(), m.Skipped(), want, 1-want)
		}
	}
}

// TestMapErrors reads what is no Source Link; other texts stay valid.
func TestMapErrors(t *testing.T) {
	good := []byte(`{"documents": {"a": "https://x/a"}}`)
	for _, bad := range []string{"", "null", "[]", "{}", `{"documents": []}`, `{"documents": {"a"}}`, `{"documents": {"a": "https://x"`,
		`{"documents": "` + strings.Repeat("x", MaxMap) + `"}`, strings.Repeat(`{"documents":`, 50000)} {
		m, err := ParseMap([]byte(bad), good)
		if err == nil || m.Rules() != 1 {
			t.Errorf("%.40s: error %v, %d rules; want an error and 1", bad, err, m.Rules())
		}
	}
	var many strings.Builder
	for i := range maxRules + 5 {
		fmt.Fprintf(&many, `"k%d": "https://x/%d",`, i, i)
	}
	m := parseMap(t, `{"documents": {`+many.String()+`"z": "https://x/z"}}`)
	if m.Rules() != maxRules || m.Skipped() != 6 {
		t.Errorf("%d rules, %d left out; want %d, 6", m.Rules(), m.Skipped(), maxRules)
	}
}

func TestFault(t *testing.T) {
	hosts := []string{"github.com", "*.Example.com", "only.net:8443"}
	for url, bad := range map[string]bool{
		"https://github.com/x": false, "https://GitHub.com:443/x": false, "https://a.b.example.com/": false, "https://only.net:8443/": false,
		"https://example.com/": true, "https://only.net/": true, "https://evilgithub.com/": true, "https://github.com.evil/": true,
		"https://github.com@evil.net/": true, "http://github.com/": true, "file:///c:/x": true, "ftp://github.com/": true,
	} {
		p, ok := placeOf(url)
		if !ok {
			t.Fatal(url)
		}
		if got := p.Fault(hosts); (got != "") != bad {
			t.Errorf("%s: fault %q, want one: %t", url, got, bad)
		}
	}
	if got := (Place{"https", "any.net"}).Fault(nil); got != "" {
		t.Errorf("without a list: fault %q", got)
	}
}

func FuzzMap(f *testing.F) {
	f.Add([]byte(`{"documents": {"C:\\src\\*": "https://x/*", "b": "https://y/b"}}`), `C:\SRC\a b`)
	f.Add([]byte(`{"documents": {"*": "https://x/q?a=*"}}`), "\xff%*")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		m, _ := ParseMap(text)
		u, ok := m.URL(name)
		if !ok {
			return
		}
		if len(u) > maxURL {
			t.Errorf("a URL of %d bytes", len(u))
		}
		// Where a URL leads is known before any name is.
		p, ok := placeOf(u)
		for _, have := range m.Places() {
			if p == have {
				return
			}
		}
		t.Errorf("%q leads to %v (%t), which is not one of %v", u, p, ok, m.Places())
	})
}
