package cluster

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestBucketKeys: with a key that is wrong, that only reads or that has expired, what cannot
// be done is said in one clear line without the key, nothing that was kept is lost, and the
// right key goes on where it stopped. The stores are versitygw and Azurite.
func TestBucketKeys(t *testing.T) {
	t.Parallel()
	type keys struct {
		env   []string
		reads bool
		auth  string // an option of the URL
	}
	type store struct {
		blobs   string
		good    keys
		bad     map[string]keys
		secrets []string
	}
	s3, azure := buckettest.S3(t), buckettest.Azure(t)
	user, secret := s3.Reader(t)
	account := []string{"AZURE_STORAGE_ACCOUNT=" + azure.User}
	sas := func(permissions string, until time.Duration) []string {
		return append(account[:1:1], "AZURE_STORAGE_SAS_TOKEN="+azure.SAS(t, permissions, time.Now().Add(until)))
	}
	const wrong = "d3Jvbmcga2V5IHdyb25nIGtleQ=="
	for name, s := range map[string]store{
		"s3": {
			blobs: "s3://" + s3.Bucket + "/depot?endpoint=" + url.QueryEscape(s3.Endpoint),
			good:  keys{env: []string{"AWS_ACCESS_KEY_ID=" + s3.User, "AWS_SECRET_ACCESS_KEY=" + s3.Secret}},
			bad: map[string]keys{
				"wrong":        {env: []string{"AWS_ACCESS_KEY_ID=" + s3.User, "AWS_SECRET_ACCESS_KEY=" + wrong}},
				"unknown user": {env: []string{"AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=" + wrong}},
				"only reads":   {env: []string{"AWS_ACCESS_KEY_ID=" + user, "AWS_SECRET_ACCESS_KEY=" + secret}, reads: true},
				"none":         {env: []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}},
			},
			secrets: []string{s3.Secret, wrong, secret},
		},
		"azure": {
			blobs: "az://" + azure.User + "/" + azure.Bucket + "/depot?endpoint=" + url.QueryEscape(azure.Endpoint),
			good:  keys{env: append(account[:1:1], "AZURE_STORAGE_KEY="+azure.Secret), auth: "&auth=key"},
			bad: map[string]keys{
				"wrong":      {env: append(account[:1:1], "AZURE_STORAGE_KEY="+wrong), auth: "&auth=key"},
				"only reads": {env: sas("rl", time.Hour), reads: true, auth: "&auth=sas"},
				"expired":    {env: sas("racwdl", -time.Hour), auth: "&auth=sas"},
				"forged":     {env: append(account[:1:1], strings.Replace(sas("rl", time.Hour)[1], "sp=rl", "sp=racwdl", 1)), auth: "&auth=sas"},
			},
			secrets: []string{azure.Secret, wrong, "sig="},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "depot")
			run := func(what string, k keys, args ...string) (code int, out string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "symdepot", append([]string{"--depot", dir, "--blobs", s.blobs + k.auth}, args...)...)
				cmd.Env = append(os.Environ(), k.env...)
				b, _ := cmd.CombinedOutput()
				for _, secret := range append(s.secrets, url.QueryEscape(s.secrets[0])) {
					if strings.Contains(string(b), secret) {
						t.Errorf("%s: symdepot %s prints a secret:\n%s", what, args[0], b)
					}
				}
				return cmd.ProcessState.ExitCode(), string(b)
			}
			src1, src2 := t.TempDir(), t.TempDir()
			commandtest.SymFiles(t, src1, 1, 3, 100)
			commandtest.SymFiles(t, src2, 2, 3, 100)
			if code, out := run("good", s.good, "add", src1); code != 0 {
				t.Fatalf("add with the right key: exit %d\n%s", code, out)
			}
			for what, k := range s.bad {
				// The copies of this machine would hide what the store says.
				if err := os.RemoveAll(filepath.Join(dir, "local")); err != nil {
					t.Fatal(err)
				}
				if code, out := run(what, k, "add", src2); code == 0 || !strings.Contains(out, "refuses the credentials") && !strings.Contains(out, "too few rights") {
					t.Errorf("add with a key that is %s: exit %d, want a failure that names the credentials\n%s", what, code, out)
				}
				if code, out := run(what, k, "gc"); code == 0 && !k.reads {
					t.Errorf("gc with a key that is %s: exit 0, want a failure\n%s", what, out)
				}
				to := t.TempDir()
				code, out := run(what, k, "export", "--layout", "breakpad", to)
				if (code == 0) != k.reads {
					t.Errorf("export with a key that is %s: exit %d, want success: %v\n%s", what, code, k.reads, out)
				}
				if n := sameFiles(t, to, src1); k.reads && n != 3 {
					t.Errorf("export with a key that is %s: %d files, want 3", what, n)
				}
			}
			if code, out := run("good", s.good, "add", src2); code != 0 {
				t.Fatalf("add with the right key again: exit %d\n%s", code, out)
			}
			if code, out := run("good", s.good, "verify", "--deep"); code != 0 {
				t.Errorf("verify: exit %d, want 0\n%s", code, out)
			}
			to := t.TempDir()
			if code, out := run("good", s.good, "export", "--layout", "breakpad", to); code != 0 {
				t.Fatalf("export: exit %d\n%s", code, out)
			}
			if n := sameFiles(t, to, src1, src2); n != 6 {
				t.Errorf("%d files in the end, want 6", n)
			}
		})
	}
}

// sameFiles returns the number of files below a folder. Each must have the bytes of the file
// of its name in one of the sources.
func sameFiles(t *testing.T, dir string, sources ...string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".so.sym") {
			return err
		}
		n++
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, src := range sources {
			if want, err := os.ReadFile(filepath.Join(src, filepath.Base(path))); err == nil {
				if !bytes.Equal(got, want) {
					t.Errorf("%s differs from what was added", path)
				}
				return nil
			}
		}
		t.Errorf("%s was never added", path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
