package doctor

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Bundle is what a support bundle is made of: the file that a report of a problem needs,
// without secrets, names of people and contents of symbol files.
type Bundle struct {
	Version  string // the program with its version and platform
	Findings []Finding
	Patient  Patient
	Log      string // file of the log; empty: there is none
	Environ  []string
	Now      time.Time
}

// logEnd is how much of a log is read, from its end, in bytes.
const logEnd = 1 << 20

// readme is the first file of a bundle.
const readme = `A support bundle of symdepot. Read it before you send it.

  versions.txt   the program, the platform, the modules that it was built from
  config.yaml    the keys that differ from their defaults
  environment.txt  names of the variables that concern symdepot, without values
  doctor.txt     what symdepot doctor found
  depot.json     numbers of the depot, its database and its migrations
  metrics.txt    metrics of the running server, if it gave them
  log.txt        the end of the log, if its file was named

Left out: passwords, tokens, keys and other secrets, user names, addresses of clients, the audit log, tokens and
sign-ins of the database, and symbol files. Names of products, versions, upstreams and folders are in it.
`

// Write writes the bundle as a zip file.
func (c *Bundle) Write(w io.Writer) error {
	var hidden []string
	config := []byte("# the configuration cannot be used; doctor.txt says why\n")
	if c.Patient.Config != nil {
		config, hidden = c.Patient.Config.Redacted()
	}
	s := newScrubber(hidden, c.Environ)
	var report bytes.Buffer
	if err := Print(&report, c.Findings); err != nil {
		return err
	}
	numbers, err := c.depotNumbers()
	if err != nil {
		return err
	}
	files := []struct{ name, text string }{
		{"README.txt", readme}, {"versions.txt", c.versions()}, {"config.yaml", string(config)}, {"environment.txt", environment(c.Environ)},
		{"doctor.txt", report.String()}, {"depot.json", numbers}, {"metrics.txt", string(c.Patient.Server.Metrics)},
	}
	z := zip.NewWriter(w)
	put := func(name, text string) error {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: c.Now})
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		return err
	}
	for _, f := range files {
		if f.text == "" {
			continue
		}
		if err := put(f.name, s.text(f.text)); err != nil {
			return err
		}
	}
	if c.Log != "" {
		lines, err := lastLines(c.Log)
		if err != nil {
			return err
		}
		for i, l := range lines {
			lines[i] = s.logLine(l)
		}
		if err := put("log.txt", strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
	}
	return z.Close()
}

// versions lists the program and its modules.
func (c *Bundle) versions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nmade %s\n", c.Version, c.Now.UTC().Format(time.RFC3339))
	if v := c.Patient.Server.Version; v != "" {
		fmt.Fprintf(&b, "the running server is version %s\n", v)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, v := range info.Settings {
			if strings.HasPrefix(v.Key, "vcs") || strings.HasPrefix(v.Key, "GO") || v.Key == "CGO_ENABLED" {
				fmt.Fprintf(&b, "%s=%s\n", v.Key, v.Value)
			}
		}
		for _, m := range info.Deps {
			fmt.Fprintf(&b, "%s %s\n", m.Path, m.Version)
		}
	}
	return b.String()
}

// environment lists the names of the variables that concern symdepot.
func environment(environ []string) string {
	var names []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{
			"SYMDEPOT_", "_NT_", "DEBUGINFOD_", "OTEL_", "PG", "AWS_", "GOOGLE_", "AZURE_", "HTTP_PROXY", "HTTPS_PROXY",
			"NO_PROXY", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG",
		} {
			if strings.HasPrefix(strings.ToUpper(name), prefix) {
				names = append(names, name)
				break
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n") + "\n"
}

// depotNumbers describes the depot.
func (c *Bundle) depotNumbers() (string, error) {
	i := &c.Patient.Depot
	b, err := json.MarshalIndent(map[string]any{
		"depot": i.Name, "contents": i.Contents, "database": i.Database.Database, "round_trip_microseconds": i.Database.RoundTrip.Microseconds(),
		"format": i.Database.Format, "known_format": i.Database.Known, "migrations": i.Database.Migrations,
		"stats": i.Stats, "check": i.Scrub, "faults": i.Faults, "disk_total": i.Total, "disk_free": i.Free,
	}, "", "  ")
	return string(b) + "\n", err
}

// lastLines returns the end of a file.
func lastLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-logEnd)
	b, err := io.ReadAll(io.NewSectionReader(f, from, logEnd))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if from > 0 {
		lines = lines[1:] // a part of a line
	}
	return lines, nil
}
