package hfsplus

import (
	"encoding/binary"
	"fmt"
)

// tree is a B-tree of a volume: nodes of one size, of which the leaves are linked.
type tree struct {
	src         *content
	node        int64 // bytes
	first, last uint32
	nodes       uint32
}

const (
	descriptor = 14 // bytes at the beginning of a node
	leafNode   = 0xff
)

// openTree reads the header of a tree.
func (v *Volume) openTree(id uint32, f fork) (*tree, error) {
	c, err := v.open(id, f)
	if err != nil {
		return nil, err
	}
	h := make([]byte, descriptor+106)
	if err := readAt(c, h, 0); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	h = h[descriptor:]
	t := &tree{src: c, first: be.Uint32(h[10:]), last: be.Uint32(h[14:]), node: int64(be.Uint16(h[18:])), nodes: be.Uint32(h[22:])}
	if t.node < 512 || t.node > maxNode || t.node&(t.node-1) != 0 {
		return nil, damaged("a tree with nodes of %d bytes", t.node)
	}
	if int64(t.nodes) > f.size/t.node {
		return nil, damaged("a tree of %d nodes in %d bytes", t.nodes, f.size)
	}
	if int64(t.nodes)*t.node > maxTree {
		return nil, fmt.Errorf("%w: a tree of %d nodes", ErrLimit, t.nodes)
	}
	return t, nil
}

// each calls do for the records of the leaves, with key and data. They are valid during the call.
func (t *tree) each(do func(key, data []byte) error) error {
	be := binary.BigEndian
	node := make([]byte, t.node)
	seen := make([]bool, t.nodes)
	for n := t.first; n != 0; n = be.Uint32(node) {
		if n >= t.nodes || seen[n] {
			return damaged("the leaves of a tree do not end")
		}
		seen[n] = true
		if err := readAt(t.src, node, int64(n)*t.node); err != nil {
			return err
		}
		if node[8] != leafNode {
			return damaged("node %d is no leaf", n)
		}
		records := int(be.Uint16(node[10:]))
		if descriptor+2*(records+1) > len(node) {
			return damaged("a node of %d records", records)
		}
		offset := func(i int) int { return int(be.Uint16(node[len(node)-2*(i+1):])) }
		for i := range records {
			from, to := offset(i), offset(i+1)
			if from < descriptor || from+2 > to || to > len(node)-2*(records+1) {
				return damaged("record %d of a node lies outside of it", i)
			}
			record := node[from:to]
			key := 2 + int(be.Uint16(record))
			if key > len(record) {
				return damaged("a key of %d bytes in a record of %d", key, len(record))
			}
			if err := do(record[2:key], record[min(key+key&1, len(record)):]); err != nil {
				return err
			}
		}
	}
	return nil
}
