package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	current "github.com/symdepot/symdepot/internal/run/version"
)

// version is the version of a release.
type version struct {
	short   string // in the names of files and packages: 1.2.0, or 1.2.0-pre7
	full    string // what the program prints: short, with the commit unless it is tagged
	numbers string // three numbers, for Windows Installer: 1.2.0
}

// tagged is the name of a tag of a release.
var tagged = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(-[0-9A-Za-z]+)?$`)

// versionOf returns the version of the current commit, and the time of the commit. A
// commit with a tag has the tag's version; any other one is preN of version.Number,
// N commits behind the newest tag, and dirty if files were changed since. With a named
// version and a time in epoch, in seconds, no git is needed.
func versionOf(ctx context.Context, named, epoch string) (version, time.Time, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var err error
	if epoch == "" {
		if epoch, err = git("log", "-1", "--format=%ct"); err != nil {
			return version{}, time.Time{}, err
		}
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return version{}, time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(n, 0).UTC()
	if named != "" {
		v, err := tagVersion(named, "")
		return v, at, err
	}
	commit, err := git("rev-parse", "--short=9", "HEAD")
	if err != nil {
		return version{}, time.Time{}, err
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return version{}, time.Time{}, err
	}
	if changed != "" {
		commit += ".dirty"
	}
	tag := ""
	var since string
	if text, err := git("describe", "--tags", "--match=v[0-9]*", "--long"); err == nil {
		// TAG-COMMITS-gCOMMIT
		rest, _, _ := cutLast(text, "-")
		tag, since, _ = cutLast(rest, "-")
	} else if since, err = git("rev-list", "--count", "HEAD"); err != nil {
		return version{}, time.Time{}, err
	}
	commits, err := strconv.Atoi(since)
	if err != nil {
		return version{}, time.Time{}, err
	}
	if changed == "" && commits == 0 {
		commit = ""
	}
	v, err := newVersion(current.Number, tag, commits, commit)
	return v, at, err
}

// newVersion returns the version of a commit in a tree whose next release is number. The
// commit is some commits behind a tag; without a tag, the tag is empty. commit is empty for
// the tag itself.
func newVersion(number, tag string, commits int, commit string) (version, error) {
	if tag == "" {
		return tagVersion(fmt.Sprintf("%s-pre%d", number, commits), commit)
	}
	last, err := tagVersion(tag, commit)
	switch {
	case err != nil:
		return version{}, err
	case commits == 0 && last.numbers == number:
		return last, nil
	case commits == 0:
		return version{}, fmt.Errorf("the tag %s, but internal/run/version/version.go has Number %s: "+
			"set Number and the first heading of CHANGELOG.md to %s, and tag that commit", tag, number, last.numbers)
	case last.numbers == number && !strings.Contains(last.short, "-"):
		return version{}, fmt.Errorf("%s is released, at the tag %s: raise Number in internal/run/version/version.go "+
			"to the next version, and begin a heading for it in CHANGELOG.md", number, tag)
	}
	return tagVersion(fmt.Sprintf("%s-pre%d", number, commits), commit)
}

// tagVersion returns the version of a tag, with or without a v. commit is empty unless
// files differ from those of the tag.
func tagVersion(tag, commit string) (version, error) {
	m := tagged.FindStringSubmatch(tag)
	if m == nil {
		return version{}, fmt.Errorf("the version %q: want 1.2.3 or 1.2.3-rc1", tag)
	}
	v := version{numbers: m[1]}
	v.short = v.numbers + m[2]
	v.full = v.short
	if commit != "" {
		v.full += "+g" + commit
	}
	return v, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
