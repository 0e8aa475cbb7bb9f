package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// ciServer is a server that wants tokens, and a build in the folder out, for the files
// in ci.
type ciServer struct {
	dir, depot string
	env        []string // with the URL and a token that may write
	url        string
}

func newCIServer(t *testing.T) *ciServer {
	t.Helper()
	symtest.Tool(t, "bash")
	s := &ciServer{dir: t.TempDir()}
	s.depot = filepath.Join(s.dir, "depot")
	code, token, errs := commandtest.Symdepot(t, s.depot, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read")
	if code != command.ExitOK {
		t.Fatalf("token new: exit code %d, want 0: %s", code, errs)
	}
	env := map[string]string{"SYMDEPOT_DEPOT": s.depot, "PATH": os.Getenv("PATH"), "HOME": s.dir}
	srv, err := commandtest.StartServe(func(k string) string { return env[k] }, s.dir, "--auth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	})
	s.url = srv.URL
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "SYMDEPOT_SERVER=" + s.url, "SYMDEPOT_TOKEN=" + strings.TrimSpace(token)}
	s.write(t, "out/hello.exe", symtest.Testdata(t, "pdb/hello-x64.exe"))
	s.write(t, "out/hello.pdb", symtest.Testdata(t, "pdb/hello-x64.pdb"))
	return s
}

func (s *ciServer) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a script as the agents of job systems do.
func (s *ciServer) run(t *testing.T, script string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = s.dir, slices.Concat(s.env, env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return string(out)
}

// checked checks that the result of a check is kept beside build 1: so many files, all covered.
func (s *ciServer) checked(t *testing.T, files int64) {
	t.Helper()
	code, out, errs := commandtest.Symdepot(t, s.depot, "show", "--json", "1")
	var tx struct{ Coverage wire.BuildCoverage }
	first, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &tx); code != command.ExitOK || err != nil {
		t.Fatalf("show: exit code %d, %v, %s%s; want a build", code, err, out, errs)
	}
	if c := tx.Coverage; c.Files != files || c.Covered != files {
		t.Errorf("the coverage of the build is %+v, want that of %d covered files", c, files)
	}
}

// pushed checks that the newest transaction has a product, a version and a number of objects.
func (s *ciServer) pushed(t *testing.T, product, version string, files int) {
	t.Helper()
	code, out, errs := commandtest.Symdepot(t, s.depot, "list", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var tx struct {
		Product, Version string
		Objects          int `json:"files"`
	}
	// The newest one comes first.
	if err := json.Unmarshal([]byte(lines[0]), &tx); code != command.ExitOK || err != nil {
		t.Fatalf("list: exit code %d, %v, %s%s; want a build", code, err, out, errs)
	}
	if tx.Product != product || tx.Version != version || tx.Objects != files {
		t.Errorf("the last build is %+v, want product %s, version %s and %d files", tx, product, version, files)
	}
}

func readCI(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "ci", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readCI(t, name)), to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// fill replaces the expressions of a job system by values. Each must have one.
func fill(t *testing.T, text string, expression *regexp.Regexp, values map[string]string) string {
	t.Helper()
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		v, ok := values[name]
		if !ok {
			t.Errorf("%s: the test has no value for it", e)
		}
		return v
	})
}

var (
	dollarBraces = regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)
	dollarParens = regexp.MustCompile(`\$\(([A-Za-z.]+)\)`)
)

// step is a step of a composite action.
type step struct {
	ID, Run string
	Env     map[string]string
}

