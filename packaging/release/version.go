package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// version is the version of a release.
type version struct {
	short   string // in the names of files and packages: 1.2.0, or 1.2.0-pre7
	full    string // what the program prints: short, with the commit unless it is tagged
	numbers string // three numbers, for Windows Installer: 1.2.0
}

// tagged is the name of a tag of a release.
var tagged = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z]+)?$`)

// versionOf returns the version of the current commit, and the time of the commit. A
// commit with a tag has the tag's version; one that is N commits behind it is preN
// of the next version, and dirty if files were changed since. With a named version
// and a time in epoch, in seconds, no git is needed.
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
		v, err := newVersion(named, 0, "")
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
	tag := "v0.0.0"
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
	v, err := newVersion(tag, commits, commit)
	return v, at, err
}

// newVersion returns the version of a commit that is some commits behind a tag.
// commit is empty for the tag itself.
func newVersion(tag string, commits int, commit string) (version, error) {
	m := tagged.FindStringSubmatch(tag)
	if m == nil {
		return version{}, fmt.Errorf("the version %q: want 1.2.3 or 1.2.3-rc1", tag)
	}
	major, minor, patch, pre := m[1], m[2], m[3], m[4]
	if commits > 0 {
		if tag != "v0.0.0" && pre == "" { // after 1.2.3 comes 1.2.4
			n, err := strconv.Atoi(patch)
			if err != nil {
				return version{}, err
			}
			patch = strconv.Itoa(n + 1)
		}
		pre = "-pre" + strconv.Itoa(commits)
	}
	v := version{numbers: major + "." + minor + "." + patch}
	v.short = v.numbers + pre
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
