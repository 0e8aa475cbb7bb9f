package commandtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// systemCommands returns the programs that scripts call and this system lacks.
// Windows has a curl, Wine has none.
func systemCommands() map[string]func() {
	if symtest.Wine() == "" {
		return nil
	}
	return map[string]func(){"curl": func() { os.Exit(curl(os.Args[1:])) }}
}

// curlOptions are the options of one call of curl.
type curlOptions struct {
	method, ranges, dump, format string
	body                         []byte
	upload, user                 string // -T FILE, -u USER:PASSWORD
	etagSave, etagCompare        string
	forms                        []string // -F NAME=VALUE or NAME=@FILE
	headers, outputs, urls       []string
	fail, head, follow           bool
	retries                      int
}

// curl does what the scripts ask of curl.
func curl(args []string) int {
	o := curlOptions{method: http.MethodGet}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		value := func() string {
			v := args[0]
			args = args[1:]
			return v
		}
		switch arg {
		case "--retry":
			o.retries, _ = strconv.Atoi(value())
		case "--retry-delay", "--retry-max-time":
			value()
		case "--retry-all-errors", "--path-as-is":
		case "--etag-save":
			o.etagSave = value()
		case "--etag-compare":
			o.etagCompare = value()
		case "--write-out":
			o.format = strings.ReplaceAll(value(), `\n`, "\n")
		case "--form":
			o.addForm(value())
		case "--data":
			o.send([]byte(value()))
		case "--data-binary":
			content := []byte(value())
			if name, ok := strings.CutPrefix(string(content), "@"); ok {
				var err error
				if content, err = os.ReadFile(name); err != nil {
					fmt.Fprintln(os.Stderr, "curl:", err)
					return 26
				}
			}
			o.send(content)
		case "--config":
			if err := o.config(value()); err != nil {
				fmt.Fprintln(os.Stderr, "curl:", err)
				return 26
			}
		default:
			if !strings.HasPrefix(arg, "-") {
				o.urls = append(o.urls, arg)
				continue
			}
			for _, letter := range arg[1:] {
				switch letter {
				case 's', 'S', 'g':
				case 'f':
					o.fail = true
				case 'L':
					o.follow = true
				case 'I':
					o.head, o.method = true, http.MethodHead
				case 'o':
					o.outputs = append(o.outputs, value())
				case 'D':
					o.dump = value()
				case 'w':
					o.format = value()
				case 'H':
					o.headers = append(o.headers, value())
				case 'r':
					o.ranges = value()
				case 'X':
					o.method = value()
				case 'd':
					o.send([]byte(value()))
				case 'T':
					o.upload, o.method = value(), http.MethodPut
				case 'F':
					o.addForm(value())
				case 'u':
					o.user = value()
				default:
					fmt.Fprintf(os.Stderr, "curl: this small curl has no option %s\n", arg)
					return 2
				}
			}
		}
	}
	code := 0
	for i, url := range o.urls {
		output := "-"
		if i < len(o.outputs) {
			output = o.outputs[i]
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.retries)*time.Second)
		var failed bool
		var err error
		_ = symtest.Poll(ctx, func() bool {
			failed, err = o.fetch(url, output)
			return !failed && err == nil || o.retries == 0
		})
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, "curl:", err)
			return 7
		}
		if failed {
			code = 22
		}
	}
	return code
}

// send makes content the body of the request, which is a POST then.
func (o *curlOptions) send(content []byte) {
	o.body = content
	if o.method == http.MethodGet {
		o.method = http.MethodPost
	}
}

func (o *curlOptions) addForm(member string) {
	o.forms, o.method = append(o.forms, member), http.MethodPost
}

// config reads a file of lines url = "…" and output = "…".
func (o *curlOptions) config(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		option, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		value = strings.Trim(value, `"`)
		switch option {
		case "url":
			o.urls = append(o.urls, value)
		case "output":
			o.outputs = append(o.outputs, value)
		default:
			return fmt.Errorf("this small curl has no option %s in %s", option, name)
		}
	}
	return nil
}

// recorded keeps what a connection has read: the header as the server spelled it.
type recorded struct {
	net.Conn
	read *bytes.Buffer
}