func TestCIGitHub(t *testing.T) {
	t.Parallel()
	s := newCIServer(t)
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []step }
	}
	readYAML(t, "github/action.yml", &action)
	values := map[string]string{"github.action_path": "/actions/symdepot/ci/github", "github.ref_name": "v1.0"}
	for name, in := range action.Inputs {
		values["inputs."+name] = fill(t, in.Default, dollarBraces, values)
	}
	values["inputs.server"], values["inputs.product"], values["inputs.path"] = s.url, "Game", "out/hello.exe\nout/hello.pdb\n"
	values["inputs.ships"], values["steps.push.outputs.build"] = "out/hello.exe\n", "1"
	for _, e := range s.env {
		if token, ok := strings.CutPrefix(e, "SYMDEPOT_TOKEN="); ok {
			values["inputs.token"] = token
		}
	}
	output, path := s.write(t, "output", nil), s.write(t, "path", nil)
	for _, st := range action.Runs.Steps {
		if strings.Contains(st.Run, "${{") {
			t.Errorf("the script of a step has an expression, by which an input could be run as a command: %s", st.Run)
		}
		env := []string{"GITHUB_ACTIONS=true", "GITHUB_OUTPUT=" + output, "GITHUB_PATH=" + path, "RUNNER_TEMP=" + s.dir,
			"GITHUB_STEP_SUMMARY=" + filepath.Join(s.dir, "summary"), "GITHUB_RUN_ID=1", "GITHUB_RUN_ATTEMPT=1", "GITHUB_REPOSITORY=o/r", "GITHUB_JOB=j"}
		for _, k := range slices.Sorted(maps.Keys(st.Env)) {
			env = append(env, k+"="+fill(t, st.Env[k], dollarBraces, values))
		}
		s.run(t, st.Run, env...)
		if st.ID == "" { // on an agent without symdepot it is built
			s.write(t, "bin/go", []byte("#!/bin/sh\necho \"$@\" >go.args\n"))
			s.run(t, "chmod +x bin/go; PATH=$PWD/bin:/usr/bin:/bin; "+st.Run, env...)
		}
	}
	s.pushed(t, "Game", "v1.0", 2)
	s.checked(t, 1)
	for name, want := range map[string]string{"output": "build=1\n", "path": s.dir + "/symdepot\n", "go.args": "build -C /actions/symdepot/ci/github/../.. -trimpath -o " + s.dir + "/symdepot/ ./cmd/symdepot\n"} {
		if have, err := os.ReadFile(filepath.Join(s.dir, name)); string(have) != want {
			t.Errorf("%s: %q, %v; want %q", name, have, err, want)
		}
	}
}

func TestCIGitLab(t *testing.T) {
	t.Parallel()
	s := newCIServer(t)
	var file map[string]struct {
		Variables map[string]string
		Script    []string
	}
	readYAML(t, "gitlab.yml", &file)
	job := file[".symdepot-push"]
	job.Variables["SYMBOLS"], job.Variables["SHIPS"] = "out/", "out/hello.exe"
	script := "export CI_PROJECT_NAME=Game CI_COMMIT_REF_NAME=main CI_PIPELINE_IID=7\n"
	for k, v := range job.Variables {
		script += "export " + k + "=\"" + v + "\"\n"
	}
	s.run(t, script+strings.Join(job.Script, "\n"))
	s.pushed(t, "Game", "main-7", 2)
	s.checked(t, 1)
	if env, err := os.ReadFile(filepath.Join(s.dir, "symdepot.env")); string(env) != "SYMDEPOT_BUILD=1\n" {
		t.Errorf("symdepot.env: %q, %v; want the number of the build", env, err)
	}
}

func TestCIAzure(t *testing.T) {
	t.Parallel()
	s := newCIServer(t)
	var file struct {
		Parameters []struct{ Name, Default string }
		Steps      []struct {
			Bash string
			Env  map[string]string
		}
	}
	readYAML(t, "azure-pipelines.yml", &file)
	values := map[string]string{"Build.BuildNumber": "20261123.1", "Build.SourceBranchName": "main", "Build.ArtifactStagingDirectory": filepath.Join(s.dir, "out")}
	for _, p := range file.Parameters {
		values["parameters."+p.Name] = fill(t, p.Default, dollarParens, values)
	}
	values["parameters.server"], values["parameters.product"], values["parameters.ships"] = s.url, "Game", "out/hello.exe"
	for _, st := range file.Steps {
		env := []string{"TF_BUILD=True"}
		for k, v := range st.Env {
			if k != "SYMDEPOT_TOKEN" { // s.run has one
				env = append(env, k+"="+fill(t, v, dollarBraces, values))
			}
		}
		out := s.run(t, fill(t, st.Bash, dollarParens, values), env...)
		if _, set := values["symdepotBuild"]; !set && !strings.Contains(out, "variable=symdepotBuild]1") {
			t.Errorf("the output of the first step does not set symdepotBuild: %s", out)
		}
		values["symdepotBuild"] = "1"
	}
	s.pushed(t, "Game", "20261123.1", 2)
	s.checked(t, 1)
}

