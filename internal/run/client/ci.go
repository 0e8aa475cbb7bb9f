package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// CI is a continuous integration system, and what it says of the running job.
// The zero value stands for none.
type CI struct {
	wire.PushCIJob
	// Product and Version are what the system's own uploader files symbols under.
	Product, Version string
	job              string
	getenv           func(string) string
}

// DetectCI looks for the environment variables that GitHub Actions, GitLab,
// Azure Pipelines and Jenkins document.
func DetectCI(getenv func(string) string) CI {
	c := CI{getenv: getenv}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		c.PushCIJob = wire.PushCIJob{
			CI: "github", Commit: getenv("GITHUB_SHA"), Run: getenv("GITHUB_RUN_ID"), Attempt: getenv("GITHUB_RUN_ATTEMPT"),
			URL: getenv("GITHUB_SERVER_URL") + "/" + getenv("GITHUB_REPOSITORY") + "/actions/runs/" + getenv("GITHUB_RUN_ID"),
		}
		c.job = getenv("GITHUB_REPOSITORY") + "/" + getenv("GITHUB_JOB")
	case getenv("GITLAB_CI") == "true":
		c.PushCIJob = wire.PushCIJob{
			CI: "gitlab", Commit: getenv("CI_COMMIT_SHA"), Run: getenv("CI_PIPELINE_ID"), Attempt: getenv("CI_JOB_ID"),
			URL: getenv("CI_JOB_URL"),
		}
		c.job = getenv("CI_PROJECT_PATH") + "/" + getenv("CI_JOB_NAME")
	case strings.EqualFold(getenv("TF_BUILD"), "true"):
		c.PushCIJob = wire.PushCIJob{
			CI: "azure", Commit: getenv("BUILD_SOURCEVERSION"), Run: getenv("BUILD_BUILDID"), Attempt: getenv("SYSTEM_JOBATTEMPT"),
			URL: getenv("SYSTEM_COLLECTIONURI") + getenv("SYSTEM_TEAMPROJECT") + "/_build/results?buildId=" + getenv("BUILD_BUILDID"),
		}
		c.Product, c.Version = getenv("BUILD_DEFINITIONNAME"), getenv("BUILD_BUILDNUMBER")
		c.job = getenv("SYSTEM_TEAMPROJECT") + "/" + cmp.Or(getenv("SYSTEM_JOBIDENTIFIER"), getenv("SYSTEM_JOBNAME"))
	case getenv("JENKINS_URL") != "" && getenv("BUILD_NUMBER") != "":
		c.PushCIJob = wire.PushCIJob{
			CI: "jenkins", Commit: getenv("GIT_COMMIT"), Run: getenv("BUILD_NUMBER"), URL: getenv("BUILD_URL"),
		}
		c.job = getenv("JOB_NAME") + "/" + getenv("STAGE_NAME")
	}
	return c
}

// Spec completes the description of a push of these paths by what the system says.
func (c CI) Spec(spec wire.PushSpec, paths []string) wire.PushSpec {
	spec.Product, spec.Version = cmp.Or(spec.Product, c.Product), cmp.Or(spec.Version, c.Version)
	if c.CI != "" {
		spec.CIJob = &c.PushCIJob
	}
	spec.Key = cmp.Or(spec.Key, c.Key(spec, paths))
	return spec
}

// Key returns the key of a push by the job: another attempt of the job has the
// same key, so that it goes on in the same stage. It is empty outside of CI.
func (c CI) Key(spec wire.PushSpec, paths []string) string {
	if c.CI == "" || c.Run == "" {
		return ""
	}
	// Jobs of a matrix have one name; most differ in these.
	parts := append([]string{runtime.GOOS, runtime.GOARCH, spec.Product, spec.Version, spec.Branch, spec.Class}, paths...)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	key := c.CI + "/" + c.job + "/" + c.Run
	return key[:min(len(key), 256)] + "/" + hex.EncodeToString(sum[:8])
}

// Failed writes an error as the system marks errors in its log.
func (c CI) Failed(w io.Writer, err error) {
	text := endpoint.Printable(err.Error())
	switch c.CI {
	case "github":
		fmt.Fprintln(w, "::error::"+strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text))
	case "azure":
		fmt.Fprintln(w, "##vso[task.logissue type=error]"+text)
	}
}

// Done passes the number of a transaction to later steps of the job: as the
// output "transaction" and in the summary of GitHub Actions, as the variable
// symdepotTransaction of Azure Pipelines, and as SYMDEPOT_TRANSACTION in envFile,
// unless that is empty.
func (c CI) Done(w io.Writer, envFile string, r PushResult) error {
	number := fmt.Sprint(r.Transaction)
	add := map[string]string{envFile: "SYMDEPOT_BUILD=" + number + "\n"}
	switch c.CI {
	case "github":
		add[c.getenv("GITHUB_OUTPUT")] = "build=" + number + "\n"
		add[c.getenv("GITHUB_STEP_SUMMARY")] = fmt.Sprintf("Symbols: build %s, %d files\n", number, r.Files)
	case "azure":
		fmt.Fprintln(w, "##vso[task.setvariable variable=symdepotBuild]"+number)
	}
	delete(add, "")
	for name, text := range add {
		f, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