func (r recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if r.read.Len() < 64<<10 {
		r.read.Write(p[:n])
	}
	return n, err
}

// fetch makes one request. It reports whether -f calls the answer a failure.
func (o *curlOptions) fetch(url, output string) (failed bool, err error) {
	body, kind, err := o.content()
	if err != nil {
		return false, err
	}
	if o.upload != "" && strings.HasSuffix(url, "/") {
		url += filepath.Base(o.upload)
	}
	req, err := http.NewRequest(o.method, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("User-Agent", "curl")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if user, password, ok := strings.Cut(o.user, ":"); ok {
		req.SetBasicAuth(user, password)
	}
	req.Header.Set("Accept", "*/*")
	for _, h := range o.headers {
		name, value, _ := strings.Cut(h, ":")
		req.Header.Set(name, strings.TrimSpace(value))
		if strings.EqualFold(name, "Host") {
			req.Host = strings.TrimSpace(value)
		}
	}
	if o.ranges != "" {
		req.Header.Set("Range", "bytes="+o.ranges)
	}
	if o.etagCompare != "" {
		tag, err := os.ReadFile(o.etagCompare)
		if err != nil {
			return false, err
		}
		req.Header.Set("If-None-Match", strings.TrimSpace(string(tag)))
	}
	var raw bytes.Buffer
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, Dial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		return recorded{c, &raw}, err
	}}
	resp, err := transport.RoundTrip(req)
	for hops := 0; err == nil && o.follow && resp.Header.Get("Location") != "" && hops < 10; hops++ {
		_ = resp.Body.Close()
		raw.Reset()
		req = req.Clone(req.Context())
		if req.URL, err = resp.Location(); err == nil {
			req.Host, req.Method, req.Body = "", http.MethodGet, nil
			resp, err = transport.RoundTrip(req)
		}
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	header, _, _ := bytes.Cut(raw.Bytes(), []byte("\r\n\r\n"))
	header = append(slices.Clone(header), "\r\n\r\n"...)
	if o.dump != "" {
		err = put(o.dump, bytes.NewReader(header))
	}
	if o.head && err == nil {
		err = put("-", bytes.NewReader(header))
	}
	if o.etagSave != "" && err == nil {
		err = put(o.etagSave, strings.NewReader(resp.Header.Get("ETag")+"\n"))
	}
	failed = o.fail && resp.StatusCode >= 400
	answer := &counting{Reader: resp.Body}
	if !failed && err == nil {
		err = put(output, answer)
	}
	if err != nil {
		return false, err
	}
	location := ""
	if at, err := resp.Location(); err == nil {
		location = at.String()
	}
	fmt.Print(strings.NewReplacer("%{http_code}", strconv.Itoa(resp.StatusCode), "%{redirect_url}", location,
		"%{size_download}", strconv.FormatInt(answer.n, 10)).Replace(o.format))
	return failed, nil
}

// content returns the body of the request and its type.
func (o *curlOptions) content() (body []byte, kind string, err error) {
	switch {
	case o.upload != "":
		body, err = os.ReadFile(o.upload)
		return body, "", err
	case o.body != nil:
		return o.body, "application/x-www-form-urlencoded", nil
	case len(o.forms) == 0:
		return nil, "", nil
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, member := range o.forms {
		field, value, _ := strings.Cut(member, "=")
		name, isFile := strings.CutPrefix(value, "@")
		if !isFile {
			if err := form.WriteField(field, value); err != nil {
				return nil, "", err
			}
			continue
		}
		file, err := os.ReadFile(name)
		if err != nil {
			return nil, "", err
		}
		part, err := form.CreateFormFile(field, filepath.Base(name))
		if err == nil {
			_, err = part.Write(file)
		}
		if err != nil {
			return nil, "", err
		}
	}
	err = form.Close()
	return b.Bytes(), form.FormDataContentType(), err
}

type counting struct {
	io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// put copies to a file, to standard output ("-") or nowhere ("/dev/null").
func put(name string, r io.Reader) error {
	switch name {
	case "-":
		_, err := io.Copy(os.Stdout, r)
		return err
	case "/dev/null":
		_, err := io.Copy(io.Discard, r)
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
