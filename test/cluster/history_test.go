package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history records what commands and servers said of some keys.
//
// For each server and key it must be linearizable: there is an order of all calls
// that explains all answers, in which a call that returned before another one began
// comes first. Between servers an add or a removal need not happen at the same
// time: it is entered for each server with its whole duration. So a server may
// answer with the old state while the command runs, but never after it.
type history struct {
	c    *chaos
	keys []*historyKey

	mu  sync.Mutex
	ops []porcupine.Operation // guarded by mu
}

type historyKey struct {
	*chaosKey
	dir    string
	number int  // of the transaction that holds it; 0: none
	ended  bool // an outcome is unknown
}

// historyInput is a call, historyOutput its answer.
type historyInput struct {
	node, key int
	verb      string // add, remove or get
}

type historyOutput struct{ found bool }

func newHistory(c *chaos, keys int) *history {
	h := &history{c: c}
	for range keys {
		dir := c.t.TempDir()
		k, err := c.file(dir)
		if err != nil {
			c.t.Fatal(err)
		}
		h.keys = append(h.keys, &historyKey{chaosKey: k, dir: dir})
	}
	return h
}

// record enters a call. A zero end means that it may have its effect at any later
// time.
func (h *history) record(client int, in historyInput, out historyOutput, start, end time.Time) {
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: start.UnixNano(), Return: end.UnixNano()}
	if end.IsZero() {
		op.Return = time.Now().Add(1000 * time.Hour).UnixNano()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// write adds and removes those of the keys that are this writer's, until stop is
// set.
func (h *history) write(writer, writers int, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(h.c.seed+uint64(writer), 6))
	for !stop.Load() && !h.c.t.Failed() {
		// A tenth of the keys are changed often.
		at := rng.IntN(len(h.keys))
		if rng.IntN(2) == 0 {
			at %= len(h.keys) / 10
		}
		at -= at % writers
		if at += writer; at >= len(h.keys) || h.keys[at].ended {
			pauseFor(h.c.ctx, time.Millisecond)
			continue
		}
		k := h.keys[at]
		start, verb := time.Now(), "add"
		if k.number == 0 {
			k.number = h.c.add([]*chaosKey{k.chaosKey}, k.dir)
			k.ended = k.number == 0
		} else {
			verb = "remove"
			k.ended = !h.c.remove(k.number, []*chaosKey{k.chaosKey})
			k.number = 0
		}
		end := time.Now()
		if k.ended {
			end = time.Time{}
		}
		for node := range h.c.nodes {
			h.record(1000+writer, historyInput{node, at, verb}, historyOutput{}, start, end)
		}
	}
}

// read requests keys from a node until stop is set.
func (h *history) read(node int, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(h.c.seed+uint64(node), 7))
	for !stop.Load() && !h.c.t.Failed() {
		at := rng.IntN(len(h.keys))
		if rng.IntN(2) == 0 {
			at %= len(h.keys) / 10
		}
		start := time.Now()
		status, sum := h.c.nodes[node].Get(h.c.ctx, h.keys[at].path)
		end := time.Now()
		switch {
		case status == 200 && sum != h.keys[at].sum:
			h.c.t.Errorf("node %d: GET %s: wrong bytes", node, h.keys[at].path)
		case status == 200 || status == 404:
			h.record(node, historyInput{node, at, "get"}, historyOutput{status == 200}, start, end)
		}
		pauseFor(h.c.ctx, time.Duration(rng.IntN(10))*time.Millisecond)
	}
}

// historyModel is a register for each server and key: is the key there?
var historyModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[[2]int]int{}
		for _, op := range all {
			in := op.Input.(historyInput)
			i, ok := at[[2]int{in.node, in.key}]
			if !ok {
				i = len(parts)
				at[[2]int{in.node, in.key}], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		switch in := input.(historyInput); in.verb {
		case "add":
			return true, true
		case "remove":
			return true, false
		default:
			return output.(historyOutput).found == state.(bool), state
		}
	},
	DescribeOperation: func(input, output any) string {
		in := input.(historyInput)
		if in.verb == "get" {
			return fmt.Sprintf("node %d: get %d: %v", in.node, in.key, output.(historyOutput).found)
		}
		return fmt.Sprintf("%s %d", in.verb, in.key)
	},
}

// check fails the test unless the history is linearizable.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	changes := 0
	for _, op := range h.ops {
		if op.Input.(historyInput).verb != "get" {
			changes++
		}
	}
	t.Logf("history: %d calls, %d adds and removals", len(h.ops), changes/len(h.c.nodes))
	result, info := porcupine.CheckOperationsVerbose(historyModel, h.ops, 5*time.Minute)
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Error("the history could not be checked in time")
		return
	}
	for _, part := range historyModel.Partition(h.ops) {
		if porcupine.CheckOperations(historyModel, part) {
			continue
		}
		t.Errorf("not linearizable:\n%s", describeCalls(part))
		break
	}
	if path := os.Getenv("SYMDEPOT_HISTORY"); path != "" {
		if err := porcupine.VisualizePath(historyModel, info, path); err != nil {
			t.Error(err)
		}
	}
}

// describeCalls lists the calls of one key in the order of their begin.
func describeCalls(part []porcupine.Operation) string {
	text := ""
	first := part[0].Call
	for _, op := range part {
		first = min(first, op.Call)
	}
	for _, op := range part {
		text += fmt.Sprintf("%12v to %12v: %s\n", time.Duration(op.Call-first).Round(time.Microsecond), time.Duration(op.Return-first).Round(time.Microsecond),
			historyModel.DescribeOperation(op.Input, op.Output))
	}
	return text
}

// TestHistoryModel: the check finds a server that forgets what it has shown.
func TestHistoryModel(t *testing.T) {
	t.Parallel()
	op := func(verb string, found bool, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: historyInput{0, 1, verb}, Output: historyOutput{found}, Call: call, Return: ret}
	}
	for _, c := range []struct {
		name string
		want bool
		ops  []porcupine.Operation
	}{
		{"found while it is added", true, []porcupine.Operation{op("add", false, 0, 10), op("get", false, 1, 2), op("get", true, 3, 4), op("get", true, 11, 12)}},
		{"missing after the add", false, []porcupine.Operation{op("add", false, 0, 10), op("get", false, 11, 12)}},
		{"forgotten while it is added", false, []porcupine.Operation{op("add", false, 0, 10), op("get", true, 1, 2), op("get", false, 3, 4)}},
		{"found after the removal", false, []porcupine.Operation{op("add", false, 0, 1), op("remove", false, 2, 3), op("get", true, 4, 5)}},
		{"outcome unknown", true, []porcupine.Operation{op("add", false, 0, 1000), op("get", false, 1, 2), op("get", false, 500, 501), op("get", true, 600, 601)}},
	} {
		if got := porcupine.CheckOperations(historyModel, c.ops); got != c.want {
			t.Errorf("%s: linearizable %v, want %v", c.name, got, c.want)
		}
	}
}
