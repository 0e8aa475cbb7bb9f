package shipment

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// titles are the requirements in words, for tools that show a rule.
var titles = map[string]string{
	wire.RequireSymbols: "Debug information of exactly this file is stored",
	wire.RequireLines:   "The stored debug information has lines",
	wire.RequireUnwind:  "A stored file has unwind data",
	wire.RequireSources: "The sources that the debug information names are found",
	wire.RequireProgram: "The file itself is stored, for dumps",
}

// The parts of JUnit's XML that readers of results agree on (Jenkins' xunit plugin, junit-10.xsd).
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Classname string        `xml:"classname,attr"`
		Skipped   *junitMessage `xml:"skipped"`
		Failure   *junitMessage `xml:"failure"`
	}
	junitMessage struct {
		Message string `xml:"message,attr,omitempty"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the report as JUnit's XML: a test for each file.
func (r *Report) JUnit() ([]byte, error) {
	s := junitSuite{Name: "symdepot check", Tests: len(r.Results), Cases: make([]junitCase, 0, len(r.Results))}
	for _, x := range r.sorted() {
		c := junitCase{Name: xmlText(x.Path), Classname: "symdepot.check." + x.Kind}
		switch {
		case x.Allowed != "":
			s.Skipped++
			c.Skipped = &junitMessage{Message: xmlText("allowed: " + x.Allowed)}
		case !x.Covered:
			s.Failures++
			c.Failure = &junitMessage{Message: xmlText(x.lacks()), Type: x.Gaps[0].Lacks, Text: xmlText(x.text())}
		}
		s.Cases = append(s.Cases, c)
	}
	b, err := xml.MarshalIndent(junitSuites{Name: s.Name, Tests: s.Tests, Failures: s.Failures, Suite: s}, "", " ")
	return append(append([]byte(xml.Header), b...), '\n'), err
}

// xmlText makes a text one that XML 1.0 can have.
func xmlText(s string) string { return term.Printable(strings.ToValidUTF8(s, "?")) }

// lacks lists the requirements that a file does not meet.
func (x *Result) lacks() string {
	var list []string
	for _, g := range x.Gaps {
		list = append(list, g.Lacks)
	}
	return "lacks " + strings.Join(list, ", ")
}

// text has the gaps of a file in lines.
func (x *Result) text() string {
	var list []string
	for _, g := range x.causes() {
		list = append(list, fmt.Sprintf("%s: %s. Next: %s.", g.Lacks, g.Why, g.Next))
	}
	return strings.Join(list, " ")
}

// sarif is the part of SARIF 2.1.0 (OASIS, sarif-v2.1.0-os) that is written.
type (
	sarif struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		URI     string      `json:"informationUri"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
)

// SARIF returns the report in the Static Analysis Results Interchange Format, version 2.1.0.
func (r *Report) SARIF() ([]byte, error) {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "symdepot check", Version: r.Tool, URI: "https://github.com/symdepot/symdepot"}
	index := map[string]int{}
	for i, what := range wire.Requirements {
		index[what] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{"symbols-" + what, sarifText{titles[what]}})
	}
	for _, x := range r.sorted() {
		for _, g := range x.causes() {
			run.Results = append(run.Results, sarifResult{
				RuleID: "symbols-" + g.Lacks, RuleIndex: index[g.Lacks], Level: "error",
				Message:      sarifText{fmt.Sprintf("%s: %s. Next: %s.", term.Printable(x.Path), g.Why, g.Next)},
				Locations:    []sarifLocation{{sarifPhysical{sarifArtifact{uriOf(disk(x.Path))}}}},
				Fingerprints: map[string]string{"symdepot/v1": g.Lacks + " " + strings.ToValidUTF8(x.Path, "?")},
			})
		}
	}
	b, err := json.MarshalIndent(sarif{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{run},
	}, "", " ")
	return append(b, '\n'), err
}

// uriOf returns a path on disk as a reference of RFC 3986: relative ones stay so.
func uriOf(path string) string {
	u := url.URL{Path: filepath.ToSlash(strings.ToValidUTF8(path, "?"))}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
		u.Path = "/" + strings.TrimPrefix(u.Path, "/")
	}
	return u.String()
}

// maxAnnotations is how many annotations are written: GitHub shows ten of a step.
const maxAnnotations = 50

// GitHub writes the gaps as annotations of GitHub Actions (its workflow commands).
func (r *Report) GitHub(w io.Writer) {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	n := 0
	for _, x := range r.sorted() {
		if x.Covered {
			continue
		}
		if n++; n > maxAnnotations {
			break
		}
		fmt.Fprintf(w, "::error file=%s,title=%s::%s\n", property.Replace(term.Printable(disk(x.Path))),
			property.Replace("symbols: "+x.lacks()), data.Replace(term.Printable(x.Path+": "+x.text())))
	}
}

// maxMarkdown is how many files a summary in Markdown lists: a summary of GitHub has at most 1 MiB.
const maxMarkdown = 500

// Markdown returns the report in GitHub's Markdown.
func (r *Report) Markdown() []byte {
	var b bytes.Buffer
	mark := "✅"
	if !r.Summary().Passed {
		mark = "❌"
	}
	fmt.Fprintf(&b, "### %s Symbols: %s\n\n", mark, markdownText(r.Line()))
	for _, s := range r.steps() {
		fmt.Fprintf(&b, "- **%s**, %s: %s\n", s.Lacks, term.Count(int64(len(s.files)), "file"), markdownText(s.Next))
	}
	if len(r.Results) > 0 {
		fmt.Fprintf(&b, "\n| File | Kind | Symbols | Lines | Unwind | Sources | Program | |\n|---|---|---|---|---|---|---|---|\n")
	}
	for i, x := range r.sorted() {
		if i == maxMarkdown {
			fmt.Fprintf(&b, "\n%d more files are not shown.\n", len(r.Results)-i)
			break
		}
		var last []string
		if x.Allowed != "" {
			last = append(last, "allowed: "+x.Allowed)
		}
		for _, g := range x.causes() {
			last = append(last, g.Why)
		}
		fmt.Fprintf(&b, "| %s | %s %s |", markdownText(x.Path), x.Kind, x.Arch)
		for _, what := range wire.Requirements {
			fmt.Fprintf(&b, " %s |", x.state(what))
		}
		fmt.Fprintf(&b, " %s |\n", markdownText(strings.Join(last, "; ")))
	}
	return b.Bytes()
}

// markdownText makes a text one line of a table without markup.
func markdownText(s string) string {
	var b strings.Builder
	for _, c := range xmlText(s) {
		if strings.ContainsRune("\\`*_{}[]<>()#+!|~&@", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Badge returns an image in SVG with the share of covered files.
func (r *Report) Badge() []byte {
	s := r.Summary()
	color := "#2a7d3f"
	switch {
	case !s.Passed && s.Percent < 50:
		color = "#b3261e"
	case !s.Passed:
		color = "#9a6700"
	}
	const name = "symbols"
	value := fmt.Sprintf("%v %%", s.Percent)
	left, right := 10+7*len(name), 10+7*len(value)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s">
<title>%[2]s: %[3]s</title>
<rect width="%[4]d" height="20" fill="#555"/><rect x="%[4]d" width="%[5]d" height="20" fill="%[6]s"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="%[7]d" y="14">%[2]s</text><text x="%[8]d" y="14">%[3]s</text></g>
</svg>
`, left+right, name, value, left, right, color, left/2, left+right/2)
}

// disk returns the path on disk of a file that may be a member of an archive.
func disk(path string) string {
	outer, _, _ := strings.Cut(path, scan.Separator)
	return outer
}
