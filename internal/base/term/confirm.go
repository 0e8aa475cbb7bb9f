package term

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirm prints a question to out and reads the answer of a person from in, one line.
// Only y and yes, in any letter case, are yes. The error is that of ctx if it ends before
// the answer.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) (yes bool, err error) {
	if _, err := fmt.Fprint(out, question, " [y/N] "); err != nil {
		return false, err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n') // what was read before an error is the answer
		line <- text
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case text := <-line:
		text = strings.ToLower(strings.TrimSpace(text))
		return text == "y" || text == "yes", nil
	}
}
