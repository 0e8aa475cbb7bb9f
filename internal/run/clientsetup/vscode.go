package clientsetup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// symbolOptionTypes are the debuggers of Visual Studio Code that read symbolOptions: of Windows
// programs in C++, and of .NET.
var symbolOptionTypes = []string{"cppvsdbg", "coreclr", "clr"}

// vscode sets up the launch.json of the folder in which the command runs. Its debuggers send no
// credentials: they use the local proxy.
func vscode(_ context.Context, s *Setup) (f Finding, err error) {
	path := filepath.Join(s.Machine.Work, ".vscode", "launch.json")
	if !isFile(path) {
		f.Reason = "there is no " + path
		return f, nil
	}
	if s.Proxy == "" {
		f.Reason = "the local proxy has no address"
		return f, nil
	}
	found := false
	e, err := edit(path, func(before []byte) (after []byte, err error) {
		after, found, err = withSymbolOptions(before, s.Server, s.Proxy)
		return after, err
	})
	if err != nil {
		return f, err
	}
	if !found {
		f.Reason = path + " has no configuration of a debugger that reads symbolOptions: " + strings.Join(symbolOptionTypes, ", ")
		return f, nil
	}
	f.Edits = []Edit{e}
	f.Notes = []string{"the address is that of symdepot proxy " + s.Server + ": it must run while you debug"}
	return f, nil
}

// withSymbolOptions returns a launch.json in which each configuration that can looks for symbols
// at an address. Nothing that is there is printed anew. found is false if none can.
func withSymbolOptions(text []byte, server, address string) (after []byte, found bool, err error) {
	text, _, err = withoutBlocks(text, server)
	if err != nil {
		return nil, false, err
	}
	root, err := parseJSONC(text)
	if err != nil {
		return nil, false, err
	}
	list := root.member("configurations")
	if list == nil || list.kind != '[' {
		return nil, false, nil
	}
	quoted, err := json.Marshal(address)
	if err != nil {
		return nil, false, err
	}
	var inserts []insert
	for i := range list.items {
		c := &list.items[i]
		if kind := c.member("type"); kind == nil || !slices.Contains(symbolOptionTypes, kind.text) {
			continue
		}
		found = true
		in, err := symbolOptions(c, string(quoted), address)
		if err != nil {
			return nil, false, err
		}
		if in != nil {
			inserts = append(inserts, *in)
		}
	}
	return insertAll(text, inserts, server), found, nil
}

// insert is a text that comes after the opening bracket of a node.
type insert struct {
	into *node
	text string
}

// symbolOptions returns what a configuration lacks; nil: nothing.
func symbolOptions(c *node, quoted, address string) (*insert, error) {
	options := c.member("symbolOptions")
	if options == nil {
		return &insert{c, `"symbolOptions": { "searchPaths": [` + quoted + `] }`}, nil
	}
	if options.kind != '{' {
		return nil, errors.New("symbolOptions is not an object")
	}
	paths := options.member("searchPaths")
	if paths == nil {
		return &insert{options, `"searchPaths": [` + quoted + `]`}, nil
	}
	if paths.kind != '[' {
		return nil, errors.New("symbolOptions.searchPaths is not a list")
	}
	for _, p := range paths.items {
		if p.text == address {
			return nil, nil
		}
	}
	return &insert{paths, quoted}, nil
}

// insertAll puts each text on lines of its own, between marks.
func insertAll(text []byte, inserts []insert, server string) []byte {
	var out bytes.Buffer
	eol, at := lineEnd(text), 0
	for _, in := range inserts {
		cut := in.into.from + 1
		indent := indentOf(text, in.into)
		own := in.text
		if len(in.into.items) > 0 {
			own += ","
		}
		out.Write(text[at:cut])
		rest := text[cut:]
		// The end of the line goes before the block, so that a block is whole lines.
		after := bytes.TrimLeft(rest, " \t")
		if bytes.HasPrefix(after, []byte("\n")) || bytes.HasPrefix(after, []byte("\r\n")) {
			end := cut + bytes.IndexByte(rest, '\n') + 1
			out.Write(text[cut:end])
			cut = end
		} else {
			out.WriteString(eol)
		}
		for _, line := range []string{"// " + beginMark + server, own, "// " + endMark + server} {
			out.WriteString(indent + line + eol)
		}
		at = cut
	}
	out.Write(text[at:])
	return out.Bytes()
}

// indentOf is the indent of the lines in a node: that of its first item if this begins a line.
func indentOf(text []byte, n *node) string {
	if len(n.items) > 0 {
		line := text[n.from+1 : n.items[0].from]
		if i := bytes.LastIndexByte(line, '\n'); i >= 0 {
			line = line[i+1:]
			return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
		}
	}
	line := text[bytes.LastIndexByte(text[:n.from], '\n')+1 : n.from]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))]) + "    "
}
