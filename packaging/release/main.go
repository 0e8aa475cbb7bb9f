// Command release builds everything that is published of one commit: archives,
// packages for Linux, a container image, an installer for Windows, manifests of
// package managers, the list of components, and checksums. The same commit gives the
// same bytes, in any folder and at any time. Without git, -version and the variable
// SOURCE_DATE_EPOCH say what it would.
//
//	go run ./packaging/release [-out DIR] [-platforms linux/amd64,...] [-only WHAT,...] [-level N] [-pgo FILE]
//
// It needs Go, git, and the module proxy for the tools that make packages and the
// list of components. The installer is made by wixl; without it, it is left out,
// which the output says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Versions of what is run or taken from the module proxy.
const (
	nfpm      = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2" // newer ones need modules that not every proxy has
	cyclonedx = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
	roots     = "golang.org/x/crypto/x509roots/fallback@v0.0.0-20261030153154-30a33513ff6d"
)

// all lists what can be made, in the order of making.
var all = []string{"archive", "packages", "sbom", "image", "installer", "manifests"}

// everywhere lists the platforms.
var everywhere = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// release is one run.
type release struct {
	ctx     context.Context
	out     string // folder of the results
	temp    string // folder of what they are made of; removed at the end
	version version
	at      time.Time // of the commit: the time of every file
	only    []string
	where   []platform
	level   int    // of gzip and deflate, from 1 to 9
	profile string // that the compiler optimizes for; "off": none
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	r := release{ctx: ctx}
	var platforms, only, named string
	flag.StringVar(&r.out, "out", filepath.Join("dist", "release"), "folder to write to; it is emptied first")
	flag.StringVar(&platforms, "platforms", "all", "platforms, such as linux/amd64,darwin/arm64")
	flag.StringVar(&only, "only", strings.Join(all, ","), "what to make")
	flag.StringVar(&named, "version", "", "version; default: that of internal/run/version, and the number of commits since the newest tag")
	flag.IntVar(&r.level, "level", 6,
		"level of compression, from 1 (fast) to 9; 9 takes three times as long as 6 and makes packages 0.4 to 3 % smaller")
	flag.StringVar(&r.profile, "pgo", "packaging/release/release.pgo",
		"profile that the compiler optimizes for; off: none, and packages that are compiled already are not compiled anew")
	flag.Parse()
	if r.level < 1 || r.level > 9 {
		return fmt.Errorf("-level %d: want 1 to 9", r.level)
	}
	r.only = strings.Split(only, ",")
	for _, what := range r.only {
		if !slices.Contains(all, what) {
			return fmt.Errorf("-only %s: can make %s", what, strings.Join(all, ", "))
		}
	}
	for _, p := range everywhere {
		if platforms == "all" || slices.Contains(strings.Split(platforms, ","), p.String()) {
			r.where = append(r.where, p)
		}
	}
	if len(r.where) == 0 || platforms != "all" && len(r.where) != len(strings.Split(platforms, ",")) {
		return fmt.Errorf("-platforms %s: want some of %v", platforms, everywhere)
	}
	var err error
	if r.version, r.at, err = versionOf(ctx, named, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.temp, err = os.MkdirTemp("", "symdepot-release-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.temp) }()
	fmt.Printf("symdepot %s, %s\n", r.version.full, r.at.Format(time.RFC3339))
	return r.make()
}

// timed runs one step and prints what it was and how long it took.
func timed(what string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Printf("%s: %.1f s\n", what, time.Since(began).Seconds())
	return nil
}

// make makes everything.
func (r *release) make() error {
	if err := writeBook(r.book()); err != nil {
		return err
	}
	docs := filepath.Join(r.temp, "docs")
	fmt.Println("manual: begun; it compiles the program for this machine first")
	if err := timed("manual", func() error { return r.manual(docs) }); err != nil {
		return err
	}
	// Two at once: the linker uses one core for most of its time.
	err := inParallel(min(2, runtime.NumCPU()), r.where, func(p platform) error {
		fmt.Printf("%s: begun\n", p)
		return timed(p.String()+": finished", func() error {
			if err := timed(p.String()+" program", func() error { return r.stage(p, docs) }); err != nil {
				return err
			}
			return r.forPlatform(p)
		})
	})
	if err != nil {
		return err
	}
	if r.makes("image") && slices.ContainsFunc(r.where, func(p platform) bool { return p.os == "linux" }) {
		if err := timed("image", r.image); err != nil {
			return err
		}
	}
	if r.makes("manifests") {
		if err := timed("manifests", r.manifests); err != nil {
			return err
		}
	}
	return r.checksums()
}

// forPlatform makes what is made of one platform's program.
func (r *release) forPlatform(p platform) error {
	steps := []struct {
		what string
		os   string // empty: every system
		make func(platform) error
	}{
		{"archive", "", r.archive}, {"sbom", "", r.sbom}, {"packages", "linux", r.packages}, {"installer", "windows", r.installer},
	}
	for _, s := range steps {
		if r.makes(s.what) && (s.os == "" || s.os == p.os) {
			if err := timed(p.String()+" "+s.what, func() error { return s.make(p) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) makes(what string) bool { return slices.Contains(r.only, what) }

// staged is the folder of what was built for a platform.
func (r *release) staged(p platform) string { return filepath.Join(r.temp, p.os+"-"+p.arch) }

// book is the folder of the documentation.
func (r *release) book() string { return filepath.Join(r.temp, "book") }

// file is the path of a result: symdepot-VERSION and an end.
func (r *release) file(end string) string {
	return filepath.Join(r.out, "symdepot-"+r.version.short+end)
}

// inParallel calls f for each item, at most n at once, and returns all errors.
func inParallel[T any](n int, items []T, f func(T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	slots := make(chan struct{}, n)
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(item)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// command runs a program with further variables of the environment. If it fails, the
// error has its output.
func (r *release) command(env []string, name string, args ...string) error {
	return r.commandIn("", env, name, args...)
}

// commandIn is command in a folder.
func (r *release) commandIn(dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"CGO_ENABLED=0", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix())}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// tool runs a program from the module proxy in a folder, built for this machine.
func (r *release) tool(dir string, env []string, module string, args ...string) error {
	return r.commandIn(dir, append(env, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH), "go", append([]string{"run", module}, args...)...)
}
