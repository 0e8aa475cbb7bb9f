package clientsetup

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const proxyHere = "http://127.0.0.1:20001"

const launch = `// Mine.
{
    "version": "0.2.0", /* keep */
    "configurations": [
        {
            "type": "cppvsdbg", // "symbolOptions" is not here
            "name": "a, \"b\" } // c",
        },
        { "type": "coreclr", "symbolOptions": { } },
        {
            "type": "clr",
            "symbolOptions": {
                "searchPaths": [
                    "https://one"
                ],
                "searchMicrosoftSymbolServer": false
            }
        },
        { "type": "coreclr", "symbolOptions": { "searchPaths": ["` + proxyHere + `"] } },
        { "type": "coreclr", "symbolOptions": { "searchPaths": [] } },
        { "type": "python" },
    ],
}
`

const launched = `// Mine.
{
    "version": "0.2.0", /* keep */
    "configurations": [
        {
            // >>> symdepot https://symbols.example
            "symbolOptions": { "searchPaths": ["http://127.0.0.1:20001"] },
            // <<< symdepot https://symbols.example
            "type": "cppvsdbg", // "symbolOptions" is not here
            "name": "a, \"b\" } // c",
        },
        { "type": "coreclr", "symbolOptions": {
            // >>> symdepot https://symbols.example
            "searchPaths": ["http://127.0.0.1:20001"]
            // <<< symdepot https://symbols.example
 } },
        {
            "type": "clr",
            "symbolOptions": {
                "searchPaths": [
                    // >>> symdepot https://symbols.example
                    "http://127.0.0.1:20001",
                    // <<< symdepot https://symbols.example
                    "https://one"
                ],
                "searchMicrosoftSymbolServer": false
            }
        },
        { "type": "coreclr", "symbolOptions": { "searchPaths": ["` + proxyHere + `"] } },
        { "type": "coreclr", "symbolOptions": { "searchPaths": [
            // >>> symdepot https://symbols.example
            "http://127.0.0.1:20001"
            // <<< symdepot https://symbols.example
] } },
        { "type": "python" },
    ],
}
`

// TestLaunch: the address is added where it is missing; comments and the rest stay as they are.
func TestLaunch(t *testing.T) {
	got, found, err := withSymbolOptions([]byte(launch), here, proxyHere)
	if err != nil || !found || string(got) != launched {
		t.Fatalf("%v, %v:\n%s", found, err, got)
	}
	if again, _, err := withSymbolOptions([]byte(strings.ReplaceAll(launch, "\n", "\r\n")), here, proxyHere); err != nil ||
		string(again) != strings.ReplaceAll(launched, "\n", "\r\n") {
		t.Errorf("with lines of Windows: %v\n%q", err, again)
	}
	for name, c := range map[string]struct {
		text  string
		found bool
		fails string
	}{
		"none that reads it":  {`{"configurations": [{"type": "gdb"}]}`, false, ""},
		"no configurations":   {`{}`, false, ""},
		"a list":              {`[]`, false, ""},
		"a byte order mark":   {"\ufeff" + `{"configurations": [{"type": "clr"}]}`, true, ""},
		"options are no list": {`{"configurations": [{"type": "clr", "symbolOptions": 1}]}`, true, "symbolOptions is not an object"},
		"paths are a text":    {`{"configurations": [{"type": "clr", "symbolOptions": {"searchPaths": ""}}]}`, true, "is not a list"},
		"cut off":             {`{"configurations": [`, false, "a bracket is not closed"},
		"an open comment":     {"{\n/* }", false, "line 2: a comment does not end"},
		"an open text":        {`{"a`, false, "a text does not end"},
		"two values":          {`{} {}`, false, "something stands after"},
		"nothing":             {" ", false, "a value is missing"},
		"no comma":            {`{"a":1 "b":2}`, false, "a comma or"},
		"no colon":            {`{"a" 1}`, false, "a colon is missing"},
		"deep":                {strings.Repeat("[", 1000), false, "nested too deeply"},
	} {
		_, found, err := withSymbolOptions([]byte(c.text), here, proxyHere)
		if found != c.found && c.fails == "" || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %v; want %v and %q", name, found, err, c.found, c.fails)
		}
	}
}

// plain returns JSON without comments, and without commas before closing brackets, as another
// reader of the format would see it: a simple filter that knows texts and comments alone.
func plain(text []byte) []byte {
	var out []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			from := i
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			out = append(out, text[from:min(i+1, len(text))]...)
		case bytes.HasPrefix(text[i:], []byte("//")):
			for i < len(text) && text[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case bytes.HasPrefix(text[i:], []byte("/*")):
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += 2 + end + 1
			out = append(out, ' ')
		case text[i] == '}' || text[i] == ']':
			out = append(bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte(",")), text[i])
		default:
			out = append(out, text[i])
		}
	}
	return bytes.TrimPrefix(out, []byte("\ufeff"))
}

// FuzzLaunch: whatever is read as a launch.json is still one afterwards, a second time changes
// nothing, and encoding/json finds the address where it belongs.
func FuzzLaunch(f *testing.F) {
	f.Add([]byte(launch))
	f.Add([]byte(`{"configurations": [{"type": "clr"}]}`))
	f.Add([]byte(`{"configurations": [{"type": "clr", "symbolOptions": {"searchPaths": []}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		after, found, err := withSymbolOptions(text, here, proxyHere)
		if err != nil || !found {
			return
		}
		if _, err := parseJSONC(after); err != nil {
			t.Fatalf("%q becomes %q: %v", text, after, err)
		}
		again, _, err := withSymbolOptions(after, here, proxyHere)
		if err != nil {
			t.Fatalf("%q, twice: %v", after, err)
		}
		if third, _, _ := withSymbolOptions(again, here, proxyHere); !bytes.Equal(third, again) {
			t.Errorf("%q becomes %q, and then %q", text, again, third)
		}
		var had, has any
		if json.Unmarshal(plain(text), &had) == nil && json.Unmarshal(plain(after), &has) != nil {
			t.Errorf("%q becomes %q, which is not JSON", text, after)
		}
	})
}