func TestCIJenkins(t *testing.T) {
	t.Parallel()
	s := newCIServer(t)
	scripts := regexp.MustCompile(`(?s)\bsh '''(.*?)'''`).FindAllStringSubmatch(readCI(t, "Jenkinsfile"), -1)
	if len(scripts) != 1 {
		t.Fatalf("%d scripts in the Jenkinsfile, want one", len(scripts))
	}
	s.write(t, "dist/hello.exe", symtest.Testdata(t, "pdb/hello-x64.exe"))
	s.run(t, scripts[0][1], "JENKINS_URL=http://ci", "JOB_BASE_NAME=Game", "BUILD_NUMBER=42", "BUILD_TAG=jenkins-Game-42")
	s.pushed(t, "Game", "42", 2)
	s.checked(t, 1)
}

// TestCIBuildGraph: the file is XML, and the command that it spawns pushes. BuildGraph
// itself is a part of Unreal and does not run here.
func TestCIBuildGraph(t *testing.T) {
	t.Parallel()
	s := newCIServer(t)
	var file struct {
		Option []struct {
			Name         string `xml:",attr"`
			DefaultValue string `xml:",attr"`
		}
		Macro []struct {
			Arguments string `xml:",attr"`
			Spawn     struct {
				Exe       string `xml:",attr"`
				Arguments string `xml:",attr"`
			}
		}
	}
	if err := xml.Unmarshal([]byte(readCI(t, "BuildGraph.xml")), &file); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"Folder": "out", "Ships": "out/hello.exe", "Product": "Game", "Version": "1234"}
	for _, macro := range file.Macro {
		for name := range strings.SplitSeq(macro.Arguments, ";") {
			if values[name] == "" {
				t.Errorf("the macro has an argument %s for which the test has no value", name)
			}
		}
	}
	for _, o := range file.Option {
		values[o.Name] = o.DefaultValue
	}
	values["SymdepotServer"] = s.url
	for _, macro := range file.Macro {
		s.run(t, fill(t, macro.Spawn.Exe+" "+macro.Spawn.Arguments, dollarParens, values))
	}
	s.pushed(t, "Game", "1234", 2)
	s.checked(t, 1)
}

// TestCIMSBuild: the file is XML, and Mono's xbuild runs its target where it is installed.
func TestCIMSBuild(t *testing.T) {
	t.Parallel()
	text := readCI(t, "symdepot.targets")
	for dec := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	s := newCIServer(t)
	symtest.Tool(t, "xbuild")
	s.write(t, "symdepot.targets", []byte(text))
	s.write(t, "Game.proj", []byte(`<Project xmlns="http://schemas.microsoft.com/developer/msbuild/2003">
  <PropertyGroup><OutDir>out/</OutDir><Version>3.1</Version></PropertyGroup>
  <Import Project="symdepot.targets"/>
</Project>`))
	s.run(t, "xbuild /nologo /v:m /t:'PushSymbols;CheckSymbols' /p:SymdepotServer=$SYMDEPOT_SERVER Game.proj")
	s.pushed(t, "Game", "3.1", 2)
}

func TestCICMake(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"cmake", "make", "gcc"} {
		symtest.Tool(t, tool)
	}
	s := newCIServer(t)
	s.write(t, "symdepot.cmake", []byte(readCI(t, "symdepot.cmake")))
	s.write(t, "game.c", []byte("int main(void) { return 0; }\n"))
	s.write(t, "CMakeLists.txt", []byte(`cmake_minimum_required(VERSION 3.20)
project(Game VERSION 2.5 LANGUAGES C)
add_executable(game game.c)
target_compile_options(game PRIVATE -g)
target_link_options(game PRIVATE -Wl,--build-id)
include(symdepot.cmake)
symdepot_push(game)
symdepot_check("${CMAKE_BINARY_DIR}/game" REQUIRE symbols,lines)
`))
	s.run(t, "cmake -S . -B build && cmake --build build --target push-symbols && cmake --build build --target check-symbols")
	s.pushed(t, "Game", "2.5", 1)
}
