package oidc

import (
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// Build is what the claims of a token say about the job that made the files.
type Build struct {
	CI      string `json:"ci,omitempty"` // "github", "gitlab" or empty
	URL     string `json:"url,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Run     string `json:"run,omitempty"`
	Attempt string `json:"attempt,omitempty"`
}

type facts struct {
	Build
	name string // of the principal
}

// hostedGitHub is the issuer of github.com; Enterprise Cloud adds a segment.
const hostedGitHub = "https://token.actions.githubusercontent.com"

// buildOf reads the claims of GitHub Actions (documentation of GitHub, OpenID
// Connect reference) and of GitLab (documentation of GitLab, ID tokens).
func buildOf(c Claims) facts {
	issuer := c.text("iss")
	at := ""
	if ref := c.text("ref"); ref != "" {
		at = "@" + ref
	}
	switch repository, project := c.text("repository"), c.text("project_path"); {
	case repository != "" && c.text("run_id") != "":
		b := Build{CI: "github", Commit: c.text("sha"), Run: c.text("run_id"), Attempt: c.text("run_attempt")}
		server, enterprise := strings.CutSuffix(issuer, "/_services/token")
		if issuer == hostedGitHub || strings.HasPrefix(issuer, hostedGitHub+"/") {
			server, enterprise = "https://github.com", true
		}
		if enterprise {
			b.URL = below(server, repository, "actions", "runs", b.Run)
		}
		return facts{b.short(), "oidc:github:" + repository + at}
	case project != "" && c.text("pipeline_id") != "":
		b := Build{CI: "gitlab", Commit: c.text("sha"), Run: c.text("pipeline_id"), Attempt: c.text("job_id")}
		b.URL = below(issuer, project, "-", "pipelines", b.Run)
		return facts{b.short(), "oidc:gitlab:" + project + at}
	}
	if sub := c.text("sub"); sub != "" {
		return facts{Build{Commit: c.text("sha")}.short(), "oidc:" + sub}
	}
	return facts{}
}

// short omits values that a transaction has no space for, or that cannot be
// printed.
func (b Build) short() Build {
	for _, s := range []*string{&b.Commit, &b.Run, &b.Attempt} {
		if len(*s) > maxLabel || !truncate.Printable(*s) {
			*s = ""
		}
	}
	if len(b.URL) > maxPattern {
		b.URL = ""
	}
	return b
}

// below returns a URL below that of a server. The first element may have slashes.
func below(server string, elem ...string) string {
	u, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err != nil {
		return ""
	}
	u.Path += "/" + strings.Join(elem, "/")
	return u.String()
}
