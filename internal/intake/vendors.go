package intake

import "net/http"

// fileFields are the names of a form's file part: symbol_file in Breakpad's
// protocol, the others in the forms of BugSnag (dsym, soFile) and Backtrace
// (upload_file).
var fileFields = map[string]bool{"symbol_file": true, "dsym": true, "soFile": true, "upload_file": true, "file": true}

// keyFields are the fields of a form that have a token, where the vendor's tools
// send the key of an account.
var keyFields = []string{"apiKey", "api_key", "key", "token"}

func isVendorFile(field, _ string) bool { return fileFields[field] }

// formCredential uses the token in a field before the file, and refuses
// before the file is read.
func (x *exchange) formCredential(f *form) error {
	if !x.who.Writer {
		for _, name := range keyFields {
			if key := f.fields[name]; key != "" && x.in.Token != nil {
				who, denied := x.in.Token(x.r.Context(), key)
				if denied != nil {
					status := denied.Status
					if status == http.StatusUnauthorized {
						status = x.t.face.badCredential
					}
					return &failure{status, denied.Text}
				}
				x.who = who
				break
			}
		}
	}
	if !x.who.Writer {
		return x.notWriter()
	}
	if x.limit > 0 {
		return nil // done before
	}
	return x.take()
}
