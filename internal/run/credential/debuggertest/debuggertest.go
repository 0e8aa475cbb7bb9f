// Package debuggertest plays the debugger of Windows that asks a credential provider, as
// Microsoft's page on custom credential providers describes it. No genuine debugger runs in
// tests. Where the page leaves a choice, a field of Debugger has it.
package debuggertest

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ConfigName is the name of the file that names the folders of providers.
const ConfigName = "DbgCredentialProvider.config.xml"

// ErrDenied is wrapped when the server refuses the credentials, or no provider has any.
var ErrDenied = errors.New("access denied")

// Debugger is a debugger. Dir and HTTP are required.
type Debugger struct {
	Dir  string // the folder of the debugger, where the file ConfigName lies
	HTTP *http.Client
	// Silent: prompts are off. IsSilent: the request has issilent in place of interactive.
	Silent, IsSilent bool
	Window           int64     // the number of the debugger's window
	Operation        string    // the spelling of Get; empty: Get
	Log              io.Writer // what providers write to standard error, and why they failed
}

// Get downloads a symbol file. At a status 401 the debugger asks the providers and repeats the
// request, and after another 401 once more with isRetry.
func (d *Debugger) Get(ctx context.Context, file string) ([]byte, error) {
	body, status, err := d.send(ctx, file, "")
	for _, retry := range []bool{false, true} {
		if err != nil || status != http.StatusUnauthorized {
			break
		}
		var header string
		if header, err = d.credential(ctx, file, retry); err == nil {
			body, status, err = d.send(ctx, file, header)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusUnauthorized:
		return nil, fmt.Errorf("%w by the server", ErrDenied)
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d", status)
	}
	return body, nil
}

// send sends one request, with a value for the header field Authorization.
func (d *Debugger) send(ctx context.Context, file, authorization string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, file, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("User-Agent", "Microsoft-Symbol-Server/10.0.0.0")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == "" {
		return nil, 0, errors.New("status 401 without WWW-Authenticate")
	}
	body, err := io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}

// credential asks one provider after the other. The first success counts.
func (d *Debugger) credential(ctx context.Context, file string, retry bool) (string, error) {
	providers, err := d.Providers()
	if err != nil {
		return "", err
	}
	failed := fmt.Errorf("%w: no credential provider in %s", ErrDenied, d.Dir)
	for _, p := range providers {
		header, err := d.ask(ctx, p, file, retry)
		if err == nil {
			return header, nil
		}
		failed = fmt.Errorf("%w: %s: %w", ErrDenied, filepath.Base(p), err)
		fmt.Fprintln(d.Log, failed)
	}
	return "", failed
}

// Providers returns the paths of the providers of all folders, in their order.
func (d *Debugger) Providers() (paths []string, err error) {
	var settings struct {
		Folders []string `xml:"Folders>Folder"`
	}
	if err := readXML(filepath.Join(d.Dir, ConfigName), &settings); err != nil {
		return nil, err
	}
	for _, folder := range settings.Folders {
		folder = beside(d.Dir, folder)
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !strings.EqualFold(filepath.Ext(e.Name()), ".xml") {
				continue
			}
			var list struct {
				Providers []struct {
					APIVersion string `xml:"ApiVersion,attr"`
					Path       string `xml:",chardata"`
				} `xml:"CredentialProvider"`
			}
			if err := readXML(filepath.Join(folder, e.Name()), &list); err != nil {
				return nil, err
			}
			for _, p := range list.Providers {
				if p.APIVersion != "2.0.0" {
					return nil, fmt.Errorf("%s: ApiVersion %q, want 2.0.0", e.Name(), p.APIVersion)
				}
				paths = append(paths, beside(folder, p.Path))
			}
		}
	}
	return paths, nil
}

func readXML(name string, into any) error {
	text, err := os.ReadFile(name)
	if err == nil {
		err = xml.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// beside returns a path as Windows spells it, which is absolute or relative to a folder.
func beside(dir, name string) string {
	name = filepath.FromSlash(strings.ReplaceAll(strings.TrimSpace(name), `\`, "/"))
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// ask runs one provider, an EXE or a batch file (elsewhere than on Windows any executable
// file), and returns the value for the header field Authorization. The provider's input stays
// open until the provider has ended, as the empty line is the end of the request.
func (d *Debugger) ask(ctx context.Context, provider, file string, retry bool) (string, error) {
	u, err := url.Parse(file)
	if err != nil {
		return "", err
	}
	operation := d.Operation
	if operation == "" {
		operation = "Get"
	}
	cmd := exec.CommandContext(ctx, provider, operation)
	cmd.Stderr = d.Log
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	written := make(chan struct{})
	go func() { // a provider that does not read its input must not stop the debugger
		defer close(written)
		_, _ = io.WriteString(in, d.Request(u, retry))
	}()
	header, answerErr := ReadAnswer(out)
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait() // closes the input
	<-written
	if answerErr != nil {
		return "", answerErr
	}
	if err != nil {
		return "", err
	}
	return header, nil
}

// Request returns the lines that a provider reads.
func (d *Debugger) Request(u *url.URL, retry bool) string {
	keys := []string{
		"protocol=" + u.Scheme, "host=" + u.Host, "path=" + strings.TrimPrefix(u.EscapedPath(), "/"), "resourceKind=symbols",
	}
	if d.IsSilent {
		keys = append(keys, fmt.Sprintf("issilent=%v", d.Silent), fmt.Sprintf("isRetry=%v", retry))
	} else {
		keys = append(keys, fmt.Sprintf("interactive=%d", digit(!d.Silent)), fmt.Sprintf("isRetry=%d", digit(retry)))
	}
	keys = append(keys, fmt.Sprintf("parentHwnd=%d", d.Window))
	return strings.Join(keys, "\r\n") + "\r\n\r\n"
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ReadAnswer reads the answer of a provider up to an empty line or the end, and returns the
// value for the header field Authorization. Lines without a known key are diagnostics.
func ReadAnswer(r io.Reader) (authorization string, err error) {
	values := map[string]string{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			break
		}
		key, value, ok := strings.Cut(line, "=")
		switch key = strings.ToLower(key); {
		case !ok:
		case key == "username", key == "password", key == "credentialkind", key == "header", key == "error":
			values[key] = value
		}
	}
	header, user, password := values["header"], values["username"], values["password"]
	kind := strings.ToLower(values["credentialkind"])
	switch {
	case values["error"] != "":
		return "", errors.New(values["error"])
	case header != "" && (kind == "" || kind == "bearer"):
		return header, nil
	case user != "" && password != "" && (kind == "" || kind == "basic"):
		basic := http.Request{Header: http.Header{}}
		basic.SetBasicAuth(user, password)
		return basic.Header.Get("Authorization"), nil
	}
	return "", errors.New("the answer has no credential")
}
