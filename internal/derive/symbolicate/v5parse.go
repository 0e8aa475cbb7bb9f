package symbolicate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/symdepot/symdepot/debugid"
)

// ParseV5 reads the body of a request of the versions 4 and 5. The error is a
// RequestError.
func ParseV5(body []byte) ([]Job, error) {
	if err := checkValues(body); err != nil {
		return nil, err
	}
	jobs, ok := parsePlain(body)
	if !ok || len(jobs) > maxJobs {
		var err error
		if jobs, err = parseAny(body); err != nil {
			return nil, err
		}
	}
	return jobs, limitJobs(jobs)
}

// parseAny parses any body.
func parseAny(body []byte) ([]Job, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, badRequest("Payload is not valid JSON")
	}
	if dec.More() {
		return nil, badRequest("Payload is not valid JSON")
	}
	list := []any{v}
	if m, ok := v.(map[string]any); ok && m["jobs"] != nil {
		if list, ok = m["jobs"].([]any); !ok {
			return nil, badRequest("jobs must be a list")
		}
	}
	if len(list) > maxJobs {
		return nil, badRequest("please limit number of jobs in a single request to <= %d", maxJobs)
	}
	jobs := make([]Job, len(list))
	for i, v := range list {
		if err := jobs[i].parse(i, v); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// limitJobs refuses jobs with too many modules or frames.
func limitJobs(jobs []Job) error {
	modules, frames := 0, 0
	for _, j := range jobs {
		modules += len(j.Modules)
		for _, s := range j.Stacks {
			frames += len(s)
		}
	}
	if modules > maxModules || frames > maxFrames {
		return badRequest("please limit a request to %d modules and %d frames", maxModules, maxFrames)
	}
	return nil
}

// checkValues refuses a body of more values than any request needs: decoded, each
// needs many times its bytes. Commas and brackets in names count too.
func checkValues(body []byte) error {
	n := 0
	for _, c := range body {
		if c == ',' || c == '[' || c == '{' {
			n++
		}
	}
	if n > maxValues {
		return badRequest("please limit a request to %d values", maxValues)
	}
	return nil
}

func (j *Job) parse(n int, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return badRequest("job %d is invalid", n)
	}
	stacks, ok := m["stacks"]
	if !ok {
		return badRequest("job %d is invalid: no stacks specified", n)
	}
	modules, ok := m["memoryMap"]
	if !ok {
		return badRequest("job %d is invalid: no memoryMap specified", n)
	}
	if what := j.parseModules(modules); what != "" {
		return badRequest("job %d has invalid modules: %s", n, what)
	}
	if what := j.parseStacks(stacks); what != "" {
		return badRequest("job %d has invalid stacks: %s", n, what)
	}
	return nil
}

// parseModules returns a description of the fault, or an empty string.
func (j *Job) parseModules(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "modules must be a list"
	}
	for i, v := range list {
		pair, ok := v.([]any)
		if !ok || len(pair) != 2 {
			return fmt.Sprintf("module index %d does not have a debug_filename and debug_id", i)
		}
		name, ok := pair[0].(string)
		if !ok || !validModuleName(name) {
			return fmt.Sprintf("module index %d has an invalid debug_filename", i)
		}
		id, ok := pair[1].(string)
		if !ok || id != "" && !debugid.IsHex(id) {
			return fmt.Sprintf("module index %d has an invalid debug_id", i)
		}
		j.Modules = append(j.Modules, ModuleQuery{DebugFile: name, DebugID: id})
	}
	return ""
}

// parseStacks returns a description of the fault, or an empty string.
func (j *Job) parseStacks(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "stacks must be a list of lists"
	}
	if len(list) == 0 {
		return "no stacks specified"
	}
	j.Stacks = make([][]Offset, len(list))
	for i, v := range list {
		frames, ok := v.([]any)
		if !ok {
			return fmt.Sprintf("stack %d is not a list", i)
		}
		stack := make([]Offset, len(frames))
		for k, v := range frames {
			pair, ok := v.([]any)
			if !ok || len(pair) != 2 {
				return fmt.Sprintf("stack %d frame %d is not a list of two items", i, k)
			}
			module, ok := integer(pair[0])
			if !ok || module < -1 {
				return fmt.Sprintf("stack %d frame %d has an invalid module_index", i, k)
			}
			if module >= int64(len(j.Modules)) {
				return fmt.Sprintf("stack %d frame %d has a module_index that isn't in modules", i, k)
			}
			offset, ok := integer(pair[1])
			if !ok || offset < -1 {
				return fmt.Sprintf("stack %d frame %d has an invalid module_offset", i, k)
			}
			stack[k] = Offset{int(module), offset}
		}
		j.Stacks[i] = stack
	}
	return ""
}

// integer returns the value of a JSON number without a fraction.
func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}
