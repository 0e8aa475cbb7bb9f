package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symcache"
)

// SampleSettings are the settings of Microsoft's sample SymCache server.
type SampleSettings struct {
	directory, server, program, version string
}

// ReadSampleSettings reads the appsettings.json of Microsoft's sample SymCache
// server. Without a file there are no settings.
func ReadSampleSettings(file string) (SampleSettings, error) {
	if file == "" {
		return SampleSettings{}, nil
	}
	text, err := readSmall(file, maxFile)
	if err != nil {
		return SampleSettings{}, err
	}
	s, err := parseSampleSettings(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// setting returns the place of a setting with a name as the sample reads it: in any
// case, and with the names of sections in front. nil: no setting has that name.
func (s *SampleSettings) setting(name string) *string {
	for _, separator := range []string{":", "__"} { // the second one in environment variables
		if i := strings.LastIndex(name, separator); i >= 0 {
			name = name[i+len(separator):]
		}
	}
	switch strings.ToLower(name) {
	case "symcachedirectory":
		return &s.directory
	case "symbolserver":
		return &s.server
	case "transcoderpath":
		return &s.program
	case "transcoderversion":
		return &s.version
	}
	return nil
}

// Override replaces the settings that a process's environment, as os.Environ returns it,
// has too: the sample prefers it to its appsettings.json. It returns the names of the
// variables.
func (s *SampleSettings) Override(environ []string) (names []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if to := s.setting(name); to != nil && strings.TrimSpace(value) != "" {
			*to = strings.TrimSpace(value)
			names = append(names, name)
		}
	}
	return names
}

// IsZero reports whether the file contained none of the settings.
func (s SampleSettings) IsZero() bool { return s == SampleSettings{} }

// parseSampleSettings parses appsettings.json, which may contain comments and
// trailing commas. Keys may have any case and be in any section.
func parseSampleSettings(text []byte) (SampleSettings, error) {
	var s SampleSettings
	var root yaml.Node
	// The YAML parser accepts JSON with trailing commas, but no comments.
	if err := yaml.Unmarshal(withoutComments([]byte(strings.TrimPrefix(string(text), "\ufeff"))), &root); err != nil {
		return s, err
	}
	var see func(n *yaml.Node)
	see = func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			for _, c := range n.Content {
				see(c)
			}
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if t := s.setting(k.Value); t != nil && v.Kind == yaml.ScalarNode {
				*t = strings.TrimSpace(v.Value)
				continue
			}
			see(v)
		}
	}
	see(&root)
	return s, nil
}

// withoutComments replaces comments outside strings, and tabs, by spaces.
func withoutComments(b []byte) []byte {
	out := slices.Clone(b)
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '\t':
			out[i] = ' '
		case out[i] == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case out[i] == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			block := out[i+1] == '*'
			for ; i < len(out); i++ {
				if !block && (out[i] == '\n' || out[i] == '\r') {
					break
				}
				if block && i+1 < len(out) && out[i] == '*' && out[i+1] == '/' {
					out[i], out[i+1] = ' ', ' '
					i++
					break
				}
				if out[i] != '\n' && out[i] != '\r' {
					out[i] = ' '
				}
			}
		}
	}
	return out
}

// Config returns a configuration file equivalent to the settings.
func (s SampleSettings) Config() (string, error) {
	var b strings.Builder
	b.WriteString("# Converted from the settings of Microsoft's sample SymCache server. All keys: symdepot config print\n")
	quoted := func(v string) (string, error) {
		t, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.SingleQuotedStyle, Value: v})
		return strings.TrimSuffix(string(t), "\n"), err
	}
	line := func(format, v string) error {
		q, err := quoted(v)
		fmt.Fprintf(&b, format, q)
		return err
	}
	var errs []error
	if s.directory != "" {
		b.WriteString("symcache:\n  # Existing files are served and new ones are written here, as before; failure notes of " +
			"the sample are ignored.\n")
		errs = append(errs, line("  store: %s\n", s.directory))
	}
	if s.server != "" {
		b.WriteString("upstreams:\n")
		if strings.Contains(s.server, "://") {
			errs = append(errs, line("  - url: %s\n", s.server))
			b.WriteString("    layout: symstore\n")
		} else {
			errs = append(errs, line("  - folder: %s\n", s.server))
		}
	}
	if s.program == "" && s.version != "" {
		fmt.Fprintf(&b, "# TranscoderVersion %q has no effect without TranscoderPath.\n", s.version)
	}
	if s.program != "" {
		name := "sample"
		if s.version != "" {
			v, err := symcache.ParseVersion(s.version)
			if err != nil {
				return "", fmt.Errorf("TranscoderVersion: %w", err)
			}
			name += ",version=" + v.String()
		}
		if strings.Contains(s.program, `"`) {
			return "", fmt.Errorf("TranscoderPath: %q is not a path", s.program)
		}
		b.WriteString("transcoding:\n  programs:\n")
		if s.version != "" {
			b.WriteString("    # A test run at the start detects the version; a different version is an error.\n")
		}
		errs = append(errs, line("    - %s\n", name+`="`+s.program+`" -pdb {pdb}`))
		if base := path.Base(strings.ReplaceAll(s.program, `\`, "/")); !strings.EqualFold(base, "symcachegen.exe") {
			fmt.Fprintf(&b, "    # %s is run with the arguments of symcachegen.exe.\n", term.Printable(base))
		}
	}
	return b.String(), errors.Join(errs...)
}
