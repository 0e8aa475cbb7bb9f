package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// scriptCommands are the commands of the scripts that are no programs.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"serve":   cmdServe,
		"exits":   cmdExits,
		"append":  cmdAppend,
		"touch":   cmdTouch,
		"envfile": cmdEnvFile,
		"plan":    cmdPlan,
		"without": cmdWithout,
		"same":    cmdSame,
		"await":   cmdAwait,
	}
}

// cmdExits is `exits CODE PROGRAM [ARGUMENT...]`: it runs a program as exec does
// and expects an exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%q: exit code %d, want %d", args[1:], got, want)
	}
}

// cmdAwait is `await SECONDS PROGRAM [ARGUMENT...]`: it runs a program again and again until it
// succeeds, which must happen within the time.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await SECONDS PROGRAM [ARGUMENT...]")
	}
	seconds, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var last error
	if symtest.Poll(ctx, func() bool { last = ts.Exec(args[1], args[2:]...); return last == nil }) != nil {
		ts.Fatalf("%q has not succeeded within %d s: %v", args[1:], seconds, last)
	}
}

// cmdSame is `same PROGRAM COMMAND [ARGUMENT...]`: it runs a command on the depot of this
// machine and on that of the server at $URL, and expects the same output and exit code.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: same PROGRAM COMMAND [ARGUMENT...]")
	}
	run := func(args ...string) string {
		out := "done"
		if err := ts.Exec(args[0], args[1:]...); err != nil {
			out = err.Error()
		}
		return ts.ReadFile("stdout") + ts.ReadFile("stderr") + out
	}
	here := run(args...)
	there := run(append([]string{args[0], args[1], "--server", ts.Getenv("URL")}, args[2:]...)...)
	if here != there {
		ts.Fatalf("%q: of the depot\n%s\nof the server\n%s", args[1:], here, there)
	}
}

// cmdWithout is `without PREFIX FILE`: it removes the one line that begins with a text.
func cmdWithout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: without PREFIX FILE")
	}
	var kept []string
	removed := 0
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if strings.HasPrefix(line, args[0]) {
			removed++
			continue
		}
		kept = append(kept, line)
	}
	if removed != 1 {
		ts.Fatalf("%s: %d lines begin with %q, want one", args[1], removed, args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(kept, "")), 0o644))
}

// cmdAppend is `append FILE TEXT`: it writes a text behind a file's content.
func cmdAppend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append FILE TEXT")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_APPEND, 0)
	ts.Check(err)
	_, err = f.WriteString(args[1])
	ts.Check(errors.Join(err, f.Close()))
}

// cmdEnvFile is `envfile NAME FILE`: it sets a variable to a file's content
// without the line end.
func cmdEnvFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: envfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimRight(ts.ReadFile(args[1]), "\r\n"))
}

// cmdTouch is `touch TIME FILE...`: it sets the times of a file's last access and
// last modification.
func cmdTouch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: touch TIME FILE...")
	}
	at, err := time.Parse(time.RFC3339, args[0])
	ts.Check(err)
	for _, name := range args[1:] {
		ts.Check(os.Chtimes(ts.MkAbs(name), at, at))
	}
}

// cmdPlan is `plan NAME`: it sets a variable to the number of the plan that the last
// program has printed as JSON.
func cmdPlan(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plan NAME")
	}
	var p struct{ Plan string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &p))
	ts.Setenv(args[0], p.Plan)
}
