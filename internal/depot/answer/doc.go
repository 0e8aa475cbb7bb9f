// Package answer has what a client asks a depot and what it gets: a question with the
// products that its client may see, the file that answers it, the order in which files are
// preferred, and the notes of how a file was looked for. It opens nothing.
package answer
